"""Tests that take minutes run where their inputs differ from those they last passed with.

`@pytest.mark.inputs(...)` names the inputs: files, folders and patterns below the repository's
root. A run in which such a test passes writes their digest to digests.txt, to be committed.
`--all` runs these tests in any case, and the tests marked `long`, which are skipped without it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import pytest

FILE = Path(__file__).with_suffix(".txt")
ROOT = Path(__file__).parents[1]
ALWAYS = ("requirements-test.lock",)
MARKS = (
    "inputs(*paths): runs if one of these files changed since it passed, and with --all",
    "long: runs with --all alone; a short form of it runs always",
)


def skip_unchanged(items: list[pytest.Item], run_all: bool) -> None:
    """Skip the tests that need not run, and note the digest of the others' inputs."""
    stored = _stored()
    for item in items:
        if item.get_closest_marker("long") and not run_all:
            item.add_marker(pytest.mark.skip(reason="long: runs with --all"))
        paths = [path for mark in item.iter_markers("inputs") for path in mark.args]
        if not paths:
            continue
        own = str(item.path.relative_to(ROOT))
        digest = _short("".join(_digest(path) for path in sorted({*ALWAYS, own, *paths})))
        item.user_properties.append(("inputs", digest))
        if stored.get(item.nodeid) == digest and not run_all:
            reason = "passed with these inputs, see tests/digests.txt: runs with --all"
            item.add_marker(pytest.mark.skip(reason=reason))


def _stored() -> dict[str, str]:
    """Test -> digest. Where a merge left two lines of a test, it runs again or does not."""
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    return {name: digest for digest, _, name in (line.partition(" ") for line in lines)}


def store(passed: dict[str, str]) -> None:
    """Write the digests of tests that passed, and leave out those of files that are gone."""
    if not passed.items() - _stored().items():
        return
    every = sorted((_stored() | passed).items())
    lines = [f"{one} {name}" for name, one in every if (ROOT / name.partition("::")[0]).exists()]
    FILE.write_text("\n".join([*lines, ""]))


@cache
def _digest(pattern: str) -> str:
    found = [path for path in ROOT.glob(pattern) if path.name != "__pycache__"]
    if not found:
        raise pytest.UsageError(f"'{pattern}', an input of a test, names no file")
    files = {file for path in found for file in (path.rglob("*") if path.is_dir() else [path])}
    kept = [file for file in files if file.is_file() and file.suffix != ".pyc"]
    return "".join(
        f"{file.relative_to(ROOT)} {_short(file.read_bytes())}\n" for file in sorted(kept)
    )


def _short(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]

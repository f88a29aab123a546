"""Tests that take minutes run where their inputs differ from those they last passed with.

`@pytest.mark.inputs(...)` names the inputs: files, folders and patterns below the repository's
root. A run in which such a test passes writes their digest to digests.txt, to be committed.
`--all` runs these tests in any case, and the tests marked `long`, which are skipped without it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
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
    stored = set(FILE.read_text().splitlines()) if FILE.exists() else set()
    functions: dict[str, dict[pytest.Item, str]] = {}
    for item in items:
        if item.get_closest_marker("long") and not run_all:
            item.add_marker(pytest.mark.skip(reason="long: runs with --all"))
        paths = [path for mark in item.iter_markers("inputs") for path in mark.args]
        if paths:
            paths += [*ALWAYS, str(item.path.relative_to(ROOT))]
            digest = _short("".join(_digest(path) for path in sorted({*paths})))
            functions.setdefault(item.nodeid.partition("[")[0], {})[item] = digest
    for function, digest_of in functions.items():
        together = len({*digest_of.values()}) == 1  # a line for all of its parameters
        for item, digest in digest_of.items():
            line = f"{digest} {function if together else item.nodeid}"
            item.user_properties.append(("inputs", (line, len(digest_of) if together else 1)))
            if line in stored and not run_all:
                reason = "passed with these inputs, see tests/digests.txt: runs with --all"
                item.add_marker(pytest.mark.skip(reason=reason))


class Passed:
    """Writes the digests of the tests that passed, in whichever process they ran."""

    def __init__(self) -> None:
        self.passed: Counter[tuple[str, int]] = Counter()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = dict(report.user_properties).get("inputs")
        if line and report.when == "call" and report.passed:
            self.passed[tuple(line)] += 1
        elif line and report.failed:
            self.failed.add(line[0])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        lines = {line for (line, count), passed in self.passed.items() if passed == count}
        lines -= self.failed
        if not lines | self.failed or any("::" in argument for argument in session.config.args):
            return
        stored = {*FILE.read_text().splitlines()} - self.failed if FILE.exists() else {*()}
        name_of = {line: line.partition(" ")[2] for line in [*stored, *lines]}
        names = {name_of[line] for line in lines}
        lines |= {line for line in stored if name_of[line] not in names}
        lines = {line for line in lines if (ROOT / name_of[line].partition("::")[0]).exists()}
        FILE.write_text("".join(f"{line}\n" for line in sorted(lines, key=name_of.get)))


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

"""Tests that take long run where their inputs differ from those they last passed with.

`@pytest.mark.inputs(...)` names the inputs of a test, and `RESTS_ON` those of whole files: files,
folders without the tests in them, and patterns below the repository's root. A run in which all of
it passes writes a digest of the inputs to digests.txt, to be committed. On another kind of
processor or Python all tests run.
`--all` runs these tests in any case, and the tests marked `long`, which are skipped without it.
"""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

FILE = Path(__file__).with_suffix(".txt")
ROOT = Path(__file__).parents[1]
ALWAYS = ("requirements-test.lock",)
ON = f"{platform.machine()} {platform.python_version().rpartition('.')[0]}"
MARKS = (
    "inputs(*paths): runs if one of these files changed since it passed, and with --all",
    "long: runs with --all alone; a short form of it runs always",
)


def files(folders: Mapping[str, str]) -> list[Path]:
    """The files of tests that are named by folder, which must exist."""
    here = Path(__file__).parent
    found = [
        here / at / f"test_{name}.py" for at, names in folders.items() for name in names.split()
    ]
    if missing := [str(path) for path in found if not path.exists()]:
        raise pytest.UsageError(f"tests name {', '.join(missing)}")
    return found


# Files that compile many programs, and all that they import of ours (test_imports.py checks it).
FORMULAS = ("variants", "ablations/errors.py", "ablations/presets", "tests/golden")
FORMULAS = (*FORMULAS, "tests/variants")
TRAINERS = (
    *FORMULAS,
    *("ablations/core", "ablations/environments", "ablations/names.py", "ablations/parquet.py"),
    *("ablations/records.py", "ablations/tasks", "ablations/trainers", "tests/trainers"),
)
STATISTICS = (
    *("ablations/core", "ablations/errors.py", "ablations/names.py", "ablations/stats"),
    *("ablations/studies", "tests/golden", "tests/stats"),
)
RESTS_ON = dict.fromkeys(
    files({"variants": "formulas gradients_of_lanes properties recorded_losses switching"}),
    (*FORMULAS, "tests/variants/test_switching.py"),
) | dict.fromkeys(
    files(
        {
            "presets": "normalizers updates",
            "tasks": "gymnax",
            "tasks/language": "puzzles",
            "trainers": "optimizer",
            "trainers/control": "batching coefficients critic_and_statistics estimates "
            "every_choice networks numbers ppo pqn",
            "trainers/language": "decoder library_steps",
        }
    ),
    (*TRAINERS, "tests/presets", "tests/trainers/control/test_estimates.py"),
)
RESTS_ON |= dict.fromkeys(
    files({"stats": "aggregates differences factorial interim seeds shares summaries"}), STATISTICS
)
RESTS_ON |= dict.fromkeys(
    files({"trainers": "trivial", "trainers/language": "language"}),
    (
        *(*TRAINERS, "ablations/cli.py", "ablations/commands", "ablations/engine"),
        *("ablations/git.py", "ablations/io", "ablations/parameters.py", "ablations/plugins.py"),
        *("ablations/private.py", "ablations/request.py", "ablations/stats", "ablations/studies"),
        *("tests/forked.py", "tests/forks.py"),
    ),
)


def skip_unchanged(items: list[pytest.Item], run_all: bool) -> None:
    """Skip the tests that need not run, and note the digest of the others' inputs."""
    stored = set(FILE.read_text().splitlines()) if FILE.exists() else set()
    groups: dict[str, dict[pytest.Item, str]] = {}  # functions, and files of RESTS_ON
    for item in items:
        if item.get_closest_marker("long") and not run_all:
            item.add_marker(pytest.mark.skip(reason="long: runs with --all"))
            continue
        paths = [path for mark in item.iter_markers("inputs") for path in mark.args]
        group = item.nodeid.partition("[")[0]
        if not paths and item.path in RESTS_ON:
            paths, group = [*RESTS_ON[item.path]], item.nodeid.partition("::")[0]
        if paths:
            paths += [*ALWAYS, str(item.path.relative_to(ROOT))]
            digest = _short(ON + "".join(_digest(path) for path in sorted({*paths})))
            groups.setdefault(group, {})[item] = digest
    for group, digest_of in groups.items():
        together = len({*digest_of.values()}) == 1  # a line for all of its parameters
        for item, digest in digest_of.items():
            line = f"{digest} {group if together else item.nodeid}"
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
        chosen = session.config.option.keyword or session.config.option.markexpr
        chosen = chosen or any("::" in argument for argument in session.config.args)
        if chosen or not lines | self.failed:
            return
        stored = {*FILE.read_text().splitlines()} - self.failed if FILE.exists() else {*()}
        name_of = {line: line.partition(" ")[2] for line in [*stored, *lines]}
        names = {name_of[line] for line in lines}
        lines |= {line for line in stored if name_of[line] not in names}
        lines = {line for line in lines if (ROOT / name_of[line].partition("::")[0]).exists()}
        FILE.write_text("".join(f"{line}\n" for line in sorted(lines, key=name_of.get)))


def _is_test(file: Path) -> bool:
    return file.name.startswith("test_") and file.is_relative_to(FILE.parent)


@cache
def _digest(pattern: str) -> str:
    found = [path for path in ROOT.glob(pattern) if path.name != "__pycache__"]
    if not found:
        raise pytest.UsageError(f"'{pattern}', an input of a test, names no file")
    files = {file for path in found for file in (path.rglob("*") if path.is_dir() else [path])}
    kept = [file for file in files if file.is_file() and file.suffix != ".pyc"]
    kept = [file for file in kept if file in found or not _is_test(file)]
    return "".join(
        f"{file.relative_to(ROOT)} {_short(file.read_bytes())}\n" for file in sorted(kept)
    )


def _short(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]

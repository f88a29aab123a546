"""Writes down what a refactoring must not change, as text files that `diff -r` compares.

    python tests/benchmarks/guard.py BEFORE           # at the commit before the change
    python tests/benchmarks/guard.py AFTER [--bits]   # after it; then: diff -r BEFORE AFTER

hashes/: of every cell of every profile of every shipped study and preset. tables/: every study of
the archives, in each kind and format, and its export as CSV. commands/: what
the reading commands print. --bits: the curves of the smoke cells of three studies, trained anew.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ablations import cli
from ablations.errors import UserError
from ablations.presets import presets
from ablations.request import Request
from ablations.studies import studies
from ablations.sweep.plan import plan

ROOT = Path(__file__).parents[2]
ARCHIVES = ROOT / "results" / "archive"
KINDS = ("comparison", "effects", "efficiency", "power")
FORMATS = ("markdown", "latex", "csv", "html", "json")
READING = (
    ["list", "axes"],
    ["list", "studies", "--json"],
    ["list", "tasks"],
    ["list", "presets"],
    ["show", "gae"],
    ["show", "prompt_normalization"],
    ["show", "brax"],
    ["status", "gae", "--profile", "claims", "--json"],
    ["explain", "brax", "cleanrl", "--tasks", "fast", "--profile", "smoke", "--dry-run"],
)
TRAINED = ("gae", "value_coefficient", "prompt_normalization")


def printed(*arguments: str) -> str:
    """Return what a command prints, its exit code and what it says beside, without paths."""
    out, beside = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(beside):
        try:
            code = cli.main(list(arguments))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    text = f"{out.getvalue()}\n[stderr]\n{beside.getvalue()}\n[exit] {code}\n"
    return text.replace(str(Path.cwd()), ".").replace(str(ROOT), ".")


def hashes() -> Iterator[tuple[str, str]]:
    """Yield a file for every study and preset, with a line for each cell."""
    requests = [Request(name, profile) for name, s in studies().items() for profile in s.profiles]
    requests += [Request("gae", "smoke", base=name) for name in presets()]
    for request in requests:
        try:
            lines = [
                f"{entry.task} {entry.variant} {entry.seed} {entry.hash}"
                for entry in plan(request).cells
            ]
        except UserError as error:
            lines = [str(error)]
        yield f"{request.study}-{request.profile}-{request.base or 'own'}", "\n".join(lines) + "\n"


def tables(results: str) -> Iterator[tuple[str, str]]:
    """Yield every archived study's tables, as printed, by the flags that name its plan."""
    archived = {path.name.rpartition("-")[0] for path in ARCHIVES.glob("*.parquet")}
    for study in sorted(archived & studies().keys()):
        selection = [study, "--profile", "claims", "--results", results]
        for kind in KINDS:
            for form in FORMATS:
                name = f"{study}-{kind}.{form}"
                yield name, printed("table", *selection, "--kind", kind, "--format", form)


def digests(folder: Path) -> str:
    """Return a line for each file of a folder: its digest and its name."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.relative_to(folder)}\n"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )


def write(folder: Path, files: Iterator[tuple[str, str]]) -> None:
    """Write text files, one at a time, so that what was done stays when a later one fails."""
    folder.mkdir(parents=True, exist_ok=True)
    done = set()
    for name, text in files:
        if name not in done:
            (folder / name).write_text(text)
            done.add(name)
    print(f"{folder}: {len(done)} files", file=sys.stderr)


def main() -> None:
    """Write the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--bits", action="store_true")
    asked = parser.parse_args()
    output = asked.output.resolve()
    write(output / "hashes", hashes())
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        shutil.copytree(
            ROOT / "results", "results", ignore=shutil.ignore_patterns("cells", "plans")
        )
        write(output / "tables", tables("results"))
        write(
            output / "commands",
            (("_".join(line).replace("/", "_"), printed(*line)) for line in READING),
        )
        if asked.bits:
            for study in TRAINED:
                printed("run", study, "--profile", "smoke", "--seeds", "1", "--results", "trained")
            lines = digests(Path("trained/cells")).splitlines(keepends=True)
            curves = [line for line in lines if line.endswith("curve.parquet\n")]
            write(output / "bits", iter([("curves", "".join(curves))]))


if __name__ == "__main__":
    main()

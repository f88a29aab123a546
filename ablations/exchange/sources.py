"""Logs in the paths that are given: files, folders, patterns; their runs, each at its place."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ablations import logs
from ablations.core.files import require_regular
from ablations.errors import UserError, count
from ablations.exchange.others import Run, Source, runs_in
from ablations.exchange.outcomes import Outcome, exported
from ablations.exchange.places import Place, placed
from ablations.exchange.reading import Curve, is_long, judged_of, read_csv, table_text

# Files that are looked for in a folder: the first kind that is there.
_KINDS = (
    *(r"evaluations\.npz", rf".*{logs.EVENTS}.*", r"progress\.(csv|txt)"),
    r".*\.(csv|tsv|jsonl|ndjson|parquet)",
)
# Names of files that say nothing of the run.
_COMMON = re.compile("progress|evaluations|metrics|logs?|results|history|eval|train")


@dataclass(frozen=True)
class Rule:
    """Rule by which runs are read.

    metric: the column or tag that is judged; by default "return", or the first known return tag.
    step: the column that counts; by default a known one.
    pattern: where the names of folders and files have their parts, such as
        "{task}/{run}/seed{seed}".
    """

    metric: str | None = None
    step: str | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class Read:
    """Runs that were read. where: the path that was given. outcomes: those that a file states."""

    where: Path
    curves: Mapping[Place, Curve]
    metric: str
    outcomes: Mapping[Place, Outcome] = field(default_factory=dict)


def read_all(paths: Sequence[Path | str], rule: Rule, notes: list[str]) -> Iterator[Read]:
    """Read the runs in paths: tables first, then logs, those that are given as files together.

    notes: takes a line for what is left out. Raises UserError.
    """
    files = [Path(path) for path in paths if Path(path).is_file()]
    if len(again := {*files}) < len(files):
        raise UserError(f"a file is given twice: {', '.join(map(str, sorted(again)))}")
    groups = [
        (Path(path), *_inside(Path(path), notes)) for path in paths if Path(path) not in files
    ]
    if files:
        folders = [file.absolute().parent for file in files]
        groups.append((files[0], Path(os.path.commonpath(folders)), files))
    for stated_path, root, files_in in groups:
        runs: list[Run] = []
        for source in _sources(root.absolute(), files_in, rule.pattern):
            with _named(source.path):
                if not _is_table(source):
                    runs += runs_in(source, rule.step)
                    continue
                text = table_text(source.path)
                curves, metric = read_csv(source.path, rule.metric, notes, text, rule.step)
                known = exported(source.path, text)
            yield Read(source.path, curves, metric, known)
        if runs:
            yield _judged(stated_path, runs, rule, notes)


def _is_table(source: Source) -> bool:
    """Return whether a file is a table with columns for runs or seeds, or Parquet."""
    file = source.path.is_file()
    return file and (source.file.start.startswith(b"PAR1") or is_long(source.header))


def _judged(path: Path, runs: Sequence[Run], rule: Rule, notes: list[str]) -> Read:
    """Read the curves of runs, each at its place."""
    metrics = dict.fromkeys(metric for run in runs for metric in run.metrics)
    if not metrics:
        runs[0].read(rule.metric or "return", notes)  # says why there is none
    only = next(iter(metrics)) if len(metrics) == 1 else None
    judged = judged_of(rule.metric or only, metrics, f"metric in '{path}' (choose with --metric)")
    known = {run.source: run for run in runs if judged in run.metrics}
    notes += (f"left out: '{r.name}' has no {judged}" for r in runs if judged not in r.metrics)
    stated = {source: run.stated for source, run in known.items()}
    texts = {source: run.name for source, run in known.items()}
    curves = {}
    for place, source in placed(texts, rule.pattern, stated).items():
        with _named(source):
            curves[place] = known[source].read(judged, notes)
    notes += _copies(curves, judged)
    return Read(path, curves, judged)


def _copies(curves: Mapping[Place, Curve], metric: str) -> Iterator[str]:
    """Say which seeds of a run have the same curve, a line each."""
    known: dict[tuple[str, str, bytes], int] = {}
    for (task, run, seed), curve in curves.items():
        data = curve.steps.tobytes() + curve.values[metric].tobytes()
        other = known.setdefault((task, run, data), seed)
        if other != seed and len(curve.steps) > 1:
            yield f"seeds {other} and {seed} of '{run}' on '{task}' have the same curve: a copy?"


@contextlib.contextmanager
def _named(source: Path) -> Iterator[None]:
    """Name a file by its whole path where an error does not."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read '{source}': {error.strerror or error}") from None
    except UserError as error:
        if str(source) in str(error):
            raise
        raise UserError(f"'{source}': {error}") from None


def _inside(path: Path, notes: list[str]) -> tuple[Path, list[Path]]:
    """Return the folder below which names count, and the files in a folder or of a pattern."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        kinds = {kind: [each for each in files if re.fullmatch(kind, each.name)] for kind in _KINDS}
        first = next((kind for kind, of_kind in kinds.items() if of_kind), None)
        if first is None:
            raise UserError(f"no TensorBoard event files or other logs in '{path}'")
        others = {*itertools.chain(*kinds.values())} - {*kinds[first]}
        if others:
            names = ", ".join(sorted({each.name for each in others})[:3])
            notes.append(
                f"left out: {count(len(others), 'file')} of other kinds in '{path}' ({names}): "
                f"name them, or a pattern"
            )
        return path, kinds[first]
    if path.exists():
        require_regular(path)
    if not glob.has_magic(str(path)):
        raise UserError(f"no such file: '{path}'")
    matches = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    if not matches:
        raise UserError(f"no file is called like '{path}'")
    root = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), path.parts))
    return root, [
        each
        for path_found in matches
        for each in (_inside(path_found, notes)[1] if path_found.is_dir() else [path_found])
    ]


def _sources(root: Path, files: Sequence[Path], pattern: str | None) -> list[Source]:
    """Return files, or folders of event files, with the names that say task, run and seed.

    A name is the way from `root` to the file, without what all files are called and what says
    nothing, such as progress.csv; for a pattern of more parts, with the folders above.
    """
    paths = dict.fromkeys(file.parent if logs.EVENTS in file.name else file for file in files)
    alike = len({path.name for path in paths}) == 1 < len({path.parent for path in paths})
    sources = []
    for path in paths:
        folder = path.absolute() if path.is_dir() else path.absolute().parent
        own = [] if path.is_dir() or _COMMON.fullmatch(path.stem) or alike else [path.stem]
        if pattern and path.suffix and pattern.endswith(path.suffix):
            own = [path.name]
        below = len(folder.relative_to(root).parts)
        wanted = max(below, 0 if own else 1, pattern.count("/") + 1 - len(own) if pattern else 0)
        sources.append(Source(path, "/".join([*folder.parts[len(folder.parts) - wanted :], *own])))
    return sources

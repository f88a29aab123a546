"""Runs as Stable-Baselines3's EvalCallback and Trackio store them."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ablations import logs
from ablations.errors import UserError, count
from ablations.exchange.places import Place, parse, placed
from ablations.exchange.reading import Curve, joined, judged_of
from ablations.logs.numbers import as_number
from ablations.logs.order import Part, Points, in_order

EVALUATIONS = "evaluations.npz"
_RESULTS = "results"  # the returns in it
_DATABASES = (".db", ".sqlite", ".sqlite3")


def is_database(path: Path) -> bool:
    """Return whether a path is called like a database."""
    return path.suffix in _DATABASES


def evaluations(root: Path) -> list[Path]:
    """Return every evaluations.npz at or under a path."""
    return [root] if root.is_file() else sorted(root.rglob(EVALUATIONS))


def shown(source: Path) -> str:
    """Return the name of a run's file or folder, by which it is told from the others."""
    return f"{source.parent.name}/{source.name}" if source.name == EVALUATIONS else source.name


class _Row(NamedTuple):
    """A row of Trackio's. run: its id, in the first versions its name."""

    run: str
    name: str
    step: object
    metrics: bytes | str


def read_evaluations(
    root: Path, metric: str | None, pattern: str | None, notes: list[str]
) -> tuple[dict[Place, Curve], str]:
    """Read the evaluations.npz under a folder; return runs and the metric that is judged.

    That is their mean return. Names say task, run and seed as those of event files do. notes: takes
    a line for what is left out, and for seeds that no name says. Raises UserError.
    """
    judged = metric or _RESULTS
    names: dict[Path, str] = {}
    read: dict[Path, logs.Log] = {}
    for path in evaluations(root):
        name = path.parent.name if root.is_file() else path.parent.relative_to(root).as_posix()
        name = root.name if name == "." else name
        try:
            read[path] = logs.read(path, judged, "timesteps")
            names[path] = name
        except logs.NoValue:
            notes.append(f"left out: '{name}' has no evaluation")
        except UserError as error:
            raise UserError(f"'{path.parent}': {error}") from None
    if not read:
        raise UserError(f"no {EVALUATIONS} in '{root}' has an evaluation")
    return {
        place: joined(_by_metric(read[path].points), judged, path)
        for place, path in placed(names, pattern, notes).items()
    }, judged


def read_trackio(
    path: Path, metric: str | None, pattern: str | None, notes: list[str]
) -> tuple[dict[Place, Curve], str]:
    """Read the runs of a Trackio project's database; return them and the metric that is judged.

    Their names say task, run and seed. Where a resumed run repeats steps, what came later counts.
    notes: takes a line for what is left out, and for seeds that no name says. Raises UserError.
    """
    points: dict[str, list[tuple[int, dict[str, float]]]] = {}
    names: dict[str, str] = {}
    left_out = Counter[str]()
    for row in _rows(path):
        numbers = _numbers(row.metrics)
        if not numbers:
            left_out["of damaged JSON"] += numbers is None
        elif row.step is None:
            left_out["without a step"] += 1
        elif isinstance(row.step, int):
            names[row.run] = row.name
            points.setdefault(row.run, []).append((row.step, numbers))
        else:
            raise UserError(
                f"'{path}': a step of '{row.name}' is no whole number: {row.step!r:.40}"
            )
    notes += (f"left out: {count(rows, 'row')} {why}" for why, rows in left_out.items() if rows)
    metrics = {name: None for rows in points.values() for _, row in rows for name in row}
    judged = judged_of(metric, metrics, f"metric in '{path}' (choose with --metric)")
    runs: dict[Path, str] = {}
    for run, name in names.items():
        twins = [other for other, called in names.items() if called == name]
        if len(twins) > 1 and parse(name, pattern).seed is not None:
            raise UserError(
                f"'{path}' has {len(twins)} runs called '{name}' (ids {', '.join(twins)}): rename "
                f"or delete all but one"
            )
        if any(judged in row for _, row in points[run]):
            runs[path / name / run] = run
        else:
            notes.append(f"left out: '{name}' has no {judged}")
    curves: dict[Place, Curve] = {}
    texts = {source: names[run] for source, run in runs.items()}
    for place, source in placed(texts, pattern, notes).items():
        scalars = {
            tag: in_order(tag, [Part(texts[source], of_tag)], notes if tag == judged else None)
            for tag, of_tag in _by_metric(points[runs[source]]).items()
        }
        curves[place] = joined(scalars, judged, path / texts[source])
    return curves, judged


def _rows(path: Path) -> list[_Row]:
    """Return the rows in the order written."""
    if not path.is_file():
        raise UserError(f"no such file: '{path}'")
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)
        ) as database:
            columns = [column[1] for column in database.execute("PRAGMA table_info(metrics)")]
            run = "coalesce(run_id, run_name)" if "run_id" in columns else "run_name"
            rows = database.execute(
                f"SELECT {run}, run_name, step, metrics FROM metrics ORDER BY id"
            ).fetchall()
    except sqlite3.Error as error:
        raise UserError(f"'{path}' is no database of Trackio's: {error}") from None
    return [_Row(str(run), str(name), step, metrics) for run, name, step, metrics in rows]


def _numbers(metrics: bytes | str) -> dict[str, float] | None:
    """Return the numbers of a row, None where it cannot be read.

    Trackio writes NaN and infinities as text.
    """
    try:
        row = json.loads(metrics)
    except (ValueError, TypeError, RecursionError):
        return None
    found = {}
    for name, value in row.items() if isinstance(row, Mapping) else ():
        text = isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity")
        number = None if text or isinstance(value, bool) else as_number(value)
        if number is not None:
            found[name] = number
    return found


def _by_metric(points: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for step, row in points:
        for name, value in row.items():
            found.setdefault(name, []).append((step, value))
    return found

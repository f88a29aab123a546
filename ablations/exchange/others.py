"""Runs as Stable-Baselines3's EvalCallback and Trackio store them."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from ablations import logs
from ablations.errors import UserError, count, unknown
from ablations.exchange.places import Place, Placing, parse
from ablations.exchange.reading import Curve, joined, judged_of
from ablations.logs.numbers import as_number
from ablations.logs.order import Part, Points, in_order

EVALUATIONS = "evaluations.npz"
_RESULTS = "results"  # the returns in it
_DATABASES = (".db", ".sqlite", ".sqlite3")


def is_database(path: Path) -> bool:
    return path.suffix in _DATABASES


def evaluations(root: Path) -> list[Path]:
    """Every evaluations.npz at or under a path."""
    return [root] if root.is_file() else sorted(root.rglob(EVALUATIONS))


def shown(source: Path) -> str:
    """The name of a run's file or folder, by which it is told from the others."""
    return f"{source.parent.name}/{source.name}" if source.name == EVALUATIONS else source.name


class _Row(NamedTuple):
    """A row of Trackio's. run: its id, in the first versions its name."""

    run: str
    name: str
    step: Any
    metrics: bytes | str


def read_evaluations(
    root: Path, metric: str | None, pattern: str | None, notes: list[str] | None = None
) -> tuple[dict[Place, Curve], str]:
    """The evaluations.npz under a folder, whose names say task, run and seed as those of event
    files do; and the metric that is judged, their mean returns. notes: takes a line for what is
    left out, and for seeds that no name says. Raises UserError."""
    notes = [] if notes is None else notes
    judged = metric or _RESULTS
    placing = Placing(pattern)
    read: dict[Path, logs.Log] = {}
    for path in evaluations(root):
        name = path.parent.name if root.is_file() else path.parent.relative_to(root).as_posix()
        name = root.name if name == "." else name
        try:
            read[path] = logs.read(path, judged, "timesteps")
        except logs.NoValue:
            notes.append(f"left out: '{name}' has no evaluation")
        except UserError as error:
            raise UserError(f"'{path.parent}': {error}") from None
        else:
            placing.add(name, path)
    if not read:
        raise UserError(f"no {EVALUATIONS} in '{root}' has an evaluation")
    places = placing.places(notes)
    return {
        place: joined(_by_metric(read[path].points), judged, path) for place, path in places.items()
    }, judged


def read_trackio(
    path: Path, metric: str | None, pattern: str | None, notes: list[str] | None = None
) -> tuple[dict[Place, Curve], str]:
    """The runs of a Trackio project's database, by their ids, whose names say task, run and seed;
    and the metric that is judged. Where a resumed run repeats steps, what came later counts. notes:
    takes a line for what is left out, and for seeds that no name says. Raises UserError."""
    notes = [] if notes is None else notes
    points: dict[str, list[tuple[int, dict[str, float]]]] = {}
    names: dict[str, str] = {}
    timeless = unread = 0
    for row in _rows(path):
        numbers = _numbers(row.metrics)
        if numbers is None:
            unread += 1
        elif numbers and row.step is None:
            timeless += 1
        elif numbers and not isinstance(row.step, int):
            raise UserError(
                f"'{path}': a step of '{row.name}' is no whole number: {row.step!r:.40}"
            )
        elif numbers:
            names[row.run] = row.name
            points.setdefault(row.run, []).append((row.step, numbers))
    for rows, why in ((timeless, "without a step"), (unread, "of damaged JSON")):
        if rows:
            notes.append(f"left out: {count(rows, 'row')} {why}")
    metrics = {name: None for rows in points.values() for _, row in rows for name in row}
    judged = metric or judged_of(metrics)
    if judged is None or judged not in metrics:
        raise unknown(f"metric in '{path}' (choose with --metric)", judged or "return", metrics)
    placing = Placing(pattern)
    sources: dict[Path, str] = {}
    for run, name in names.items():
        twins = [other for other, called in names.items() if called == name]
        if len(twins) > 1 and parse(name, pattern).seed is not None:
            raise UserError(
                f"'{path}' has {len(twins)} runs called '{name}' (ids {', '.join(twins)}): rename "
                f"or delete all but one"
            )
        if not any(judged in row for _, row in points[run]):
            notes.append(f"left out: '{name}' has no {judged}")
            continue
        sources[path / name / run] = run
        placing.add(name, path / name / run)
    runs: dict[Place, Curve] = {}
    for place, source in placing.places(notes).items():
        name, written = names[sources[source]], _by_metric(points[sources[source]])
        scalars = {}
        for tag, of_tag in written.items():
            scalars[tag] = in_order(tag, [Part(name, of_tag)], notes if tag == judged else None)
        runs[place] = joined(scalars, judged, path / name)
    return runs, judged


def _rows(path: Path) -> list[_Row]:
    """In the order written."""
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
    """Those of a row that are numbers; Trackio writes NaN and infinities as text. None where it
    cannot be read."""
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

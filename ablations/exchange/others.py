"""Runs as Stable-Baselines3's EvalCallback and Trackio store them."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ablations import logs
from ablations.errors import UserError, unknown
from ablations.exchange.reading import Curve, Place, judged_of, place_of

EVALUATIONS = "evaluations.npz"
_RESULTS = "results"  # the returns in it
_DATABASES = (".db", ".sqlite", ".sqlite3")


def is_database(path: Path) -> bool:
    return path.suffix in _DATABASES


def evaluations(root: Path) -> list[Path]:
    """Every evaluations.npz at or under a path."""
    return [root] if root.is_file() else sorted(root.rglob(EVALUATIONS))


def read_evaluations(
    root: Path, metric: str | None, pattern: str | None
) -> tuple[dict[Place, Curve], str]:
    """The evaluations.npz under a folder, whose names say task, run and seed as those of event
    files do; and the metric that is judged, their mean returns. Raises UserError."""
    judged = metric or _RESULTS
    runs: dict[Place, Curve] = {}
    for path in evaluations(root):
        name = path.parent.name if root.is_file() else path.parent.relative_to(root).as_posix()
        place = place_of(root.name if name == "." else name, pattern)
        _require_apart(runs, place, path)
        log = logs.read(path, judged, "timesteps")
        runs[place] = _curve([(step, dict(row)) for step, row in log.points], path)
    return runs, judged


def read_trackio(
    path: Path, metric: str | None, pattern: str | None
) -> tuple[dict[Place, Curve], str]:
    """The runs of a Trackio project's database, whose names say task, run and seed, and the metric
    that is judged. Raises UserError."""
    by_run: dict[str, list[tuple[int, dict[str, float]]]] = {}
    for name, step, metrics in _rows(path):
        numbers = dict(_numbers(metrics))
        if numbers:
            by_run.setdefault(str(name), []).append((int(step), numbers))
    names = {name: None for points in by_run.values() for _, row in points for name in row}
    judged = metric or judged_of(names)
    if judged is None or judged not in names:
        raise unknown(f"metric in '{path}' (choose with --metric)", judged or "return", names)
    runs: dict[Place, Curve] = {}
    for name, points in by_run.items():
        judges = [point for point in points if judged in point[1]]
        if judges:
            place = place_of(name, pattern)
            _require_apart(runs, place, path / name)
            runs[place] = _curve(judges, path / name)
    return runs, judged


def _rows(path: Path) -> list[tuple[Any, Any, Any]]:
    if not path.is_file():
        raise UserError(f"no such file: '{path}'")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            asked = "SELECT run_name, step, metrics FROM metrics ORDER BY run_name, step, id"
            return database.execute(asked).fetchall()
    except sqlite3.Error as error:
        raise UserError(f"'{path}' is no database of Trackio's: {error}") from None


def _numbers(metrics: bytes | str) -> Iterator[tuple[str, float]]:
    """Those of a row that are numbers; Trackio writes NaN and infinities as text."""
    try:
        row = json.loads(metrics)
    except ValueError:
        return
    for name, value in row.items() if isinstance(row, Mapping) else ():
        special = value in ("NaN", "Infinity", "-Infinity")
        if special or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield name, float(value)


def _curve(points: list[tuple[int, dict[str, float]]], source: Path) -> Curve:
    """Points of one step are averaged."""
    steps = np.unique([step for step, _ in points])
    names = dict.fromkeys(name for _, row in points for name in row)
    values = {}
    for name in names:
        sums, counts = np.zeros(len(steps)), np.zeros(len(steps))
        for step, row in points:
            if name in row and np.isfinite(row[name]):
                where = np.searchsorted(steps, step)
                sums[where] += row[name]
                counts[where] += 1
        values[name] = np.where(counts, sums / np.maximum(counts, 1), np.nan)
    return Curve(steps.astype(np.int64), values, source)


def _require_apart(runs: Mapping[Place, Curve], place: Place, source: Path) -> None:
    if place in runs:
        raise UserError(
            f"'{source}' and '{runs[place].source}' are both run '{place[1]}' on '{place[0]}', "
            f"seed {place[2]}: tell them apart with --pattern"
        )

"""The metrics of nightly runs: a file with a row a night, or a folder with a run a night."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ablations import logs
from ablations.errors import UserError, unknown
from ablations.exchange.sources import Rule, read_all
from ablations.logs.formats import Row
from ablations.report.scores import final

_TABLE = re.compile(r".*\.(csv|tsv|jsonl|ndjson|npz|parquet)(\.gz)?")
_RATE = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")


@dataclass(frozen=True)
class Nights:
    """values: `[nights]`, NaN without one. names: of the nights. notes: what is odd, in lines."""

    values: NDArray[np.float64]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def since(self, name: str) -> Nights:
        """Return the nights from one on. Raises UserError where there is none of that name."""
        if name not in self.names:
            raise unknown("night", name, self.names)
        first = len(self.names) - 1 - self.names[::-1].index(name)
        return Nights(self.values[first:], self.names[first:], self.notes)


def read_nights(path: Path, metric: str, night: str | None = None) -> Nights:
    """Read one value a night. Raises UserError.

    Args:
        path: a table, JSON lines or text with a row a night, in their order; or a folder with a
            folder a night, or a file, in the order of their names, numbers by size: the score of a
            night's run is the mean of the last tenth of its steps.
        metric: the column, or tag. A value may be a rate of successes, 37/50.
        night: the column with the names of the nights; default: their numbers, from 1.
    """
    if path.is_dir():
        if night is not None:
            raise UserError(f"the nights of '{path}' are called as its folders, not by a column")
        return _of_runs(path, metric)
    if not path.is_file():
        raise UserError(f"no such file: '{path}'")
    rows = logs.rows(path, broken=True)
    if not rows:
        raise UserError(f"'{path}' has no rows: there is no night yet")
    known = {name for row in rows for name in (*row.numbers, *row.other, *row.empty)}
    for name in filter(None, (metric, night)):
        if name not in known:
            raise unknown(f"column of '{path}'", name, known)
    values = np.array([_value(row, metric) for row in rows])
    if night is None:
        return Nights(values, tuple(map(str, range(1, len(rows) + 1))))
    names = tuple(
        row.other.get(night, f"{row.numbers[night]:.17g}" if night in row.numbers else "")
        for row in rows
    )
    return Nights(values, names, tuple(_odd(names)))


def _odd(names: Sequence[str]) -> list[str]:
    """Return lines on names that stand twice, and on dates that go back."""
    lines = [
        f"night '{name}' stands {n} times"
        for name, n in Counter(filter(None, names)).items()
        if n > 1
    ]
    dated = [date[0] for name in names if (date := re.match(r"\d{4}-\d\d-\d\d", name))]
    pairs = itertools.pairwise(dated)
    lines += [
        f"night '{a}' stands before '{b}': the last row is tonight" for a, b in pairs if a > b
    ]
    return lines


def _value(row: Row, metric: str) -> float:
    """Return a night's value: a number, or a rate such as 37/50; NaN where it is empty."""
    if metric not in row.other:
        return row.numbers.get(metric, math.nan)
    parts = _RATE.fullmatch(row.other[metric])
    if parts is None or not 0 <= int(parts[1]) <= int(parts[2]) or not int(parts[2]):
        raise UserError(
            f"{row.place}: {metric} must be a number, or a rate such as 37/50, not "
            f"'{row.other[metric]}'"
        )
    return int(parts[1]) / int(parts[2])


def _of_runs(folder: Path, metric: str) -> Nights:
    nights = _nights_in(folder)
    values, notes, errors = [], [], []
    for night in nights:
        try:
            curves = [
                (curve, read.metric)
                for read in read_all([night], Rule(metric=metric), [])
                for curve in read.curves.values()
            ]
        except UserError as error:
            errors.append(error)
            curves = []
            notes.append(f"night '{night.name}' has no value: {error}")
        if len(curves) > 1:
            raise UserError(f"'{night}' has {len(curves)} runs: a night has one, in a folder of it")
        values += [final(curve.steps, curve.values[judged]) for curve, judged in curves]
        values += [math.nan] * (not curves)
    if len(errors) == len(nights):
        raise errors[-1]
    return Nights(np.array(values), tuple(night.name for night in nights), tuple(notes))


def _nights_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, or else its tables: n2 before n10. Raises UserError."""
    inside = [
        path
        for path in folder.iterdir()
        if not path.name.startswith(".")
        and not (path.is_symlink() and path.resolve().parent == folder.resolve())
    ]
    nights = [path for path in inside if path.is_dir()] or [
        path for path in inside if _TABLE.fullmatch(path.name)
    ]
    if not nights:
        raise UserError(f"no nights in '{folder}': a folder with a log for each is needed")
    return sorted(nights, key=lambda path: (_by_size(path.name), path.name))


def _by_size(name: str) -> list[str | int]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]

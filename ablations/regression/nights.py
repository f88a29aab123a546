"""The metrics of nightly runs: a file with a row a night, or a folder with a run a night."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ablations import logs
from ablations.errors import UserError, unknown
from ablations.exchange.sources import Rule, read_all
from ablations.logs.formats import Row
from ablations.report.scores import final

_RATE = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")


@dataclass(frozen=True)
class Nights:
    """values: `[nights]`, NaN without one. names: of the nights."""

    values: NDArray[np.float64]
    names: tuple[str, ...]

    def since(self, name: str) -> Nights:
        """Return the nights from one on. Raises UserError where there is none of that name."""
        if name not in self.names:
            raise unknown("night", name, self.names)
        first = len(self.names) - 1 - self.names[::-1].index(name)
        return Nights(self.values[first:], self.names[first:])


def read_nights(path: Path, metric: str, night: str | None = None) -> Nights:
    """Read one value a night. Raises UserError.

    Args:
        path: a table, JSON lines or text with a row a night, in their order; or a folder with the
            logs of a run a night, whose score is the mean of the last tenth of its steps, in the
            order of their names.
        metric: the column, or tag. A value may be a rate of successes, 37/50.
        night: the column with the names of the nights; default: their numbers, from 1.
    """
    if path.is_dir():
        return _of_runs(path, metric)
    if not path.is_file():
        raise UserError(f"no such file: '{path}'")
    rows = logs.rows(path)
    known = {name for row in rows for name in (*row.numbers, *row.other, *row.empty)}
    for name in filter(None, (metric, night)):
        if name not in known:
            raise unknown(f"column of '{path}'", name, known)
    rows = [row for row in rows if metric in {*row.numbers, *row.other, *row.empty}]
    values = np.array([_value(row, metric) for row in rows])
    if night is None:
        return Nights(values, tuple(map(str, range(1, len(rows) + 1))))
    names = (
        row.other.get(night, f"{row.numbers[night]:.17g}" if night in row.numbers else "")
        for row in rows
    )
    return Nights(values, tuple(names))


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
    nights: dict[str, float] = {}
    for read in read_all([folder], Rule(metric=metric), []):
        for (_, run, seed), curve in read.curves.items():
            name = curve.source.parent.name if curve.source.is_file() else curve.source.name
            name = name if name not in nights else f"{run}-{seed}"
            nights[name] = final(curve.steps, curve.values[read.metric])
    names = tuple(sorted(nights))
    return Nights(np.array([nights[name] for name in names]), names)

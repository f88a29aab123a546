"""The metrics of nightly runs: a file with a row a night, or a folder with a run a night."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ablations import logs
from ablations.errors import UserError, unknown
from ablations.exchange.sources import Rule, read_all
from ablations.report.scores import final


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
        metric: the column, or tag.
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
    for row in rows:
        if metric in row.other and metric not in row.numbers:
            raise UserError(f"{row.place}: {metric} must be a number, not '{row.other[metric]}'")
    values = np.array([row.numbers.get(metric, np.nan) for row in rows])
    if night is None:
        return Nights(values, tuple(map(str, range(1, len(rows) + 1))))
    names = (
        row.other.get(night, f"{row.numbers[night]:.17g}" if night in row.numbers else "")
        for row in rows
    )
    return Nights(values, tuple(names))


def _of_runs(folder: Path, metric: str) -> Nights:
    nights: dict[str, float] = {}
    for read in read_all([folder], Rule(metric=metric), []):
        for (_, run, seed), curve in read.curves.items():
            name = curve.source.parent.name if curve.source.is_file() else curve.source.name
            name = name if name not in nights else f"{run}-{seed}"
            nights[name] = final(curve.steps, curve.values[read.metric])
    names = tuple(sorted(nights))
    return Nights(np.array([nights[name] for name in names]), names)

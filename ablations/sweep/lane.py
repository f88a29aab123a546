"""The results of a running cell so far: its curve, its saved state, how it ended. No JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Lane:
    """The curve of a cell, and the steps between which its numbers stopped being finite."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {"step": []})
    diverged: tuple[int, int] | None = None

    def copy(self) -> Lane:
        return Lane({name: list(column) for name, column in self.columns.items()}, self.diverged)

    def append(self, step: int, metrics: Mapping[str, float | None]) -> None:
        self.columns["step"].append(step)
        for name, value in metrics.items():
            column = self.columns.setdefault(name, [])
            column.extend([None] * (len(self.columns["step"]) - 1 - len(column)))
            column.append(value)
        for column in self.columns.values():
            column.extend([None] * (len(self.columns["step"]) - len(column)))


@dataclass(frozen=True)
class Saved:
    """The state of a cell that goes on: its point, its curve up to there, arrays by
    `to_arrays`."""

    point: int
    lane: Lane
    state: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ended:
    """The end of a cell: fields of its record; its curve; the folder of its policies, and the one
    that it leaves whole in its record."""

    fields: Mapping[str, Any]
    columns: Mapping[str, Any]
    policies: Path | None = None
    files: Path | None = None


class TrainingFailed(Exception):
    """An error of training: the cell's own failure, unlike a disc that is full.

    stops: others would fail in the same way, so no further cell of the order is begun.
    """

    def __init__(self, error: Exception, *, stops: bool = False):
        super().__init__(str(error))
        self.error = error
        self.stops = stops

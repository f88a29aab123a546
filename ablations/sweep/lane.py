"""Define the results of a running cell: its curve, its saved state, its end. No JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ablations.core.record import Columns, Failure, Policies, Provenance
from ablations.records import Record
from ablations.sweep.cell import Cell


@dataclass
class Lane:
    """The curve of a cell, and the steps between which its numbers stopped being finite."""

    columns: Columns = field(default_factory=lambda: {"step": []})
    diverged: tuple[int, int] | None = None

    def copy(self) -> Lane:
        """Return a copy that later rows do not change."""
        return Lane({name: list(column) for name, column in self.columns.items()}, self.diverged)

    def append(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Add a row; a metric that it lacks, or that is new, has None where there is nothing."""
        self.columns["step"].append(step)
        for name, value in metrics.items():
            column = self.columns.setdefault(name, [])
            column.extend([None] * (len(self.columns["step"]) - 1 - len(column)))
            column.append(value)
        for column in self.columns.values():
            column.extend([None] * (len(self.columns["step"]) - len(column)))

    def values(self, metric: str) -> dict[int, float]:
        """Return the values of a metric by step, without those that are None."""
        columns = self.columns["step"], self.columns.get(metric, [])
        return {
            int(step): value
            for step, value in zip(*columns, strict=False)
            if step is not None and value is not None
        }


@dataclass(frozen=True)
class Saved:
    """The saved state of a cell: its point, its curve, its arrays (by `to_arrays`)."""

    point: int
    lane: Lane
    state: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ended:
    """The end of a cell, for its record.

    failure: why it failed, with its reason and step; None: it is done. folder: of the policies.
    files: the folder that its record keeps whole.
    """

    columns: Columns
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None
    policies: Policies = field(default_factory=Policies)
    folder: Path | None = None
    files: Path | None = None

    def record(self, cell: Cell, provenance: Provenance) -> Record:
        """Return the record of a cell that ended so."""
        return Record(
            cell.hash,
            cell.config,
            "failed" if self.failure else "done",
            self.failure,
            self.reason,
            self.failed_step,
            provenance,
            policies=self.policies,
        )


class TrainingFailed(Exception):
    """An error of training: the cell's own failure, unlike a disc that is full.

    stops: others would fail in the same way, so no further cell of the order is begun.
    """

    def __init__(self, error: Exception, *, stops: bool = False):
        """Take the error that was raised."""
        super().__init__(str(error))
        self.error = error
        self.stops = stops

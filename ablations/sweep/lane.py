"""What a running cell has gathered so far: its curve, where it goes on from, how it ended. No JAX.

A worker runs cells through two objects, whatever trains them: a program, made once and kept for the
cells that share it, and a training, made of a block of them. `Program` and `Training` are JAX's;
`Command` and `Run` those of a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ablations.sweep.cell import Cell
from ablations.sweep.claims import Claim
from ablations.sweep.order import Keeping


@dataclass
class Lane:
    """What one cell gave: its curve, and the steps between which its numbers stopped being
    finite.
    """

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
    """Where a cell goes on from: its point, its curve up to there, its state by `to_arrays`."""

    point: int
    lane: Lane
    state: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ended:
    """How a cell ended: fields of its record; its curve; the folder of its policies, and the one
    that it leaves whole in its record."""

    fields: Mapping[str, Any]
    columns: Mapping[str, Any]
    policies: Path | None = None
    files: Path | None = None


class TrainingFailed(Exception):
    """What a training raised: the cell's own failure, unlike a disc that is full."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error


class OnItsWay(Protocol):
    """Cells side by side, from where they were left to their end."""

    def run(self, claims: Sequence[Claim], stopping: Callable[[], bool]) -> None:
        """To the end of the block. Raises TrainingFailed; and SystemExit, with what was done
        saved, where it is asked to stop."""

    def ended(self, index: int) -> Ended:
        """How a cell of the block ended."""

    def cost(self, index: int) -> dict[str, Any]:
        """For the provenance: what a cell took."""


class Prepared(Protocol):
    """What is made once for all the cells of a program."""

    compile_seconds: float
    lanes: int  # how many cells run side by side

    def abandon(self) -> None:
        """Ends at once what it runs outside of this process."""

    def training(self, cells: Sequence[Cell], results: Path, keeping: Keeping) -> OnItsWay:
        """Of a block of its cells."""

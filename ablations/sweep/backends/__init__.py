"""Define what a backend is: a way to run a cell, as a program of JAX or as a command.

A backend is asked for whatever differs between them; nothing else knows which one it is. To add
one, implement `Backend` in a package beside these and name it in `backend_of`.

    compiled/   programs of JAX: compiled once, cells side by side in lanes
    command/    a user's command line: a process per cell
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ablations.core.record import Configuration, Provenance

if TYPE_CHECKING:
    from ablations.sweep.claims import Claim
    from ablations.sweep.job import Cell, Ended, Keeping, Order


@dataclass(frozen=True)
class Speed:
    """The speed of one worker.

    rate: environment steps per second over its lanes; of a command that is not told its steps,
    commands per second. megabytes: the most memory that it held. measured: from records, else
    assumed.
    """

    rate: float
    compile_seconds: float
    megabytes: int
    measured: bool = True


class RunningBatch(Protocol):
    """Cells side by side, from where they were left to their end."""

    def run(self, claims: Sequence[Claim], stopping: Callable[[], bool]) -> None:
        """Run to the end of the batch.

        Raises:
            TrainingFailed: training raised an error.
            SystemExit: it was asked to stop; what was done is saved.
        """

    def ended(self, index: int) -> Ended:
        """Return how a cell of the batch ended."""

    def cost(self, index: int) -> Provenance:
        """Return the time and memory that a cell took, for its provenance."""


class Prepared(Protocol):
    """A program, prepared once for all of its cells."""

    compile_seconds: float
    lanes: int  # how many cells run side by side

    def abandon(self) -> None:
        """Kill the processes that it has started."""

    def training(self, cells: Sequence[Cell], results: Path, keeping: Keeping) -> RunningBatch:
        """Return a batch of its cells, ready to run."""


class Backend(Protocol):
    """A way to run cells, as the sweep asks for it. Stateless; importing one starts no JAX.

    What a backend has no need of it inherits.

    compiles: whether cells share programs that are compiled first. title: what a program, whose
    name is {}, is called in the plan of a run. mending: what helps where the cells of an order
    would all fail alike.
    """

    compiles: bool
    title: str
    mending: str = ""

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> str:
        """Return the name of the program of a configuration: of cells that share a `Prepared`."""

    def accelerators(self) -> int:
        """Return how many accelerators of this machine are dealt out; 0: cells find their own."""
        return 0

    def shape(self, cells: int, workers: int, devices: int, lanes: int | None) -> tuple[int, int]:
        """Return the number of workers for some cells, and of lanes in each.

        workers: at most. devices: accelerators, which all workers share. lanes: as a flag asks.
        """

    def ready(self, cells: Sequence[Cell], results: Path) -> tuple[Cell, ...]:
        """Return cells as an order holds them, with data for their provenance."""
        return tuple(cells)

    def has_run(self, cell: Cell, results: Path) -> bool:
        """Return whether a cell without a record has run, so that only its curve is to be read."""
        return False

    def forget(self, cell: Cell, results: Path) -> None:
        """Have a cell run again, though it has run."""
        return

    def notices(self, *, shell: bool) -> list[str]:
        """Return lines for the user before workers start.

        shell: also on the variables of this process.
        """
        return []

    def environment(self, order: Order, index: int) -> dict[str, str]:
        """Return the environment of a worker."""

    def require_installed(self, cells: Sequence[Cell]) -> None:
        """Raise UserError where what runs the cells is not installed."""
        return

    def require_device(self, order: Order) -> None:
        """Raise UserError in a worker that lacks the accelerator of its order."""
        return

    def prepare(self, cell: Cell, order: Order, sharing: int) -> Prepared:
        """Prepare the program of a cell. sharing: how many cells of the order are of it."""

    def provenance(self, cell: Cell, order: Order) -> Provenance:
        """Return the provenance of a cell that this process ran."""

    def kind(self, config: Configuration) -> tuple[str, ...]:
        """Return the properties of a configuration that decide its time per step."""

    def speed(self, cell: Cell, made: Sequence[Provenance], *, accelerator: bool) -> Speed:
        """Return the speed by provenances of cells, or by assumption where these have none."""

    def unsaved(self, cell: Cell, speed: Speed, lanes: int) -> tuple[float, str]:
        """Return the seconds before a job has anything to save.

        And, in words, why that is too much for a time limit, and what would help.
        """

    def crew(self, workers: int, lanes: int) -> str:
        """Return a number of workers in words."""

    def pace(self, cell: Cell, speed: Speed) -> str:
        """Return a speed in words."""


def backend_of(config: Configuration) -> Backend:
    """Return the backend of a configuration, which is imported when it is first asked for."""
    name = "command" if "command" in config else "compiled"
    backend: Backend = importlib.import_module(f"{__name__}.{name}").BACKEND
    return backend

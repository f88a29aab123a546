"""Define what a backend is: a way to compute runs, as a program of JAX or as a command.

A backend is asked for whatever differs between them; nothing else knows which one it is. To add
one, implement `Backend` in a package beside these and name it in `backend_of`.

    compiled/   programs of JAX: compiled once, their runs train in parallel
    command/    a user's command line: a process for each run
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ablations.core.record import Configuration, Provenance

if TYPE_CHECKING:
    from ablations.engine.claims import Claim
    from ablations.engine.job import Cell, CheckpointPolicy, JobSpec, Result


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
    """Parallel runs, from their last checkpoint to their end."""

    def run(self, claims: Sequence[Claim], stopping: Callable[[], bool]) -> None:
        """Run to the end. Raises TrainingFailed, or SystemExit where it was asked to stop."""

    def result(self, index: int) -> Result:
        """Return the result of a run of the batch."""

    def cost(self, index: int) -> Provenance:
        """Return the time and memory that a run took, for its provenance."""


class Prepared(Protocol):
    """A program, prepared once for all of its runs. lanes: how many of them train in parallel."""

    compile_seconds: float
    lanes: int

    def abandon(self) -> None:
        """Kill the processes that it has started."""

    def training(
        self, cells: Sequence[Cell], results: Path, checkpoints: CheckpointPolicy
    ) -> RunningBatch:
        """Return a batch of its runs, ready to train."""


class Backend(Protocol):
    """A way to compute runs. Stateless; importing one starts no JAX.

    compiles: whether runs share programs that are compiled first. title: of a program, whose name
    is {}, for people. mending: what helps where all runs of a job would fail alike.
    """

    compiles: bool
    title: str
    mending: str = ""

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> str:
        """Return the name of the program of a configuration: of runs that share a `Prepared`."""

    def accelerators(self) -> int:
        """Return how many accelerators of this machine are dealt out; 0: runs find their own."""
        return 0

    def shape(self, cells: int, workers: int, devices: int, lanes: int | None) -> tuple[int, int]:
        """Return the number of workers for some runs, at most `workers`, and of lanes in each."""

    def ready(self, cells: Sequence[Cell], results: Path) -> tuple[Cell, ...]:
        """Return runs as a job specification holds them, with data for their provenance."""
        return tuple(cells)

    def has_run(self, cell: Cell, results: Path) -> bool:
        """Return whether only the curve of a run without a record is still to be read."""
        return False

    def forget(self, cell: Cell, results: Path) -> None:
        """Have a run computed again, though it has ended."""
        return

    def notices(self, *, shell: bool) -> list[str]:
        """Return lines for the user. shell: also on the variables of this process."""
        return []

    def environment(self, job: JobSpec, index: int) -> dict[str, str]:
        """Return the environment of a worker."""

    def require_installed(self, cells: Sequence[Cell]) -> None:
        """Raise UserError where a library that the runs need is not installed."""
        return

    def require_device(self, job: JobSpec) -> None:
        """Raise UserError in a worker that lacks the accelerator of its job."""
        return

    def prepare(self, cell: Cell, job: JobSpec, sharing: int) -> Prepared:
        """Prepare the program of a run. sharing: how many runs of the job are of it."""

    def provenance(self, cell: Cell, job: JobSpec) -> Provenance:
        """Return the provenance of a run of this process."""

    def kind(self, config: Configuration) -> tuple[str, ...]:
        """Return the properties of a configuration that decide its time per step."""

    def speed(self, cell: Cell, made: Sequence[Provenance], *, accelerator: bool) -> Speed:
        """Return the speed by provenances of such runs, or by assumption where there are none."""

    def unsaved(self, cell: Cell, speed: Speed, lanes: int) -> tuple[float, str]:
        """Return the seconds before a job has anything to save, and words for when it is short."""

    def crew(self, workers: int, lanes: int) -> str:
        """Return a number of workers in words."""

    def pace(self, cell: Cell, speed: Speed) -> str:
        """Return a speed in words."""


def backend_of(config: Configuration) -> Backend:
    """Return the backend of a configuration, which is imported when it is first asked for."""
    name = "command" if "command" in config else "compiled"
    backend: Backend = importlib.import_module(f"{__name__}.{name}").BACKEND
    return backend

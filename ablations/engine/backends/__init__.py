"""Define a backend: a way to compute runs, as compiled JAX programs or as a user's commands.

    compiled/   JAX programs: compiled once, with parallel runs
    command/    a user's command line: one process per run

The rest of the engine asks the backend for everything in which the two differ. To add a backend,
implement `Backend` in a package beside these, and name it in `backend_of`.
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
    from ablations.engine.job import Cell, JobSpec, Result


@dataclass(frozen=True)
class Speed:
    """The speed of one worker.

    rate: environment steps per second over all parallel runs; commands per second where a command
    has no {steps}. megabytes: peak memory. measured: whether the speed comes from records.
    """

    rate: float
    compile_seconds: float
    megabytes: int
    measured: bool = True


class RunningBatch(Protocol):
    """Parallel runs, from their last checkpoint to their end."""

    def run(
        self, claims: Sequence[Claim], stopping: Callable[[], bool]
    ) -> list[tuple[Result, Provenance]]:
        """Run to the end; return the result of each run, with the time and memory that it took.

        Raises TrainingFailed, or SystemExit once `stopping` returns True.
        """

    def abandon(self) -> None:
        """Kill the processes that it started."""


@dataclass(frozen=True)
class Prepared:
    """A program, prepared once for all of its runs.

    training: makes a batch of runs that is ready to train. lanes: the number of parallel runs.
    """

    training: Callable[[Sequence[Cell], Path], RunningBatch]
    lanes: int = 1
    compile_seconds: float = 0.0


class Backend(Protocol):
    """A way to compute runs. It has no state, and its import does not start JAX.

    compiles: whether runs share programs that are compiled first.
    """

    compiles: bool

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> str:
        """Return the name of a configuration's program; runs with that name share a `Prepared`."""

    def forget(self, cell: Cell, results: Path) -> None:
        """Compute a run again even if it has ended."""
        return

    def environment(self, job: JobSpec, index: int) -> dict[str, str]:
        """Return the environment of a worker."""

    def require_installed(self, cells: Sequence[Cell]) -> None:
        """Raise UserError if a library that the runs need is missing."""
        return

    def require_device(self, job: JobSpec) -> None:
        """Raise UserError in a worker that lacks the accelerator of its job."""
        return

    def prepare(self, cell: Cell, job: JobSpec, sharing: int) -> Prepared:
        """Prepare the program of a run. sharing: how many runs of the job use it."""

    def provenance(self, cell: Cell, job: JobSpec) -> Provenance:
        """Return the provenance of a run of this process."""

    def kind(self, config: Configuration) -> tuple[str, ...]:
        """Return the properties of a configuration that decide its time per step."""

    def assumed_speed(self, cell: Cell, *, accelerator: bool) -> Speed:
        """Return the speed to assume for a run if no similar run has a record."""


def backend_of(config: Configuration) -> Backend:
    """Return the backend of a configuration; its module is imported on the first call."""
    name = "command" if "command" in config else "compiled"
    backend: Backend = importlib.import_module(f"{__name__}.{name}").BACKEND
    return backend

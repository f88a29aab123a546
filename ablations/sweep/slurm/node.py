"""Run one job of a cluster: a crew of workers on its order.

It ends when its cells have records or its time is up.

submitit starts it, with the arguments it was pickled with. Nothing that submitit keeps is asked for
afterwards; the records and checkpoints of the cells are what counts. So a job that Slurm runs
again, for whatever reason, simply looks which cells are left, and these go on from their
checkpoints.

Signals, as Slurm sends them to the job's processes:

    SIGUSR2   the time limit is near, or preemption where it was asked to say so: the workers save
              what they have, and the job puts itself back into the queue
    SIGTERM   preemption, scancel, or the end: the workers save what they have; Slurm decides
              whether the job runs again. To end by itself now would count as done
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from msgspec.structs import replace

from ablations.errors import UserError
from ablations.sweep.claims import checkpoint_points, running
from ablations.sweep.job import Order
from ablations.sweep.local import Crew
from ablations.sweep.machine import cores
from ablations.sweep.progress import Progress
from ablations.sweep.slurm import commands, submissions

LINE_SECONDS = 60.0
GRACE_SECONDS = 600.0
ASK_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """One job of a submission; called on the node that runs it."""

    folder: str
    index: int

    def __call__(self) -> str:
        """Run it; return a line on how it ended, for submitit's log.

        Raises:
            UserError: its workers could not go on.
        """
        caught = _Caught()
        _delete_leftovers()
        submission = submissions.load(Path(self.folder))
        order = submission.order(self.index)
        if not order.cells:
            return "nothing is left to do"
        order = replace(order, workers=_workers(order))
        for line in order.backend.notices(shell=False):
            print(line, flush=True)
        progress = Progress(order.cells, Path(order.results), line_seconds=LINE_SECONDS)
        try:
            submission.begin(self.index, _got_to(order), _cores())
            with running(Path(order.results)):
                Crew(order, submission.order_path(self.index)).work(progress, caught.any)
        except UserError as error:
            submission.give_up(self.index, str(error))
            raise
        if caught.any():
            self._end(caught)
        return f"{len(order.cells)} cells"

    def _end(self, caught: _Caught) -> None:
        if caught.user:
            commands.requeue(_own_id())
        print(f"saved after {', '.join(caught.names)}; waiting to be ended", flush=True)
        deadline = time.monotonic() + GRACE_SECONDS
        # A job in its grace before preemption still runs, and must not end; a cancelled one may.
        while time.monotonic() < deadline and commands.is_running(_own_id()):
            time.sleep(ASK_SECONDS)
        sys.exit(143)


def _got_to(order: Order) -> dict[str, int]:
    """Return the last checkpoint of every cell that is left."""
    results = Path(order.results)
    return {
        cell.hash: max(checkpoint_points(results, cell.hash), default=0) for cell in order.cells
    }


def _workers(order: Order) -> int:
    """Return the planned workers, or fewer where less is left to do or the node gave less."""
    wanted = min(order.workers, -(-len(order.cells) // order.lanes))
    if order.accelerator:
        return wanted
    return max(1, min(wanted, min(_cores()) // (order.threads or 1)))


def _cores() -> tuple[int, int]:
    """Return the cores that this job may use and those that it was given.

    They are more where srun binds its process to a part of them.
    """
    return cores(), int(os.environ.get("SLURM_CPUS_PER_TASK") or cores())


class _Caught:
    """The signals sent to this job, taken from submitit, which would rewrite its pickle."""

    def __init__(self) -> None:
        """Take over the signals."""
        self.names: list[str] = []
        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, self._catch)

    @property
    def user(self) -> bool:
        """Return whether the time limit or preemption is near."""
        return "SIGUSR2" in self.names

    def any(self) -> bool:
        """Return whether any signal came."""
        return bool(self.names)

    def _catch(self, number: int, _: FrameType | None) -> None:
        self.names.append(signal.Signals(number).name)


def _own_id() -> str:
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    task = os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array else os.environ["SLURM_JOB_ID"]


def _delete_leftovers() -> None:
    """Delete half-written results of a killed run, over which submitit would not write."""
    folder = Path(os.environ["SUBMITIT_FOLDER"])
    for path in folder.glob(f"{_own_id()}_*.save_tmp"):
        path.unlink(missing_ok=True)

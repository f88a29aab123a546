"""Keep submissions: the cells of each job, a folder for each submission.

    results/work/submissions/<run>/submission.json    the cells of each job, by their hashes
    results/work/submissions/<run>/orders/<job>.json  what the workers of a job are told: its cells
    results/work/submissions/<run>/arrays.json        what Slurm calls the jobs that it took
    results/work/submissions/<run>/begun/<job>.json   where it was when it last began, how often
    results/work/submissions/<run>/ended/<job>.json   why a job gave up, where it could say so
    ~/.cache/rl-ablations/jobs/<run>/                 submitit's scripts, pickles and logs

None of it is the truth about a cell: that is its record. It is there so that nobody is asked twice,
and so that a status can name the job.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from msgspec.structs import replace

from ablations.core.decode import Count, Part, encode
from ablations.core.files import find_json, read_bytes, read_json
from ablations.errors import UserError
from ablations.private import JOBS, private_folder, require_private_folder
from ablations.records import write_atomically
from ablations.sweep.claims import published
from ablations.sweep.job import Cell, Order
from ablations.sweep.slurm import commands

FOLDER = "submissions"
MAX_REQUEUES = 3
COMMENT = "rl-ablations"  # the first word of our jobs' comments


_Array = tuple[str, Count, Count]


class _Begun(TypedDict, total=False):
    """The last start of a job: the checkpoints of its cells, how often from there, its cores."""

    got_to: Mapping[str, int]
    times: Count
    cores: tuple[Count, Count]


class Submission(Part, frozen=True):
    """Jobs that were submitted at once.

    jobs: the hashes of the cells of each; all else that a job is told is in its order.
    """

    run: str
    results: str
    time: float
    studies: tuple[str, ...]
    jobs: tuple[tuple[str, ...], ...]

    @property
    def folder(self) -> Path:
        """Return the folder of the submission."""
        return Path(self.results) / "work" / FOLDER / self.run

    def write(self, orders: Sequence[Order]) -> None:
        """Write the submission and the order of each job."""
        for index, order in enumerate(orders):
            order.write(self.order_path(index))
        write_atomically(self.folder / "submission.json", encode(self))

    def order_path(self, index: int) -> Path:
        """Return the file of a job's order."""
        return self.folder / "orders" / f"{index}.json"

    def order(self, index: int) -> Order:
        """Return the order of a job without the cells that have a record by now."""
        written = Order.read(self.order_path(index))
        return replace(written, cells=written.left)

    def arrays(self) -> list[_Array]:
        """Return the arrays that Slurm took: id, index of our first job in it, number of jobs.

        The number is 0 for a job that is no array.
        """
        return list(find_json(self.folder / "arrays.json", tuple[_Array, ...]) or ())

    def add_array(self, job: str, first: int, tasks: int) -> None:
        """Note the id that Slurm gave to an array of our jobs, or to one job."""
        known = dict.fromkeys([*self.arrays(), (job, first, tasks)])
        write_atomically(self.folder / "arrays.json", json.dumps(list(known)))

    def comment(self, first: int, tasks: int) -> str:
        """Return the comment that an array has in Slurm; see `adopt`."""
        return f"{COMMENT} {self.run} {first} {tasks}"

    def slurm_jobs(self) -> dict[int, str]:
        """Return Slurm's id of each of our jobs that it has taken, by index."""
        return {
            first + task: f"{job}_{task}" if tasks else job
            for job, first, tasks in self.arrays()
            for task in range(tasks or 1)
        }

    def begin(self, index: int, got_to: Mapping[str, int], cores: tuple[int, int]) -> None:
        """Note the state from which a job starts, each time that Slurm starts it.

        Args:
            index: of the job.
            got_to: cell -> its last checkpoint, of all that are left.
            cores: that it may use, and that it was given.

        Raises:
            UserError: it was put back into the queue `MAX_REQUEUES` times from one place.
        """
        last = self._begun(index)
        times = last["times"] + 1 if last.get("got_to") == got_to else 1
        if times > MAX_REQUEUES:
            raise UserError(
                f"it was put back into the queue {MAX_REQUEUES} times without a new checkpoint or "
                f"record: its time is too short for one, or something ends it"
            )
        began: _Begun = {"got_to": got_to, "times": times, "cores": cores}
        write_atomically(self.folder / "begun" / f"{index}.json", json.dumps(began))

    def cores(self, index: int) -> tuple[int, int] | None:
        """Return the cores that a job may use and those that it was given; None before it began."""
        return self._begun(index).get("cores")

    def _begun(self, index: int) -> _Begun:
        return find_json(self.folder / "begun" / f"{index}.json", _Begun, lenient=True) or {}

    def give_up(self, index: int, reason: str) -> None:
        """Note why a job gives up."""
        write_atomically(self.folder / "ended" / f"{index}.json", json.dumps({"reason": reason}))

    def gave_up(self, index: int) -> str | None:
        """Return why a job gave up, None where it did not."""
        path = self.folder / "ended" / f"{index}.json"
        return (find_json(path, dict[str, str]) or {}).get("reason")


@dataclass(frozen=True)
class Held:
    """A job that has a cell. id: of Slurm, or None if it never took the job."""

    submission: Submission
    index: int
    id: str | None
    state: commands.State

    @property
    def why_ended(self) -> str:
        """Return why it left the cell, as far as anybody knows."""
        if self.id is None:
            return "its job was never taken by Slurm"
        if reason := self.submission.gave_up(self.index):
            return f"its job {self.id} gave up: {reason}"
        if self.state.name == "GONE":
            return f"its job {self.id} is gone from the queue"
        if self.state.held:
            return f"its job {self.id} is held: {self.state.reason}"
        return f"its job {self.id} ended as {self.state.name}"

    def last_line(self) -> str:
        """Return that of the job's log, or "". Those of its workers are under work/logs."""
        try:
            path = require_private_folder(JOBS) / self.submission.run / f"{self.id}_0_log.err"
            lines = read_bytes(path).decode(errors="replace").strip().splitlines()
        except (OSError, UserError):
            return ""
        return lines[-1] if lines else ""


def load(folder: Path) -> Submission:
    """Raise Foreign for a file that is no submission."""
    return read_json(folder / "submission.json", Submission)


def all_submissions(results: Path) -> list[Submission]:
    """All submissions, the oldest first."""
    paths = (results / "work" / FOLDER).glob("*/submission.json")
    read = (find_json(path, Submission, lenient=True) for path in paths)
    submissions = [submission for submission in read if submission]
    with contextlib.suppress(commands.Silent):
        adopt(submissions)
    return sorted(submissions, key=lambda submission: submission.time)


def adopt(submissions: Iterable[Submission]) -> None:
    """Note the ids of jobs that Slurm took without telling, or whose driver ended before.

    Raises:
        commands.Silent: Slurm does not answer.
    """
    open_ = {
        submission.run: submission
        for submission in submissions
        if len(submission.slurm_jobs()) < len(submission.jobs)
    }
    for job, (run, first, tasks) in commands.commented(COMMENT) if open_ else ():
        if run in open_:
            open_[run].add_array(job, int(first), int(tasks))


def holders(
    results: Path, cells: Iterable[str], queue: commands.Queue | None = None
) -> dict[str, Held]:
    """Return, for each cell that was ever submitted, the job that is still at it, else the last.

    The queue is asked once, however many cells there are; not where nothing was submitted.

    Args:
        results: the results folder.
        cells: their hashes.
        queue: how Slurm's is asked; None: `commands.states`.

    Raises:
        commands.Silent: Slurm does not answer.
    """
    wanted = set(cells)
    submitted: dict[str, list[tuple[Submission, int]]] = {}
    for submission in all_submissions(results):
        for index, job in enumerate(submission.jobs):
            for cell in wanted.intersection(job):
                submitted.setdefault(cell, []).append((submission, index))
    involved = {holder.run: holder for jobs in submitted.values() for holder, _ in jobs}
    ids = {run: holder.slurm_jobs() for run, holder in involved.items()}
    known = {job for run in ids.values() for job in run.values()}
    states = (queue or commands.states)(known) if known else {}
    holding = {}
    for cell, jobs in submitted.items():
        held = []
        for submission, index in jobs:
            name = ids[submission.run].get(index)
            held.append(Held(submission, index, name, commands.state_of(states, name)))
        holding[cell] = next((holder for holder in held if holder.state.alive), held[-1])
    return holding


def living(results: Path, wanted: Callable[[Cell], bool]) -> dict[str, tuple[Cell, ...]]:
    """Return the queued and running jobs with such a cell left: Slurm's id -> the cells left.

    Raises:
        commands.Silent: Slurm does not answer.
    """
    jobs = {
        name: (submission, index)
        for submission in all_submissions(results)
        for index, name in submission.slurm_jobs().items()
    }
    states = commands.states(jobs) if jobs else {}
    alive = [name for name in jobs if commands.state_of(states, name).alive]
    left = {
        name: submission.order(index).cells for name in alive for submission, index in [jobs[name]]
    }
    return {name: cells for name, cells in left.items() if any(map(wanted, cells))}


def forget(submission: Submission) -> None:
    """Delete what is kept of a submission."""
    shutil.rmtree(submission.folder, ignore_errors=True)
    if (jobs := private_folder(JOBS)) is not None:
        shutil.rmtree(jobs / submission.run, ignore_errors=True)


def forget_the_finished(results: Path) -> None:
    """Delete what is kept of submissions whose cells all have a record."""
    for submission in all_submissions(results):
        if all(published(results, cell) for job in submission.jobs for cell in job):
            jobs = submission.slurm_jobs().values()
            states = commands.states(set(jobs))
            if not any(state.alive for state in states.values()):
                forget(submission)

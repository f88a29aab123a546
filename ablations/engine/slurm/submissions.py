"""Keep submissions: which runs were given to which jobs of Slurm.

    results/work/submissions/<run>/submission.json    the hashes of the runs, the number of jobs
    results/work/submissions/<run>/arrays.json        Slurm's ids of the jobs that it took
    results/work/submissions/<run>/begun/<job>.json   how often a job began at one state, its cores
    results/work/submissions/<run>/ended/<job>.json   why a job gave up, where it could say so
    ~/.cache/rl-ablations/jobs/<run>/                 the job specification; submitit's files

Every job of a submission takes runs of it until none is left. None of these files is the truth
about a run: that is its record. They are there so that nothing is submitted twice, and so that
`status` can name the job.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from ablations.core.decode import Count, Part, encode
from ablations.core.files import find_json, read_bytes, read_json
from ablations.engine.claims import published
from ablations.engine.slurm import commands
from ablations.errors import UserError
from ablations.private import JOBS, private_folder, require_private_folder
from ablations.records import write_atomically

FOLDER = "submissions"
MAX_REQUEUES = 3
COMMENT = "rl-ablations"  # the first word of our jobs' comments

_Array = tuple[str, Count, Count]


class _Begun(TypedDict, total=False):
    """The last start of a job: the state of its runs, how often from there, its cores."""

    state: str
    times: Count
    cores: tuple[Count, Count]


class Submission(Part, frozen=True):
    """Jobs that were submitted at once. cells: the hashes of the runs that they share."""

    run: str
    results: str
    time: float
    studies: tuple[str, ...]
    cells: tuple[str, ...]
    jobs: Count

    @property
    def folder(self) -> Path:
        """Return the folder of the submission."""
        return Path(self.results) / "work" / FOLDER / self.run

    @property
    def left(self) -> list[str]:
        """Return the runs that have no record yet."""
        return [cell for cell in self.cells if not published(Path(self.results), cell)]

    def write(self) -> None:
        """Write the submission."""
        write_atomically(self.folder / "submission.json", encode(self))

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

    def begin(self, index: int, state: str, cores: tuple[int, int]) -> None:
        """Note the state from which a job starts, each time that Slurm starts it.

        Args:
            index: of the job.
            state: a digest of the runs that are left and their checkpoints.
            cores: that it may use, and that it was given.

        Raises:
            UserError: it was put back into the queue `MAX_REQUEUES` times from one state.
        """
        last = self._begun(index)
        times = last["times"] + 1 if last.get("state") == state else 1
        if times > MAX_REQUEUES:
            raise UserError(
                f"it was put back into the queue {MAX_REQUEUES} times without a new checkpoint or "
                f"record: its time is too short for one, or something ends it"
            )
        began: _Begun = {"state": state, "times": times, "cores": cores}
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
    """A job of a submission. id: of Slurm, or None if it never took the job."""

    submission: Submission
    index: int
    id: str | None
    state: commands.State

    @property
    def why_ended(self) -> str:
        """Return why it left its runs, as far as that is known."""
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
    """Return all submissions, the oldest first."""
    paths = (results / "work" / FOLDER).glob("*/submission.json")
    read = (find_json(path, Submission, lenient=True) for path in paths)
    submissions = [submission for submission in read if submission]
    with contextlib.suppress(commands.Silent):
        adopt(submissions)
    return sorted(submissions, key=lambda submission: submission.time)


def adopt(submissions: Iterable[Submission]) -> None:
    """Note the ids of jobs that Slurm took without telling, or whose driver ended before.

    Raises commands.Silent: Slurm does not answer.
    """
    open_ = {
        submission.run: submission
        for submission in submissions
        if len(submission.slurm_jobs()) < submission.jobs
    }
    for job, (run, first, tasks) in commands.commented(COMMENT) if open_ else ():
        if run in open_:
            open_[run].add_array(job, int(first), int(tasks))


def jobs_of(
    submissions: Collection[Submission], queue: commands.Queue | None = None
) -> list[list[Held]]:
    """Return the jobs of each submission with their states. The queue is asked once, if at all.

    Raises commands.Silent: Slurm does not answer.
    """
    ids = [submission.slurm_jobs() for submission in submissions]
    known = {job for jobs in ids for job in jobs.values()}
    states = (queue or commands.states)(known) if known else {}
    return [
        [
            Held(submission, index, jobs.get(index), commands.state_of(states, jobs.get(index)))
            for index in range(submission.jobs)
        ]
        for submission, jobs in zip(submissions, ids, strict=True)
    ]


def holders(
    results: Path, cells: Iterable[str], queue: commands.Queue | None = None
) -> dict[str, Held]:
    """Return, for each run that was ever submitted, a job that may still take it, else the last.

    Args:
        results: the results folder.
        cells: the hashes of the runs.
        queue: how Slurm's is asked; None: `commands.states`.

    Raises:
        commands.Silent: Slurm does not answer.
    """
    wanted = set(cells)
    submissions = [one for one in all_submissions(results) if not wanted.isdisjoint(one.cells)]
    holding: dict[str, Held] = {}
    for submission, jobs in zip(submissions, jobs_of(submissions, queue), strict=True):
        # Of those that ended, the one that tells most.
        job = max(jobs, key=lambda job: (job.state.alive, job.state.name != "COMPLETED"))
        for cell in wanted.intersection(submission.cells):
            if job.state.alive or cell not in holding or not holding[cell].state.alive:
                holding[cell] = job
    return holding


def cores_of_jobs(results: Path) -> dict[str, tuple[int, int] | None]:
    """Return the cores that each job may use and those that it was given, by Slurm's id."""
    return {
        name: submission.cores(index)
        for submission in all_submissions(results)
        for index, name in submission.slurm_jobs().items()
    }


def cancel(
    results: Path, studies: Collection[str], cells: Collection[str] | None
) -> tuple[int, int]:
    """Take the jobs of studies, or of some of their runs, out of the queue.

    Returns:
        How many jobs, and how many runs they leave without a record.

    Raises:
        commands.Silent: Slurm does not answer.
    """
    chosen = [
        submission
        for submission in all_submissions(results)
        if not set(studies).isdisjoint(submission.studies)
        and (cells is None or not set(cells).isdisjoint(submission.left))
    ]
    alive = [job for jobs in jobs_of(chosen) for job in jobs if job.state.alive]
    if alive:
        commands.cancel({job.id for job in alive if job.id})
    left = {cell for job in alive for cell in job.submission.left}
    return len(alive), len(left)


def forget(submission: Submission) -> None:
    """Delete what is kept of a submission."""
    shutil.rmtree(submission.folder, ignore_errors=True)
    if (jobs := private_folder(JOBS)) is not None:
        shutil.rmtree(jobs / submission.run, ignore_errors=True)


def forget_the_finished(results: Path) -> None:
    """Delete what is kept of submissions whose runs all have a record and whose jobs have ended."""
    finished = [submission for submission in all_submissions(results) if not submission.left]
    for submission, jobs in zip(finished, jobs_of(finished), strict=True):
        if not any(job.state.alive for job in jobs):
            forget(submission)

"""Store submissions: the runs and the Slurm jobs that share them.

    results/work/submissions/<run>/submission.json    the hashes of the runs, the number of jobs
    results/work/submissions/<run>/arrays.json        Slurm's ids of the jobs
    ~/.cache/rl-ablations/jobs/<run>/                 the job specification, a copy of the code;
                                                      submitit's files

The state of a run is decided by its record alone. These files prevent double submissions and tell
`status` the jobs.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ablations.core.decode import Count, Part, encode
from ablations.core.files import find_json, read_bytes, read_json
from ablations.engine.claims import published
from ablations.engine.slurm import commands
from ablations.errors import UserError
from ablations.private import JOBS, require_private_folder
from ablations.records import write_atomically

FOLDER = "submissions"
COMMENT = "rl-ablations"  # the first word of our jobs' comments

_Array = tuple[str, Count, Count]


class Submission(Part, frozen=True):
    """Jobs that were submitted together. cells: the hashes of their runs."""

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
    def private(self) -> Path:
        """Return the private folder of the submission."""
        return require_private_folder(JOBS) / self.run

    @property
    def left(self) -> list[str]:
        """Return the runs without a record."""
        return [cell for cell in self.cells if not published(Path(self.results), cell)]

    def write(self) -> None:
        """Write the submission."""
        write_atomically(self.folder / "submission.json", encode(self))

    def arrays(self) -> list[_Array]:
        """Return the arrays: id, index of the first job, number of jobs (0: a single job)."""
        path = self.folder / "arrays.json"
        return list(read_json(path, tuple[_Array, ...])) if path.exists() else []

    def add_array(self, job: str, first: int, tasks: int) -> None:
        """Store the id of an array or of a single job."""
        known = dict.fromkeys([*self.arrays(), (job, first, tasks)])
        write_atomically(self.folder / "arrays.json", json.dumps(list(known)))

    def comment(self, first: int, tasks: int) -> str:
        """Return the comment of an array in Slurm, which `adopt` reads."""
        return f"{COMMENT} {self.run} {first} {tasks}"

    def slurm_jobs(self) -> dict[int, str]:
        """Return the Slurm ids of the submitted jobs by index."""
        return {
            first + task: f"{job}_{task}" if tasks else job
            for job, first, tasks in self.arrays()
            for task in range(tasks or 1)
        }


@dataclass(frozen=True)
class Held:
    """A job of a submission. id: Slurm's id, or None if Slurm did not accept the job."""

    submission: Submission
    index: int
    id: str | None
    state: commands.State

    @property
    def why_ended(self) -> str:
        """Return why the job left its runs."""
        if self.id is None:
            return "Slurm did not accept its job"
        if self.state.name == "GONE":
            return f"its job {self.id} is gone from the queue"
        if self.state.held:
            return f"its job {self.id} is held: {self.state.reason}"
        return f"its job {self.id} ended as {self.state.name}"

    def last_line(self) -> str:
        """Return the last line of the job's log, or ""."""
        try:
            log = read_bytes(self.submission.private / f"{self.id}_0_log.err")
            lines = log.decode(errors="replace").strip().splitlines()
        except (OSError, UserError):
            return ""
        return lines[-1] if lines else ""


def all_submissions(results: Path) -> list[Submission]:
    """Return all submissions, the oldest first."""
    paths = (results / "work" / FOLDER).glob("*/submission.json")
    read = (find_json(path, Submission) for path in paths)
    submissions = [submission for submission in read if submission]
    with contextlib.suppress(commands.Silent):
        adopt(submissions)
    return sorted(submissions, key=lambda submission: submission.time)


def adopt(submissions: Iterable[Submission]) -> None:
    """Store the ids of accepted jobs whose ids are missing. Raises commands.Silent."""
    open_ = {
        submission.run: submission
        for submission in submissions
        if len(submission.slurm_jobs()) < submission.jobs
    }
    for job, (run, first, tasks) in commands.commented(COMMENT) if open_ else ():
        if run in open_:
            open_[run].add_array(job, int(first), int(tasks))


def jobs_of(
    submissions: Collection[Submission],
) -> list[list[Held]]:
    """Return the jobs of each submission with their states. Raises commands.Silent."""
    ids = [submission.slurm_jobs() for submission in submissions]
    known = {job for jobs in ids for job in jobs.values()}
    states = commands.states(known) if known else {}
    return [
        [
            Held(submission, index, jobs.get(index), commands.state_of(states, jobs.get(index)))
            for index in range(submission.jobs)
        ]
        for submission, jobs in zip(submissions, ids, strict=True)
    ]


def holders(results: Path, cells: Iterable[str]) -> dict[str, Held]:
    """Return hash -> a live job of each submitted run, or its last job. Raises commands.Silent."""
    wanted = set(cells)
    submissions = [one for one in all_submissions(results) if not wanted.isdisjoint(one.cells)]
    holding: dict[str, Held] = {}
    for submission, jobs in zip(submissions, jobs_of(submissions), strict=True):
        # Among ended jobs, prefer one that failed.
        job = max(jobs, key=lambda job: (job.state.alive, job.state.name != "COMPLETED"))
        for cell in wanted.intersection(submission.cells):
            if job.state.alive or cell not in holding or not holding[cell].state.alive:
                holding[cell] = job
    return holding


def cancel(
    results: Path, studies: Collection[str], cells: Collection[str] | None
) -> tuple[int, int]:
    """Cancel the jobs of studies, or those with some of the runs. Raises commands.Silent.

    Returns:
        The number of jobs, and of their runs without a record.
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
    """Delete the files of a submission."""
    for folder in (submission.folder, submission.private):
        shutil.rmtree(folder, ignore_errors=True)


def forget_the_finished(results: Path) -> None:
    """Delete the files of submissions whose runs have records and whose jobs have ended."""
    finished = [submission for submission in all_submissions(results) if not submission.left]
    for submission, jobs in zip(finished, jobs_of(finished), strict=True):
        if not any(job.state.alive for job in jobs):
            forget(submission)

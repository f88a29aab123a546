"""Store submissions: the runs that some Slurm jobs share.

    results/work/submissions/<run>/submission.json    the hashes of the runs
    ~/.cache/rl-ablations/jobs/<run>/                 the job specification, a copy of the code;
                                                      submitit's files

The state of a run is decided by its record alone. A submission prevents double submissions and
tells `status` the jobs, which Slurm lists by their comments.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ablations.core.decode import Part, encode
from ablations.core.files import find_json, read_bytes
from ablations.engine.claims import published
from ablations.engine.slurm import commands
from ablations.errors import UserError
from ablations.private import JOBS, require_private_folder
from ablations.records import write_atomically

FOLDER = "submissions"


class Submission(Part, frozen=True):
    """Jobs that were submitted together. cells: the hashes of their runs."""

    run: str
    results: str
    time: float
    studies: tuple[str, ...]
    cells: tuple[str, ...]

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

    def forget(self) -> None:
        """Delete the files of the submission."""
        for folder in (self.folder, self.private):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Held:
    """A submission, and one of its jobs in the queue; None: it has none."""

    submission: Submission
    job: commands.Job | None

    @property
    def alive(self) -> bool:
        """Return whether the job will train runs."""
        return self.job is not None and self.job.alive

    @property
    def why_ended(self) -> str:
        """Return why the job left its runs."""
        if self.job is None:
            return "its job is gone from the queue"
        if self.job.held:
            return f"its job {self.job.id} is held: {self.job.reason}"
        return f"its job {self.job.id} ended as {self.job.state}"

    def last_line(self) -> str:
        """Return the last line of the newest log of the submission, or ""."""
        try:
            logs = self.submission.private.glob("*_log.err")
            newest = max(logs, key=lambda path: path.stat().st_mtime)
            lines = read_bytes(newest).decode(errors="replace").strip().splitlines()
        except (OSError, UserError, ValueError):
            return ""
        return lines[-1] if lines else ""


def all_submissions(results: Path) -> list[Submission]:
    """Return all submissions, the oldest first."""
    paths = (results / "work" / FOLDER).glob("*/submission.json")
    read = (find_json(path, Submission) for path in paths)
    return sorted((each for each in read if each), key=lambda submission: submission.time)


def holders(results: Path, cells: Iterable[str]) -> dict[str, Held]:
    """Return hash -> the last submission of each submitted run, or a live one.

    Raises commands.Silent.
    """
    wanted = set(cells)
    submissions = [s for s in all_submissions(results) if not wanted.isdisjoint(s.cells)]
    jobs = commands.jobs() if submissions else []
    holding: dict[str, Held] = {}
    for submission in submissions:
        mine = [job for job in jobs if job.run == submission.run]
        # Among ended jobs, prefer one that failed.
        held = Held(
            submission,
            max(mine, key=lambda job: (job.alive, job.state != "COMPLETED"), default=None),
        )
        for cell in wanted.intersection(submission.cells):
            if held.alive or cell not in holding or not holding[cell].alive:
                holding[cell] = held
    return holding


def cancel(
    results: Path, studies: Collection[str], cells: Collection[str] | None
) -> tuple[int, int]:
    """Cancel the jobs of studies, or those with some of the runs. Raises commands.Silent.

    Returns:
        The number of jobs, and of their runs without a record.
    """
    chosen = {
        submission.run: submission
        for submission in all_submissions(results)
        if not set(studies).isdisjoint(submission.studies)
        and (cells is None or not set(cells).isdisjoint(submission.left))
    }
    alive = [job for job in commands.jobs() if job.alive and job.run in chosen] if chosen else []
    if alive:
        commands.cancel({job.id for job in alive})
    left = {cell for job in alive for cell in chosen[job.run].left}
    return len(alive), len(left)


def forget_the_finished(results: Path) -> None:
    """Delete the files of submissions whose runs have records and whose jobs have ended."""
    if finished := [submission for submission in all_submissions(results) if not submission.left]:
        alive = {job.run for job in commands.jobs() if job.alive}
        for submission in finished:
            if submission.run not in alive:
                submission.forget()

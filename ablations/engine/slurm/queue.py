"""Slurm's queue, and the submissions of runs that some jobs share.

    results/work/submissions/<run>/submission.json    the hashes of the runs
    ~/.cache/rl-ablations/jobs/<run>/                 the job specification, a copy of the code;
                                                      submitit's files

The state of a run is decided by its record alone; the queue lists the jobs by their comments. A
submission prevents double submissions and tells `status` the jobs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations.core.decode import Part, encode
from ablations.core.files import find_json, read_bytes
from ablations.engine.claims import published
from ablations.errors import UserError
from ablations.private import JOBS, require_private_folder
from ablations.records import write_atomically

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")
TIMEOUT_SECONDS = 30
# Our arrays have the comment "rl-ablations RUN", the name of their submission
COMMENT = "rl-ablations"
ENDED = frozenset(
    [
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    ]
)


@dataclass(frozen=True)
class Job:
    """One of our jobs in the queue.

    id: of the job ("12") or array task ("12_3"). run: see `COMMENT`. state: Slurm's name (PENDING,
    RUNNING, OUT_OF_MEMORY...). reason: why the job waits, or "".
    """

    id: str
    run: str
    state: str
    reason: str = ""

    @property
    def alive(self) -> bool:
        """Return whether the job runs, waits, or will run again."""
        return self.state not in ENDED


class Silent(UserError):
    """Slurm did not answer, so the state of jobs is unknown."""


def require_commands() -> None:
    """Raise UserError on a machine without Slurm's commands."""
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise UserError(
            f"not on the PATH: {', '.join(missing)}; use --cluster slurm on a login node of the "
            f"cluster, or --cluster local to train on this machine"
        )


def jobs() -> list[Job]:
    """Return our jobs in the queue, also those that ended some minutes ago. Raises Silent."""
    found = []
    for line in _answer(["squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r|%k"]).splitlines():
        if match := re.fullmatch(rf"(.*)\|(.*)\|(.*)\|{COMMENT} (\w+).*", line):
            job, state, reason, run = match.groups()
            found.append(Job(job, run, state, "" if reason == "None" else reason))
    return found


def is_running(job: str) -> bool:
    """Return whether a job still runs; True if Slurm does not answer."""
    try:
        done = _ask(["squeue", "-h", "-j", job, "-o", "%T"])
    except Silent:
        return True
    known = not done.returncode and "error:" not in done.stderr
    return not known or done.stdout.split() == ["RUNNING"]


def try_out(script: str) -> None:
    """Raise UserError with sbatch's message if sbatch would refuse a script."""
    done = _ask(["sbatch", "--test-only"], script)
    if done.returncode:
        raise UserError(f"sbatch refuses these jobs: {complaint(done.stderr)}")


def requeue(job: str) -> bool:
    """Requeue a job; return whether Slurm did."""
    return _ask(["scontrol", "requeue", job]).returncode == 0


def complaint(text: str) -> str:
    """Return the last error line of a Slurm command, without its prefix."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line] or lines or ["no reason given"]
    return re.sub(r"^[\w ]+(?:: error)?: ", "", errors[-1]).strip()


def _ask(command: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; remove the lines that name a cluster from its output. Raises Silent."""
    try:
        done = subprocess.run(
            command,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        done.stdout = re.sub(r"(?m)^CLUSTER: .*\n?", "", done.stdout)
        return done
    except FileNotFoundError:
        raise Silent(f"{command[0]} is not on the PATH: is Slurm installed here?") from None
    except subprocess.TimeoutExpired:
        raise Silent(f"{command[0]} does not answer: is Slurm's controller running?") from None


def _answer(command: Sequence[str]) -> str:
    """Return the output of a command. Raises Silent."""
    done = _ask(command)
    if done.returncode or "error:" in done.stderr:  # after a timeout, squeue exits with 0
        why = complaint(done.stderr)
        raise Silent(
            f"{command[0]} does not answer ({why}): nothing was changed. Is this a login node?"
        )
    return done.stdout


# Submissions

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

    @property
    def last_line(self) -> str:
        """Return the last line of its newest log, or ""."""
        try:
            newest = max(self.private.glob("*_log.err"), key=lambda path: path.stat().st_mtime)
            lines = read_bytes(newest).decode(errors="replace").strip().splitlines()
        except (OSError, UserError, ValueError):
            return ""
        return lines[-1] if lines else ""

    def write(self) -> None:
        """Write the submission."""
        write_atomically(self.folder / "submission.json", encode(self))

    def forget(self) -> None:
        """Delete the files of the submission."""
        for folder in (self.folder, self.private):
            shutil.rmtree(folder, ignore_errors=True)


def all_submissions(results: Path) -> list[Submission]:
    """Return all submissions, the oldest first."""
    paths = (results / "work" / FOLDER).glob("*/submission.json")
    read = (find_json(path, Submission) for path in paths)
    return sorted((each for each in read if each), key=lambda submission: submission.time)


def holders(results: Path, cells: Iterable[str]) -> dict[str, tuple[Submission, Job | None]]:
    """Return hash -> the last submission of each submitted run, or one that is alive.

    With it comes one of its jobs in the queue, if any. Raises Silent.
    """
    wanted = set(cells)
    submissions = [s for s in all_submissions(results) if not wanted.isdisjoint(s.cells)]
    queued = jobs() if submissions else []
    holding: dict[str, tuple[Submission, Job | None]] = {}
    for submission in submissions:
        mine = [job for job in queued if job.run == submission.run]
        # Among ended jobs, prefer one that failed.
        job = max(mine, key=lambda job: (job.alive, job.state != "COMPLETED"), default=None)
        for cell in wanted.intersection(submission.cells):
            _, before = holding.get(cell, (None, None))
            if not (before and before.alive) or (job and job.alive):
                holding[cell] = submission, job
    return holding


def cancel(
    results: Path, studies: Collection[str], cells: Collection[str] | None
) -> tuple[int, int]:
    """Cancel the jobs of studies, or those with some of the runs. Raises Silent.

    Returns the number of jobs, and of their runs without a record.
    """
    chosen = {
        submission.run: submission
        for submission in all_submissions(results)
        if not set(studies).isdisjoint(submission.studies)
        and (cells is None or not set(cells).isdisjoint(submission.left))
    }
    alive = [job for job in jobs() if job.alive and job.run in chosen] if chosen else []
    if alive:
        _answer(["scancel", *{job.id.partition("_")[0] for job in alive}])
    left = {cell for job in alive for cell in chosen[job.run].left}
    return len(alive), len(left)


def forget_the_finished(results: Path) -> None:
    """Delete the files of submissions whose runs have records and whose jobs have ended."""
    if finished := [submission for submission in all_submissions(results) if not submission.left]:
        alive = {job.run for job in jobs() if job.alive}
        for submission in finished:
            if submission.run not in alive:
                submission.forget()

"""Call the commands of Slurm. Only records say whether a run is done; the queue lists the jobs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ablations.errors import UserError

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")
TIMEOUT_SECONDS = 30
ENDED = frozenset(
    [
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    ]
)
_MOST_AT_ONCE = 500


@dataclass(frozen=True)
class State:
    """The state of a job.

    name: Slurm's name (PENDING, RUNNING, OUT_OF_MEMORY...), or GONE for an unknown job. reason: why
    the job waits, or "".
    """

    name: str
    reason: str = ""

    @property
    def alive(self) -> bool:
        """Return whether the job runs, waits, or will run again."""
        return self.name not in ENDED and self.name != "GONE" and not self.held

    @property
    def held(self) -> bool:
        """Return whether Slurm holds the job until somebody releases it."""
        failed = self.name == "PENDING" and "launch failed" in self.reason
        return failed or self.name in ("SPECIAL_EXIT", "REQUEUE_HOLD")


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


def states(jobs: Collection[str]) -> dict[str, State]:
    """Return the states of jobs ("12"), array tasks ("12_3") and their arrays, by id.

    Unknown jobs are omitted. An ended job stays in squeue for a while (MinJobAge); later only
    accounting knows it. Raises Silent.
    """
    by_job: dict[str, State] = {}
    for some in _in_parts(sorted({_array(job) for job in jobs})):
        command = ["squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r", "-j", ",".join(some)]
        for line in _answer(command).splitlines():
            job, name, reason = line.split("|", 2)
            by_job[job] = State(name, "" if reason == "None" else reason)
    unknown = {_array(job) for job in jobs if job not in by_job}
    for some in _in_parts(sorted(unknown)):
        command = ["sacct", "-n", "-X", "-P", "-o", "JobID,State", "-j", ",".join(some)]
        try:
            done = _ask(command)
        except Silent:
            break
        for line in done.stdout.splitlines() if done.returncode == 0 else ():
            job, _, text = line.partition("|")
            if "[" not in job and text:
                by_job.setdefault(job, State(text.split()[0]))  # "CANCELLED by 0"
    return by_job


def commented(first_word: str) -> list[tuple[str, list[str]]]:
    """Return the user's jobs whose comment starts with a word: id, other words. Raises Silent."""
    lines = _answer(["squeue", "-h", "-t", "all", "-u", str(os.getuid()), "-o", "%F|%k"])
    comments = dict(line.split("|", 1) for line in lines.splitlines() if "|" in line)
    words = {job: comment.split() for job, comment in comments.items()}
    return [(job, rest) for job, [first, *rest] in words.items() if first == first_word]


def is_running(job: str) -> bool:
    """Return whether a job still runs; True if Slurm does not answer."""
    try:
        done = _ask(["squeue", "-h", "-j", job, "-o", "%T"])
    except Silent:
        return True
    known = not done.returncode and "error:" not in done.stderr
    return not known or done.stdout.split() == ["RUNNING"]


def state_of(states: Mapping[str, State], job: str | None) -> State:
    """Return the state of a job or task; the array's state for a task that was cancelled early."""
    return states.get(job or "") or states.get(_array(job or "")) or State("GONE")


def _array(job: str) -> str:
    return job.partition("_")[0]


def cancel(jobs: Iterable[str]) -> None:
    """Cancel jobs. Raises Silent."""
    for some in _in_parts(sorted(jobs)):
        _answer(["scancel", *some])


def largest_array() -> int:
    """Return the largest number of tasks of an array (MaxArraySize)."""
    settings = _answer(["scontrol", "show", "config"])
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", settings, re.MULTILINE)
    return max(1, int(match[1])) if match else 1001


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


def _in_parts(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return [names[i : i + _MOST_AT_ONCE] for i in range(0, len(names), _MOST_AT_ONCE)]


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
    """Return the output of a command, also if Slurm does not know a job. Raises Silent."""
    done = _ask(command)
    failed = done.returncode or "error:" in done.stderr  # after a timeout, squeue exits with 0
    if failed and "Invalid job id" not in done.stderr:
        why = complaint(done.stderr)
        raise Silent(f"{command[0]} does not answer ({why}): nothing was changed; try again")
    return done.stdout

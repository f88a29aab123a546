"""Call the commands of Slurm. Only records say whether a run is done; the queue lists the jobs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ablations.errors import UserError

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")
TIMEOUT_SECONDS = 30
COMMENT = "rl-ablations"  # the first word of our jobs' comments
ENDED = frozenset(
    [
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    ]
)
_MOST_AT_ONCE = 500


@dataclass(frozen=True)
class Job:
    """One of our jobs in the queue.

    id: of the job ("12") or array task ("12_3"). run, first: see `comment`. state: Slurm's name
    (PENDING, RUNNING, OUT_OF_MEMORY...). reason: why the job waits, or "".
    """

    id: str
    run: str
    first: int
    state: str
    reason: str = ""

    @property
    def alive(self) -> bool:
        """Return whether the job runs, waits, or will run again."""
        return self.state not in ENDED and not self.held

    @property
    def held(self) -> bool:
        """Return whether Slurm holds the job until somebody releases it."""
        failed = self.state == "PENDING" and "launch failed" in self.reason
        return failed or self.state in ("SPECIAL_EXIT", "REQUEUE_HOLD")


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


def comment(run: str, first: int) -> str:
    """Return the comment of an array. run: its submission. first: the number of its first job."""
    return f"{COMMENT} {run} {first}"


def jobs() -> list[Job]:
    """Return our jobs in the queue, also those that ended some minutes ago. Raises Silent."""
    found = []
    for line in _answer(["squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r|%k"]).splitlines():
        if match := re.fullmatch(rf"(.*)\|(.*)\|(.*)\|{COMMENT} (\w+) (\d+)", line):
            job, state, reason, run, first = match.groups()
            found.append(Job(job, run, int(first), state, "" if reason == "None" else reason))
    return found


def is_running(job: str) -> bool:
    """Return whether a job still runs; True if Slurm does not answer."""
    try:
        done = _ask(["squeue", "-h", "-j", job, "-o", "%T"])
    except Silent:
        return True
    known = not done.returncode and "error:" not in done.stderr
    return not known or done.stdout.split() == ["RUNNING"]


def cancel(jobs: Iterable[str]) -> None:
    """Cancel jobs. Raises Silent."""
    names = sorted(jobs)
    for first in range(0, len(names), _MOST_AT_ONCE):
        _answer(["scancel", *names[first : first + _MOST_AT_ONCE]])


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
        raise Silent(f"{command[0]} does not answer ({why}): nothing was changed; try again")
    return done.stdout

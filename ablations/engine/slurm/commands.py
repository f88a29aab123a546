"""Ask Slurm about jobs and the cluster, once per question.

Nobody here waits for a job. Whether a run is done is a matter of its record; the queue only tells
who is still going to work on the others.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ablations.engine.slurm.cluster import minutes
from ablations.errors import UserError

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
TIMEOUT_SECONDS = 30
QUEUE_SECONDS = 30.0  # a controller has others to answer too
ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
_MOST_AT_ONCE = 500


@dataclass(frozen=True)
class State:
    """The state of a job.

    name: as Slurm has it (PENDING, RUNNING, OUT_OF_MEMORY...), or GONE for a job that it no longer
    knows. reason: why it waits, or "".
    """

    name: str
    reason: str = ""

    @property
    def alive(self) -> bool:
        """Return whether it runs, waits, or will be run again."""
        return self.name not in ENDED and self.name != "GONE" and not self.held

    @property
    def held(self) -> bool:
        """Return whether Slurm holds it until it is released.

        Slurm gave up to start it, or it was put back to be looked at.
        """
        failed = self.name == "PENDING" and "launch failed" in self.reason
        return failed or self.name in ("SPECIAL_EXIT", "REQUEUE_HOLD")


Queue = Callable[[Collection[str]], Mapping[str, State]]


@dataclass(frozen=True)
class Partition:
    """A partition of the cluster. time: its limit in minutes. nodes: names of hosts."""

    name: str
    time: int | None
    nodes: frozenset[str]


class Silent(UserError):
    """Slurm did not answer: the state of jobs is not known."""


def require_commands() -> None:
    """Raise UserError on a machine without Slurm's commands."""
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise UserError(
            f"there is no {' or '.join(missing)} on the PATH: --cluster slurm is for a machine "
            f"from which Slurm's jobs are submitted; --cluster local runs here"
        )


def states(jobs: Collection[str]) -> dict[str, State]:
    """Return the states of jobs ("12") and array tasks ("12_3"), by id, with those of their arrays.

    Slurm no longer knows those that are left out. A job, or a task of an array that goes on,
    stays in squeue for a while after its end (MinJobAge); later only accounting knows it, where
    there is any. Raises Silent: Slurm does not answer.
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


def remembered() -> Queue:
    """Return a `states` that remembers its answer for QUEUE_SECONDS.

    It asks Slurm earlier about jobs that are not in the answer.
    """
    asked_at, known, answer = -math.inf, frozenset[str](), {}

    def queue(jobs: Collection[str]) -> Mapping[str, State]:
        nonlocal asked_at, known, answer
        if time.monotonic() - asked_at >= QUEUE_SECONDS or not known.issuperset(jobs):
            answer = states(jobs)
            asked_at, known = time.monotonic(), frozenset(jobs)
        return answer

    return queue


def commented(first_word: str) -> list[tuple[str, list[str]]]:
    """Return the jobs and arrays of this user whose comment begins with a word.

    Slurm's id, and the other words of the comment. Raises Silent.
    """
    lines = _answer(["squeue", "-h", "-t", "all", "-u", str(os.getuid()), "-o", "%F|%k"])
    comments = dict(line.split("|", 1) for line in lines.splitlines() if "|" in line)
    words = {job: comment.split() for job, comment in comments.items()}
    return [(job, rest) for job, [first, *rest] in words.items() if first == first_word]


def is_running(job: str) -> bool:
    """Return whether a job still runs, also where Slurm will soon end it.

    True where it does not answer.
    """
    try:
        done = _ask(["squeue", "-h", "-j", job, "-o", "%T"])
    except Silent:
        return True
    known = not done.returncode and "error:" not in done.stderr
    return not known or done.stdout.split() == ["RUNNING"]


def state_of(states: Mapping[str, State], job: str | None) -> State:
    """Return the state of a job or task.

    Tasks that were cancelled while they waited have none of their own: what is left of the array
    stands for them.
    """
    return states.get(job or "") or states.get(_array(job or "")) or State("GONE")


def _array(job: str) -> str:
    return job.partition("_")[0]


def cancel(jobs: Iterable[str]) -> None:
    """Cancel jobs. Raises Silent."""
    for some in _in_parts(sorted(jobs)):
        _answer(["scancel", *some])


def partitions() -> dict[str, Partition]:
    """Return the partitions of the cluster by name. Raises Silent."""
    by_name: dict[str, Partition] = {}
    for line in _answer(["sinfo", "-h", "-N", "-o", "%R|%l|%n"]).splitlines():
        name, limit, node = line.split("|")
        before = by_name.get(name)
        nodes = frozenset({node}) | (before.nodes if before else frozenset())
        by_name[name] = Partition(
            name, None if limit in ("infinite", "n/a") else minutes(limit), nodes
        )
    return by_name


def largest_array() -> int:
    """Return the most tasks that an array may have (MaxArraySize)."""
    settings = _answer(["scontrol", "show", "config"])
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", settings, re.MULTILINE)
    return max(1, int(match[1])) if match else 1001


def try_out(script: str) -> None:
    """Raise UserError, in sbatch's own words, where it would refuse a script."""
    done = _ask(["sbatch", "--test-only"], script)
    if done.returncode:
        raise UserError(f"sbatch refuses these jobs: {complaint(done.stderr)}")


def requeue(job: str) -> bool:
    """Put a job back into the queue; return whether Slurm did."""
    return _ask(["scontrol", "requeue", job]).returncode == 0


def names_of_this_machine() -> set[str]:
    """Return the names that this machine may have as a node."""
    name = socket.gethostname()
    return {name, name.partition(".")[0], "localhost"}


def complaint(text: str) -> str:
    """Return the complaint of a command of Slurm: its last line, without the prefix."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line] or lines or ["no reason given"]
    return re.sub(r"^[\w ]+(?:: error)?: ", "", errors[-1]).strip()


def _in_parts(names: Sequence[str]) -> Iterable[Sequence[str]]:
    """Split names into parts that fit a command line."""
    return [names[i : i + _MOST_AT_ONCE] for i in range(0, len(names), _MOST_AT_ONCE)]


def _ask(command: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; the lines that name a cluster of several are left out of its output."""
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
        raise Silent(f"there is no {command[0]} on the PATH: is Slurm on this machine?") from None
    except subprocess.TimeoutExpired:
        raise Silent(f"{command[0]} does not answer: is Slurm's controller up?") from None


def _answer(command: Sequence[str]) -> str:
    """Return the output of a command; jobs that Slurm no longer knows are no error.

    squeue may time out, print an error and no job, and exit with 0.
    """
    done = _ask(command)
    failed = done.returncode or "error:" in done.stderr
    if failed and "Invalid job id" not in done.stderr:
        why = complaint(done.stderr)
        raise Silent(f"{command[0]} does not answer ({why}): nothing was changed; try again")
    return done.stdout

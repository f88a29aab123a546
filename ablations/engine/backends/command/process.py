"""Run a user's process without a shell, and kill it with everything that it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ablations.private import JOBS, private_path

MARK = "ABLATIONS_FOLDER"  # in the environment of a command: the folder of its run
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> Callable[[], None] | None:
    """Return a function that a child calls before exec, so that it dies with this process."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    parent = os.getpid()

    def ask() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return ask


class Process:
    """A running command. log: a file for its output. Raises OSError if it cannot start."""

    def __init__(
        self, arguments: Sequence[str], cwd: str, environment: Mapping[str, str], log: Path
    ):
        self.started = time.monotonic()
        self.peak_megabytes = 0
        self._ended = threading.Event()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                arguments,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        # Its own usage: RUSAGE_CHILDREN is the largest of all children so far.
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss  # kilobytes; bytes on macOS
        self.peak_megabytes = round(peak / (1024**2 if sys.platform == "darwin" else 1024))
        self._ended.set()

    @property
    def seconds(self) -> float:
        """Return the seconds since its start."""
        return time.monotonic() - self.started

    def ended(self, seconds: float) -> bool:
        """Wait for some seconds at most; return whether it has ended."""
        return self._ended.wait(seconds)

    @property
    def code(self) -> int:
        """Return its exit code, or the negative number of the signal that killed it."""
        self._ended.wait()
        return self._process.returncode

    def stop(self, seconds: float) -> None:
        """Send SIGTERM to its process group, and SIGKILL after some seconds."""
        self._signal(signal.SIGTERM)
        self._ended.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Kill its process group, also after the command itself has ended."""
        self._signal(signal.SIGKILL)
        self._ended.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def kill_leftovers(folder: Path) -> int:
    """Kill processes that an earlier try of a run left; return how many. Needs /proc."""
    mark = f"{MARK}={folder}".encode()
    killed = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            os.kill(int(entry.name), signal.SIGKILL)
            killed += 1
        except (OSError, ValueError):
            continue
    return killed


def environment_of(
    folder: Path, declared: Mapping[str, str], threads: int | None, share: int
) -> dict[str, str]:
    """Return the environment of a command: that of this process, with its share of the cores.

    folder: the folder of the run.
    declared: variables that the study sets.
    threads: the threads that a flag sets; None: `share`, unless the variable is set.
    share: the command's share of the cores.
    """
    environment = dict(os.environ)
    paths = [p for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p]
    # The copied code of a Slurm job is for our own imports only.
    kept = [path for path in paths if not Path(path).is_relative_to(private_path(JOBS))]
    if kept:
        environment["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        environment.pop("PYTHONPATH", None)
    for name in THREADS:
        if threads is not None or name not in environment:
            environment[name] = str(threads or share)
    return environment | dict(declared) | {MARK: str(folder)}

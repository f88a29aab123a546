"""Run a process of the user's, without a shell, and end it with all that it has started."""

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

from ablations.private import JOB_CODE, private_folder

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
    """Return what a child does between fork and exec: it asks the kernel for its end with ours."""
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
    """A command that runs; its output goes to a file. Raises OSError where it cannot start."""

    def __init__(
        self, arguments: Sequence[str], cwd: str, environment: Mapping[str, str], log: Path
    ):
        """Start it. log: the file to which its output is added."""
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
        """Return whether it has ended, after that long at most."""
        return self._ended.wait(seconds)

    @property
    def code(self) -> int:
        """Return its exit code; minus a signal's number where one ended it."""
        self._ended.wait()
        return self._process.returncode

    def stop(self, seconds: float) -> None:
        """Ask its group to end, and kill what is left of it after some seconds."""
        self._signal(signal.SIGTERM)
        self._ended.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """End its group at once, also what it left behind when it ended by itself."""
        self._signal(signal.SIGKILL)
        self._ended.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def kill_leftovers(folder: Path) -> int:
    """Kill processes that an earlier try of a run left here, whose command was killed.

    Return how many. Without /proc there is nothing to find them by.
    """
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
    """Return the environment of a command: this process's own, with its share of the cores.

    The code of a job of a cluster is for our imports alone.

    Args:
        folder: of its cell.
        declared: variables that its study sets.
        threads: of the command, as a flag asks for.
        share: its share of the cores, over which a variable that is set wins.
    """
    environment = dict(os.environ)
    paths = [p for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p]
    ours = private_folder(JOB_CODE)
    kept = [path for path in paths if ours is None or not Path(path).is_relative_to(ours)]
    if kept:
        environment["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        environment.pop("PYTHONPATH", None)
    for name in THREADS:
        if threads is not None or name not in environment:
            environment[name] = str(threads or share)
    return environment | dict(declared) | {MARK: str(folder)}

"""Lock runs while they are computed. The lock of a dead process is released.

    results/work/<hash>/lock              locked (flock) while a process computes the run
    results/work/<hash>/heartbeat.json    that process, its step and its speed
    results/work/<hash>/tries.json        how often workers of one job started at one point
    results/work/<hash>/checkpoints/      see checkpoints.py
    results/work/<hash>/policies/         see checkpoints.py
    results/work/running.lock             a shared lock of all running commands

The folder is deleted when the run has a record. All of it may be deleted while nothing runs; runs
then start from the beginning.

If a file system has no `flock` (Lustre without `-o flock`, some NFS), a lock is a file that names
its holder. Such a file survives a holder that is killed on another machine, so it is broken if the
heartbeat is old.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from ablations.core.decode import Count, Part, Within
from ablations.core.files import find_json
from ablations.engine.machine import slurm_job
from ablations.errors import UserError
from ablations.records import cell_folder, write_atomically

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
HEARTBEAT_SECONDS = 1.0
STALE_SECONDS = 120.0
RUNNING = "running.lock"

_known: dict[int, bool] = {}  # device -> whether it has flock


def file_lock(path: Path) -> BaseFileLock:
    """Return a lock at a path in an existing folder, for all users who may write there."""
    kind = FileLock if flock_works(path.parent) else SoftFileLock
    return kind(path, mode=permitted(0o666))


def permitted(mode: int) -> int:
    """Apply the umask to permissions, which filelock does not do."""
    try:
        status = Path("/proc/self/status").read_text()
        return mode & ~int(status.partition("Umask:")[2].split()[0], 8)
    except (OSError, ValueError, IndexError):  # not Linux: assume the usual umask
        return mode & ~0o022


def flock_works(folder: Path) -> bool:
    """Return whether the file system of a folder has `flock`."""
    device = os.stat(folder).st_dev
    if device not in _known:
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _known[device] = True
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _known[device] = False
    return _known[device]


def work_folder(results: Path, cell: str) -> Path:
    """Return the work folder of a run."""
    return results / "work" / cell


class Heartbeat(Part, frozen=True):
    """The state of a running process.

    rate: environment steps per second. score: None also for NaN. start: the step at which the
    process started. job: the id of its Slurm job.
    """

    host: str
    pid: Annotated[int, Within(1, 2**31 - 1)]
    phase: str
    step: Count
    steps: Count
    rate: float
    score: float | None
    time: float
    start: Count = 0
    job: str | None = None

    @property
    def alive(self) -> bool:
        """Return whether the process runs; on another host, whether the heartbeat is recent."""
        if self.host == socket.gethostname():
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return False
            except PermissionError:
                pass
        return abs(time.time() - self.time) < STALE_SECONDS


def read_heartbeat(results: Path, cell: str) -> Heartbeat | None:
    """Return the last heartbeat of a run, or None."""
    return find_json(work_folder(results, cell) / "heartbeat.json", Heartbeat)


@contextlib.contextmanager
def running(results: Path) -> Iterator[None]:
    """Keep `clean` from deleting work files of a results folder."""
    with _lock_file(results).open("a") as file:
        if flock_works(results):
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def at_rest(results: Path) -> Iterator[bool]:
    """Yield whether a results folder is idle, and let no command start there.

    Without `flock`, only recent heartbeats are checked.
    """
    with _lock_file(results).open("a") as file:
        if not flock_works(results):
            beats = (read_heartbeat(results, path.name) for path in (results / "work").iterdir())
            yield not any(beat.alive for beat in beats if beat)
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _lock_file(results: Path) -> Path:
    return make_folder(results, "work") / RUNNING


def make_folder(results: Path, name: str) -> Path:
    """Make a folder in the results folder, and return its path. Raises UserError."""
    path = results / name
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot use the results folder '{results}': {error.strerror}; give another --results"
        ) from None
    return path


class _Tries(Part, frozen=True):
    """The number of times that workers of one job started a run at one point."""

    run: str
    point: int
    tries: Count


class Claim:
    """The lock of this process on a run, until `finish` or `release`."""

    def __init__(self, results: Path, cell: str, lock: BaseFileLock):
        self._folder = work_folder(results, cell)
        self._lock = lock
        self._last_beat = 0.0
        self.start = 0

    @property
    def due(self) -> bool:
        """Return whether `beat` would write."""
        return time.monotonic() - self._last_beat >= HEARTBEAT_SECONDS

    def beat(
        self,
        phase: str,
        step: int,
        steps: int,
        rate: float,
        score: float | None,
        *,
        force: bool = False,
    ) -> None:
        """Write the heartbeat at most once a second, unless forced; ignore errors."""
        if not (force or self.due):
            return
        self._last_beat = time.monotonic()  # the other clock may jump
        host, pid = socket.gethostname(), os.getpid()
        when, job = time.time(), slurm_job()
        sign = Heartbeat(host, pid, phase, step, steps, rate, score, when, self.start, job)
        path = self._folder / "heartbeat.json"
        with contextlib.suppress(OSError):
            write_atomically(path, msgspec.json.encode(sign), lasting=False)

    def begin(self, run: str, point: int) -> int:
        """Return how often workers of a job started this run at a point, this time included."""
        last = find_json(self._folder / "tries.json", _Tries)
        tries = 1 + (last.tries if last and (last.run, last.point) == (run, point) else 0)
        this = msgspec.json.encode(_Tries(run, point, tries))
        write_atomically(self._folder / "tries.json", this, lasting=False)
        return tries

    def finish(self) -> None:
        """Delete the work folder of a run that has a record, and release the lock."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.release()

    def release(self) -> None:
        """Release a run; this try does not count."""
        for name in ("heartbeat.json", "tries.json"):
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()
        self._lock.release()


def claim(results: Path, cell: str) -> Claim | None:
    """Lock a run; None if it has a record or another process holds the lock."""
    held = hold(results, cell)
    if held is not None and published(results, cell):
        held.finish()
        return None
    return held


def hold(results: Path, cell: str) -> Claim | None:
    """Lock a run, with or without a record; None if another process holds the lock."""
    folder = work_folder(results, cell)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _break_if_dead(results, cell)
        lock = file_lock(folder / "lock")
        lock.acquire(timeout=0)
    except Timeout:
        return None
    except (FileExistsError, FileNotFoundError):
        # The holder published the record and deleted the folder in this moment.
        if folder.exists() and not folder.is_dir():
            raise
        return None
    return Claim(results, cell, lock)


def _break_if_dead(results: Path, cell: str) -> None:
    """Delete a lock of a file system without flock if its holder seems dead."""
    lock = work_folder(results, cell) / "lock"
    if flock_works(lock.parent):
        return
    beat = read_heartbeat(results, cell)
    with contextlib.suppress(FileNotFoundError):
        old = time.time() - lock.stat().st_mtime > STALE_SECONDS
        if not beat.alive if beat else old:
            lock.unlink()


def checkpoint_points(results: Path, cell: str) -> list[int]:
    """Return the points of a run's checkpoints, valid or damaged, ascending."""
    folder = work_folder(results, cell) / "checkpoints"
    return sorted(int(path.stem) for path in folder.glob("*.msgpack") if path.stem.isdecimal())


def published(results: Path, cell: str) -> bool:
    """Return whether a run has a record."""
    return (cell_folder(results, cell) / "record.json").exists()

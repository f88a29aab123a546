"""Lock runs that are worked on: a lock that dies with its holder, a heartbeat, tries.

    results/work/<hash>/lock              held (flock) while somebody computes the run
    results/work/<hash>/heartbeat.json    who, at which step, how fast; rewritten meanwhile
    results/work/<hash>/tries.json        how often a worker of one job began it from one point
    results/work/<hash>/checkpoints/      see checkpoints.py
    results/work/<hash>/policies/         see checkpoints.py
    results/work/running.lock             shared by everything that runs, imports included

The folder goes away when the record is there. All of it may be deleted when nothing runs: a run
then starts at its beginning.

Where a file system has no `flock` (Lustre without `-o flock`, some NFS), a lock is a file that
names its holder. It outlives a holder on another machine that is killed, so it may be broken where
the heartbeat shows that nobody is there.
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
from ablations.records import cell_folder, write_atomically

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


_known: dict[int, bool] = {}  # device -> whether it has flock


def file_lock(path: Path) -> BaseFileLock:
    """Return a lock at a path whose folder exists, for all who may write there."""
    kind = FileLock if flock_works(path.parent) else SoftFileLock
    return kind(path, mode=permitted(0o666))


def permitted(mode: int) -> int:
    """Apply the umask to permissions, as temporary files and folders do not."""
    try:
        status = Path("/proc/self/status").read_text()
        return mode & ~int(status.partition("Umask:")[2].split()[0], 8)
    except (OSError, ValueError, IndexError):  # not Linux: 022, nearly everybody's
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


HEARTBEAT_SECONDS = 1.0
STALE_SECONDS = 120.0
TICK_SECONDS = 3.0  # coarser than the clock of any file system
SCAN_PAUSE = 49  # times as long as a scan for records took
RUNNING = "running.lock"
MOST_BEAT = 100_000  # bytes of a heartbeat


def work_folder(results: Path, cell: str) -> Path:
    """Return the work folder of a cell."""
    return results / "work" / cell


class Heartbeat(Part, frozen=True):
    """A sign of life of a running cell.

    rate: environment steps per second. score: None also where it is NaN. start: the step at which
    its process took it up. job: Slurm's id of the job that it is in.
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
        """Return whether its process runs, on this host; on another, whether the sign is recent."""
        if self.host == socket.gethostname():
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return False
            except PermissionError:
                pass
        return abs(time.time() - self.time) < STALE_SECONDS


def read_heartbeat(results: Path, cell: str) -> Heartbeat | None:
    """Return the last sign of life of a run, None where there is none."""
    path = work_folder(results, cell) / "heartbeat.json"
    return find_json(path, Heartbeat, MOST_BEAT, lenient=True)


@contextlib.contextmanager
def running(results: Path) -> Iterator[None]:
    """Keep `clean` away from a results folder meanwhile."""
    with _lock_file(results).open("a") as file:
        if flock_works(results):
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def at_rest(results: Path) -> Iterator[bool]:
    """Yield whether nothing runs in a results folder; nothing can start there meanwhile.

    Without `flock`: whether nothing showed a sign of life lately.
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
    path = results / "work" / RUNNING
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


class _Tries(Part, frozen=True):
    """The number of times that a worker of one job began a run from one point."""

    run: str
    point: int
    tries: Count


class Claim:
    """The lock of this process on a run, until `finish` or `release`."""

    def __init__(self, results: Path, cell: str, lock: BaseFileLock):
        """Take a lock that was acquired."""
        self.cell = cell
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
        """Write the heartbeat, at most once a second unless forced.

        One that cannot be written is left out: it is for people, and no reason to stop.
        """
        now = time.monotonic()  # the other clock may jump
        if not force and now - self._last_beat < HEARTBEAT_SECONDS:
            return
        self._last_beat = now
        host, pid = socket.gethostname(), os.getpid()
        when, job = time.time(), slurm_job()
        sign = Heartbeat(host, pid, phase, step, steps, rate, score, when, self.start, job)
        path = self._folder / "heartbeat.json"
        with contextlib.suppress(OSError):
            write_atomically(path, msgspec.json.encode(sign), lasting=False)

    def tries(self, run: str, point: int) -> int:
        """Return how often workers of a job died on this run after they started at a point.

        A run that moves on between two deaths is not at fault.
        """
        last = find_json(self._folder / "tries.json", _Tries, MOST_BEAT)
        return last.tries if last and (last.run, last.point) == (run, point) else 0

    def begin(self, run: str, point: int) -> None:
        """Count a try; see `tries`."""
        this = _Tries(run, point, self.tries(run, point) + 1)
        write_atomically(self._folder / "tries.json", msgspec.json.encode(this), lasting=False)

    def finish(self) -> None:
        """Release a run whose record is published, and delete its work folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.release()

    def release(self) -> None:
        """Release a run for others: this try does not count."""
        for name in ("heartbeat.json", "tries.json"):
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()
        self._lock.release()


def claim(results: Path, cell: str) -> Claim | None:
    """Lock a run; None if it is done, or another process has it."""
    if published(results, cell):
        return None
    held = hold(results, cell)
    if held is not None and published(results, cell):
        held.finish()
        return None
    return held


def hold(results: Path, cell: str) -> Claim | None:
    """Lock a run, done or not; None if another process has it."""
    folder = work_folder(results, cell)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _break_if_dead(results, cell)
        lock = file_lock(folder / "lock")
        lock.acquire(timeout=0)
    except Timeout:
        return None
    except (FileExistsError, FileNotFoundError):
        # Its holder published the record and removed the folder just now: after mkdir, or in the
        # middle of it. What is there and no folder stays an error.
        if folder.exists() and not folder.is_dir():
            raise
        return None
    return Claim(results, cell, lock)


def _break_if_dead(results: Path, cell: str) -> None:
    """Remove a lock that is a file, if its holder has no recent sign of life."""
    lock = work_folder(results, cell) / "lock"
    if flock_works(lock.parent):
        return
    beat = read_heartbeat(results, cell)
    with contextlib.suppress(FileNotFoundError):
        old = time.time() - lock.stat().st_mtime > STALE_SECONDS
        if not beat.alive if beat else old:
            lock.unlink()


def checkpoint_points(results: Path, cell: str) -> list[int]:
    """Return the points at which a run has checkpoints, good or bad, ascending."""
    folder = work_folder(results, cell) / "checkpoints"
    return sorted(int(path.stem) for path in folder.glob("*.msgpack") if path.stem.isdecimal())


class Arrivals:
    """The records that appear in a results folder.

    It is scanned when it has changed; where it is large not each time, so that scans take a
    fiftieth of a core at most.
    """

    def __init__(self, results: Path):
        """Watch the records of a results folder."""
        self._folder = results / "cells"
        self._known: set[str] = set()
        self._stamp = 0
        self._next = 0.0

    def since_last(self, *, at_once: bool = False) -> set[str]:
        """Return the runs whose records appeared since the last call; at the first, all.

        at_once: also where it is too early for another scan.
        """
        began = time.monotonic()
        if began < self._next and not at_once:
            return set()
        try:
            changed = self._folder.stat().st_mtime_ns
            # Of a change in the same tick of the clock as the last scan the stamp says nothing.
            if changed == self._stamp and time.time() - changed / 1e9 > TICK_SECONDS:
                return set()
            names = set(os.listdir(self._folder))
        except FileNotFoundError:
            return set()
        self._stamp = changed
        new = {name for name in names - self._known if not name.startswith(".")}
        self._known |= new
        now = time.monotonic()
        self._next = now + SCAN_PAUSE * (now - began)
        return new


def published(results: Path, cell: str) -> bool:
    """Return whether a run has a record."""
    return (cell_folder(results, cell) / "record.json").exists()

"""Lock files of a folder that several machines may share.

Where a file system has no `flock` (Lustre without `-o flock`, some NFS), a lock is a file that
names its holder. It outlives a holder on another machine that is killed, so whoever has another
sign that nobody is there may break it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock

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

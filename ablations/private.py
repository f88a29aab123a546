"""Make folders that only this user may write, for caches.

A results folder may be shared, and what another user put into a cache there would be executed, or
shown, as ours.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ablations.errors import UserError

JOBS = "jobs"  # of a cluster: their code, their specifications, and what submitit writes for them
COPIES = "commits"  # copies of code that one process makes and deletes


def private_path(part: str) -> Path:
    """Return $XDG_CACHE_HOME/rl-ablations/<part>, whether it is there or not."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "rl-ablations" / part


def private_folder(part: str) -> Path | None:
    """Return a private folder, made if missing; None if another user could write to it."""
    folder = private_path(part)
    if not folder.is_absolute():
        return None
    try:
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            path.mkdir(mode=0o700, exist_ok=True)
            about = path.stat()
            if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
    except OSError:  # no home, or none that can be written
        return None
    return folder


def require_private_folder(part: str) -> Path:
    """Return a private folder, for copies of code that is run. Raises UserError."""
    if (folder := private_folder(part)) is None:
        raise UserError(
            "there is no folder for copies of code that only you may write to: let XDG_CACHE_HOME "
            "name one"
        )
    return folder

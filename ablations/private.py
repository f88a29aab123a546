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
    """Return the private folder of that name, made if it is missing.

    None where this user cannot have one that nobody else may write to.
    """
    try:
        folder = private_path(part)
        base = folder.parent
        others = stat.S_IWGRP | stat.S_IWOTH
        if not base.is_absolute():
            return None
        base.parent.mkdir(parents=True, exist_ok=True)
        for path in (base, folder):
            path.mkdir(mode=0o700, exist_ok=True)
            about = path.stat()
            if about.st_uid != os.getuid() or about.st_mode & others:
                return None
    except OSError:  # no home, or none that can be written
        return None
    return folder


def require_private_folder(part: str) -> Path:
    """Return the private folder, in which code may lie that is run. Raises UserError."""
    folder = private_folder(part)
    if folder is None:
        raise UserError(
            "there is no folder for copies of code that only you may write to: let XDG_CACHE_HOME "
            "name one"
        )
    return folder

"""Runs git safely in an untrusted repository, whose settings may start programs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

# Without a file monitor, hooks or a pager
_STARTS_NOTHING = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager")
# For `git diff`: without programs that compare or convert files
PLAIN = ("--no-ext-diff", "--no-textconv")


def git(
    root: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    seconds: float = 60,
    codes: tuple[int, ...] = (0,),
) -> bytes:
    """Return the output of git in the repository of a folder.

    Raises:
        OSError: git is not installed.
        subprocess.SubprocessError: its exit code is not in `codes`, or it takes longer.
    """
    command = ["git", *_STARTS_NOTHING, "-C", str(root), *arguments]
    done = subprocess.run(
        command, capture_output=True, check=False, env=environment, timeout=seconds
    )
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout

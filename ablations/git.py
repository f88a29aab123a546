"""Run git in a repository that is not trusted, whose settings may name programs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

# A monitor of files, hooks, a pager.
_STARTS_NOTHING = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager")
# Of `git diff`: a program that compares, and one that shows a file as text.
PLAIN = ("--no-ext-diff", "--no-textconv")


def git(
    root: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    seconds: float = 60,
    codes: tuple[int, ...] = (0,),
) -> bytes:
    """Return the output of git in the repository at a folder.

    codes: with which it may end.

    Raises:
        OSError: there is no git.
        subprocess.SubprocessError: it ends otherwise or takes longer.
    """
    command = ["git", *_STARTS_NOTHING, "-C", str(root), *arguments]
    done = subprocess.run(
        command, capture_output=True, check=False, env=environment, timeout=seconds
    )
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout

"""Copies of code that commands run in: of a commit, and of files as they are.

They lie in the user's private cache: nothing in a results folder is executed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ablations.core.decode import PathText
from ablations.core.files import read_json
from ablations.errors import UserError
from ablations.git import PLAIN, git
from ablations.private import require_private_folder
from ablations.records import folder_at_once, write_atomically
from ablations.sweep.backends.command.code import Code, digest_of, root_of
from ablations.trainers.command import Site


@dataclass(frozen=True)
class Commit:
    """A commit that was checked out.

    name: its full hash. root: the copy. here: the folder in it that the command runs in. digest: of
    the content of `files`, as `Code.digest` has it for the files as they lie there.
    """

    name: str
    root: Path
    here: Path
    digest: str
    files: tuple[Path, ...]


def checked_out(here: Path, commit: str, depends: tuple[str, ...] | None = None) -> Commit:
    """Return a copy of the repository at a commit.

    It is made once, and anew where it is not as committed.

    Raises:
        UserError: there is no repository, or no such commit.
    """
    root = root_of(here)
    if root is None:
        raise UserError(f"'{here}' is in no git repository, so there is no '{commit}' to run")
    try:
        name = _git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").strip()
    except subprocess.CalledProcessError:
        raise UserError(f"there is no commit '{commit}' in '{root}'") from None
    folder = require_private_folder("commits") / name[:16]
    if folder.is_dir() and not _is_as_committed(root, name, folder):
        aside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
        os.rename(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)
    if not folder.is_dir():
        # An index of its own: the repository does not change.
        with folder_at_once(folder) as files, tempfile.TemporaryDirectory() as temporary:
            index = _index(root, name, temporary)
            _git(root, "checkout-index", "-a", "-f", f"--prefix={files}/", environment=index)
    inside = folder / here.resolve().relative_to(root.resolve())
    if not inside.is_dir():
        raise UserError(f"commit '{commit}' has no folder '{here.relative_to(root)}'")
    if depends is None:
        listed = _git(root, "ls-tree", "-r", "-z", "--name-only", name).split("\0")
        paths = sorted(folder / file for file in listed if file)
    else:
        paths = Code(inside, (), depends).files()
    return Commit(name, folder, inside, digest_of(paths, inside), tuple(paths))


def _is_as_committed(root: Path, commit: str, folder: Path) -> bool:
    """Return whether a copy has the files of a commit, by git's hashes, and no other code."""
    with tempfile.TemporaryDirectory() as temporary:
        index, here = _index(root, commit, temporary), f"--work-tree={folder}"
        compare = ("diff", "--name-only", *PLAIN, "--ignore-submodules")
        changed = _git(root, here, *compare, environment=index)
        more = _git(root, here, "ls-files", "-z", "--others", environment=index).split("\0")
    return not changed and not any(name.endswith((".py", ".so", ".pth")) for name in more)


def _index(root: Path, commit: str, folder: str) -> dict[str, str]:
    """Return an environment in which git has an index of a commit in a folder."""
    environment = {**os.environ, "GIT_INDEX_FILE": str(Path(folder) / "index")}
    _git(root, "read-tree", commit, environment=environment)
    return environment


def _git(root: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    return os.fsdecode(git(root, *arguments, environment=environment, seconds=600))


class Copy(NamedTuple):
    """A copy of files. folder: its name in the cache. inside: where in it the command runs."""

    folder: str
    inside: str


def copy_of(files: Sequence[Path], here: Path, root: Path) -> Copy:
    """Return where `keep_copy` puts files. here: the folder that the command runs in."""
    return Copy(digest_of(files, here), here.resolve().relative_to(root.resolve()).as_posix())


def keep_copy(files: Sequence[Path], here: Path, root: Path) -> None:
    """Copy those of the files that are below a root, once, with a list of their names."""
    kept = {}
    for path in files:
        absolute = Path(os.path.realpath(path.parent)) / path.name
        if absolute.is_relative_to(root.resolve()) and os.path.lexists(path):
            kept[absolute.relative_to(root.resolve())] = path
    copy = copy_of(files, here, root)
    folder = require_private_folder("code") / copy.folder
    if not folder.is_dir():
        with folder_at_once(folder) as new:
            (new / copy.inside).mkdir(parents=True, exist_ok=True)
            for name, path in kept.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, new / name, follow_symlinks=False)
    names = json.dumps([name.as_posix() for name in sorted(kept)])
    write_atomically(folder.with_name(f"{folder.name}.json"), names)


def copied_site(copy: Copy, code: str, timeout: float | None) -> Site:
    """Return a copy as a place to run in. Raises UserError where its files are not as they were.

    Args:
        copy: see `copy_of`.
        code: the digest of its files.
        timeout: of a run, in seconds.
    """
    folder = require_private_folder("code") / copy.folder
    here = folder / copy.inside
    try:
        names = read_json(folder.with_name(f"{folder.name}.json"), list[PathText])
        if digest_of(sorted(folder / name for name in names), here) != code:
            raise UserError("its files have changed")
    except (OSError, UserError) as why:
        raise UserError(
            f"the copy of the best so far, '{folder}', cannot be used ({why}): begin a new ledger"
        ) from None
    return Site(code, {"here": str(here), "timeout": timeout})

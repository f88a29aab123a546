"""Check out a commit in a folder of its own, to compare a command there with today's files."""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from ablations.errors import UserError
from ablations.git import PLAIN, git
from ablations.records import folder_at_once
from ablations.sweep.backends.command.code import Code, digest_of, root_of


@dataclass(frozen=True)
class Commit:
    """A commit that was checked out.

    name: its full hash. here: the folder, in the copy, that the command runs in. digest: of the
    content of `files`, as `Code.digest` has it for the files as they lie there.
    """

    name: str
    here: Path
    digest: str
    files: tuple[Path, ...]


def checked_out(
    here: Path, commit: str, results: Path, depends: tuple[str, ...] | None = None
) -> Commit:
    """Return a copy of the repository at a commit, under results/code.

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
    folder = results.resolve() / "code" / name[:16]
    if folder.is_dir() and not _is_as_committed(root, name, folder):
        aside = results.resolve() / "set-aside" / f"{folder.name}-{uuid.uuid4().hex[:8]}"
        aside.parent.mkdir(exist_ok=True)
        os.rename(folder, aside)
    if not folder.is_dir():
        _extract(root, name, folder)
    inside = folder / here.resolve().relative_to(root.resolve())
    if not inside.is_dir():
        raise UserError(f"commit '{commit}' has no folder '{here.relative_to(root)}'")
    if depends is None:
        listed = _git(root, "ls-tree", "-r", "-z", "--name-only", name).split("\0")
        files = sorted(folder / file for file in listed if file)
    else:
        files = Code(inside, (), depends).files()
    return Commit(name, inside, digest_of(files, inside), tuple(files))


def _is_as_committed(root: Path, commit: str, folder: Path) -> bool:
    """Return whether a copy has the files of a commit, by git's hashes, and no other code."""
    with tempfile.TemporaryDirectory() as temporary:
        index = {**os.environ, "GIT_INDEX_FILE": str(Path(temporary) / "index")}
        _git(root, "read-tree", commit, environment=index)
        here = f"--work-tree={folder}"
        compare = ("diff", "--name-only", *PLAIN, "--ignore-submodules")
        changed = _git(root, here, *compare, environment=index)
        more = _git(root, here, "ls-files", "-z", "--others", environment=index).split("\0")
    return not changed and not any(name.endswith((".py", ".so", ".pth")) for name in more)


def _extract(root: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit by an index of its own: the repository does not change."""
    with folder_at_once(folder) as files, tempfile.TemporaryDirectory() as temporary:
        index = {**os.environ, "GIT_INDEX_FILE": str(Path(temporary) / "index")}
        _git(root, "read-tree", commit, environment=index)
        _git(root, "checkout-index", "-a", "-f", f"--prefix={files}/", environment=index)


def _git(root: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    return os.fsdecode(git(root, *arguments, environment=environment, seconds=600))

"""Find, digest and copy the files that decide what a command does.

In a git repository they are all tracked files in their current state, and untracked Python files
that git does not ignore. Elsewhere they are the Python files in and below the folder of each script
that the command names. `depends` replaces this rule. Files that the command names always count; the
study file and results folders never do.

Copies are in the user's private cache: nothing in a results folder is executed.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ablations.core.files import require_regular
from ablations.core.plan import Context
from ablations.core.record import Checkout
from ablations.engine import provenance
from ablations.errors import UserError
from ablations.git import git
from ablations.private import COPIES, require_private_folder
from ablations.records import write_atomically
from ablations.trainers.command import Site

_BINARIES = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_NEVER = ("__pycache__", "node_modules", "site-packages")


@dataclass(frozen=True)
class Code:
    """The code that a command uses.

    here: the folder of the study file. named: arguments of the command. depends: files that replace
    the rule above; None: use the rule. without: the study file.
    """

    here: Path
    named: tuple[str, ...]
    depends: tuple[str, ...] | None = None
    without: Path | None = None

    def files(self) -> list[Path]:
        """Return its files, sorted, without repetition.

        Raises UserError: the files are unknown, or a name in `depends` does not exist.
        """
        named = [path for path in map(self._file, self.named) if path is not None]
        if self.depends is not None:
            rest = [path for name in self.depends for path in self._depended(name)]
        elif (tracked := _tracked(self.here)) is not None:
            rest = tracked
        elif named:
            rest = [file for path in named if path.suffix == ".py" for file in _below(path.parent)]
        else:
            raise UserError(
                "the command names no local file, so an edit of its code would go unnoticed: name "
                'the files that it uses by depends = ["train.py", "lib/"] in the study file, or '
                "--depends train.py lib/ of a gate; [] means no files"
            )
        left = self.without and self.without.resolve()
        return sorted({path for path in (*named, *rest) if path.resolve() != left})

    def digest(self) -> str:
        """Return the digest of the files' paths and contents, 16 hexadecimal digits."""
        return digest_of(self.files(), self.here)

    def _file(self, argument: str) -> Path | None:
        """Return the file that an argument names, as FILE or NAME=FILE."""
        text = argument.replace("{here}", str(self.here))
        for part in (text, text.partition("=")[2]):
            if part and "{" not in part and len(part) < 4096:
                path = self.here / part
                if path.is_file() and not _is_binary(path):
                    return path
        return None

    def _depended(self, name: str) -> Iterator[Path]:
        paths = sorted(self.here.glob(name)) if "*" in name else [self.here / name]
        if not paths or not paths[0].exists():
            raise UserError(f"depends names '{name}', which '{self.here}' does not contain")
        for path in paths:
            if path.is_dir():
                yield from _below(path, every=True)
            else:
                yield path


def digest_of(files: Iterable[Path], here: Path) -> str:
    """Return the digest of files' contents and of their paths from a folder."""
    digest = hashlib.sha256()
    for path in files:
        if not os.path.lexists(path):  # tracked, and deleted since
            continue
        name = os.path.relpath(path, here)
        digest.update(os.fsencode(f"{name}\0{_content(path)}\n"))
    return digest.hexdigest()[:16]


def _content(path: Path) -> str:
    """Return the SHA-256 of a file's content, or of a symbolic link's target."""
    try:
        if path.is_symlink():
            return hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
        require_regular(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read '{path}', which the command uses: {error.strerror}") from None


def _is_binary(path: Path) -> bool:
    """Return whether a file is a compiled program, such as an interpreter."""
    if not os.access(path, os.X_OK):
        return False
    require_regular(path)
    with path.open("rb") as file:
        return file.read(4) in _BINARIES


def root_of(here: Path) -> Path | None:
    """Return the root of the repository that contains a folder; None: there is no repository."""
    try:
        return Path(_git(here, "rev-parse", "--show-toplevel").rstrip("\n"))
    except (OSError, subprocess.SubprocessError):
        return None


def _tracked(here: Path) -> list[Path] | None:
    """Return the files of the repository that contains a folder; None: there is no repository."""
    if (root := root_of(here)) is None:
        return None
    try:
        tracked = _git(root, "ls-files", "-z", "--cached", "--recurse-submodules").split("\0")
        new = _git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", "*.py")
    except (OSError, subprocess.SubprocessError):
        return None
    added = [root / name for name in new.split("\0") if name]
    return [root / name for name in tracked if name] + [
        path
        for path in added
        if not any(_is_results(f) for f in path.parents if f.is_relative_to(root))
    ]


def _is_results(folder: Path) -> bool:
    return (folder / "cells").is_dir() and (folder / "work").is_dir()


def _below(folder: Path, *, every: bool = False) -> Iterator[Path]:
    """Yield the Python files below a folder; not in hidden, environment and results folders.

    every: yield files of other types too.
    """
    for root, folders, files in os.walk(folder):
        here = Path(root)
        folders[:] = sorted(
            name
            for name in folders
            if not (name.startswith(".") or name in _NEVER)
            and not (here / name / "pyvenv.cfg").exists()
            and not _is_results(here / name)
        )
        for name in files:
            if name.endswith(".py") or (every and not name.startswith(".") and name[-4:] != ".pyc"):
                yield here / name


def code_of(context: Context) -> Code:
    """Return the code that a command uses."""
    depends, without = context["depends"], context["without"]
    return Code(
        Path(context["here"]),
        tuple(context["named"]),
        None if depends is None else tuple(depends),
        Path(without) if without else None,
    )


def place_of(code: Code, timeout: float | None) -> Context:
    """Return the execution context of a command."""
    return {
        "here": str(code.here),
        "named": list(code.named),
        "depends": None if code.depends is None else list(code.depends),
        "without": str(code.without) if code.without else None,
        "timeout": timeout,
    }


@functools.cache
def commit_of(code: Code, revision: str, results: Path) -> Checkout:
    """Return the commit of files with the digest `revision`; keep changes as a patch."""
    if (root := root_of(code.here)) is None:
        return {}
    paths = [os.path.relpath(path, root) for path in code.files() if path.is_relative_to(root)]
    return provenance.of_checkout(root, paths, results) if paths else {}


class Commit(NamedTuple):
    """A commit that was checked out.

    name: its full hash. here: the folder in the copy in which the command runs. digest: of its
    files, comparable with `Code.digest`.
    """

    name: str
    here: Path
    digest: str


def checked_out(here: Path, commit: str, depends: tuple[str, ...] | None = None) -> Commit:
    """Return a copy of the repository at a commit, for this process.

    Raises UserError: there is no repository or no such commit.
    """
    root = root_of(here)
    if root is None:
        raise UserError(f"cannot run '{commit}': '{here}' is not in a git repository")
    try:
        name = _git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").strip()
    except subprocess.CalledProcessError:
        raise UserError(f"there is no commit '{commit}' in '{root}'") from None
    folder = _new_folder()
    with tempfile.TemporaryDirectory() as temporary:
        # With a separate index, the repository does not change.
        index = {**os.environ, "GIT_INDEX_FILE": str(Path(temporary) / "index")}
        _git(root, "read-tree", name, environment=index)
        _git(root, "checkout-index", "-a", "-f", f"--prefix={folder}/", environment=index)
    inside = folder / here.resolve().relative_to(root.resolve())
    if not inside.is_dir():
        raise UserError(f"commit '{commit}' does not contain '{here.relative_to(root)}'")
    if depends is None:
        paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    else:
        paths = Code(inside, (), depends).files()
    return Commit(name, inside, digest_of(paths, inside))


def _new_folder() -> Path:
    """Return a new private folder that is deleted at the end of this process."""
    folder = Path(tempfile.mkdtemp(dir=require_private_folder(COPIES)))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _git(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    return os.fsdecode(git(folder, *arguments, environment=environment, seconds=600))


def keep_copy(files: Sequence[Path], here: Path, root: Path) -> None:
    """Archive the files that are below a root. here: the folder in which the command runs."""
    archive = _archive(digest_of(files, here))
    if archive.exists():
        return
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for path in files:
            absolute = Path(os.path.realpath(path.parent)) / path.name
            if absolute.is_relative_to(root.resolve()) and os.path.lexists(path):
                tar.add(path, absolute.relative_to(root.resolve()), recursive=False)
    write_atomically(archive, data.getvalue())


def copied_site(code: str, inside: str, timeout: float | None) -> Site:
    """Unpack a copy; return the site that runs a command in it, in this process.

    code: the digest of the copy's files.
    inside: the folder of the command in the copy.
    timeout: the timeout of a run, in seconds.
    Raises UserError: the copy is missing or was changed.
    """
    archive, folder = _archive(code), _new_folder()
    here = folder / inside
    here.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="tar")
            files = sorted(folder / name for name in tar.getnames())
        if digest_of(files, here) != code:
            raise UserError("its files have changed")
    except (OSError, tarfile.TarError, UserError) as why:
        raise UserError(
            f"cannot use the copy of the best version, '{archive}' ({why}): start a new ledger"
        ) from None
    return Site(code, {"here": str(here), "timeout": timeout})


def _archive(code: str) -> Path:
    return require_private_folder("code") / f"{code}.tar"

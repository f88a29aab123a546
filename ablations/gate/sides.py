"""The two sides of a comparison: which code, which arguments; and copies of code that is kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ablations.core.decode import PathText
from ablations.core.files import read_json
from ablations.errors import UserError
from ablations.gate.question import Question
from ablations.records import folder_at_once, write_atomically
from ablations.sweep.backends.command.code import Code, digest_of, root_of
from ablations.sweep.backends.command.commit import Commit, checked_out
from ablations.sweep.backends.command.repository import place_of
from ablations.sweep.backends.command.study_file import code_of
from ablations.trainers.command import Site

ARGUMENTS = "arguments"  # the placeholder of what one side has more than the other


@dataclass(frozen=True)
class Side:
    """A side of a comparison. arguments: after the words that both have. called: for people."""

    site: Site
    arguments: tuple[str, ...]
    called: str


class Sides(NamedTuple):
    """The two sides of a comparison. commit: of the baseline, or None."""

    baseline: Side
    change: Side
    commit: Commit | None = None

    @property
    def same(self) -> bool:
        """True where both run the same code with the same arguments."""
        baseline, change = self.baseline, self.change
        return (baseline.site.code, baseline.arguments) == (change.site.code, change.arguments)


def code_here(question: Question, here: Path, without: Path | None = None) -> Code:
    """Return the code that a question's command rests on, as it lies in a folder.

    without: a file that is none of it, though it lies there.
    """
    return code_of(question.line, here, {"depends": question.depends}, without)


def compared_sides(question: Question, here: Path, results: Path) -> Sides:
    """Return the sides of a question: a commit or further arguments, and the files as they are.

    Raises UserError where there is nothing to compare.
    """
    if question.baseline is None and not question.against:
        raise UserError("nothing to compare: name a commit with --baseline, or --against ARGS")
    code = code_here(question, here)
    now = Site(digest_of(code.files(), here), place_of(code, question.timeout))
    more = " ".join(question.against)
    if question.baseline is None:
        baseline = Side(now, question.against, f"the command with {more}")
        return Sides(baseline, Side(now, (), "the command"))
    commit = checked_out(here, question.baseline, results, question.depends)
    named = question.depends is not None  # else it is likelier that somebody forgot to edit
    if commit.digest == now.code and not question.against and not named:
        raise UserError(
            f"nothing to compare: what the command rests on is the same in "
            f"'{question.baseline}' and here"
        )
    then = Site(commit.digest, {"here": str(commit.here), "timeout": question.timeout})
    called = f"{question.baseline} ({commit.name[:10]}){f' with {more}' if more else ''}"
    return Sides(
        Side(then, question.against, called), Side(now, (), "the files as they are"), commit
    )


class Copy(NamedTuple):
    """A copy of code under results/code. inside: the folder in it that the command runs in."""

    folder: str
    inside: str


def keep_copy(code: Code, results: Path) -> Copy:
    """Copy the files of a command to results/code, made once; see `copied_site`."""
    copy, root = where_copied(code), _root(code)
    files = [path for path in code.files() if os.path.lexists(path)]
    kept = [path for path in files if _absolute(path).is_relative_to(root)]
    folder = results.resolve() / "code" / copy.folder
    for name in ("cells", "work"):  # by which a results folder is known, whose files are no code
        (results / name).mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        with folder_at_once(folder) as new:
            (new / copy.inside).mkdir(parents=True, exist_ok=True)
            for path in kept:
                target = new / _absolute(path).relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target, follow_symlinks=False)
        _list(folder, [_absolute(path).relative_to(root) for path in kept])
    return copy


def keep_commit(commit: Commit, results: Path) -> Copy:
    """Return the copy that a commit is; see `copied_site`."""
    code = results.resolve() / "code"
    folder, *inside = commit.here.relative_to(code).parts
    files = [path.relative_to(code / folder) for path in commit.files if os.path.lexists(path)]
    _list(code / folder, files)
    return Copy(folder, Path(*inside).as_posix())


def _list(folder: Path, files: Sequence[Path]) -> None:
    """Write the names of a copy's files beside it."""
    names = json.dumps([path.as_posix() for path in files])
    write_atomically(folder.with_name(f"{folder.name}.json"), names)


def where_copied(code: Code) -> Copy:
    """Return where `keep_copy` puts the files of a command."""
    inside = code.here.resolve().relative_to(_root(code)).as_posix()
    return Copy(digest_of(code.files(), code.here), inside)


def _root(code: Code) -> Path:
    return (root_of(code.here) or code.here).resolve()


def copied_site(copy: Copy, code: str, results: Path, timeout: float | None) -> Site:
    """Return a copy as a place to run in. Raises UserError where its files are not as they were.

    Args:
        copy: from `keep_copy`.
        code: the digest of its files.
        results: the results folder.
        timeout: of a run, in seconds.
    """
    folder = results.resolve() / "code" / copy.folder
    here = folder / copy.inside
    try:
        names = read_json(folder.with_name(f"{folder.name}.json"), list[PathText])
        if digest_of(_within(folder, names), here) != code:
            raise UserError("its files have changed")
    except (OSError, UserError) as why:
        raise UserError(
            f"the copy of the best so far, '{folder}', cannot be used ({why}): begin a new ledger"
        ) from None
    return Site(code, {"here": str(here), "timeout": timeout})


def _within(folder: Path, names: Sequence[str]) -> list[Path]:
    paths = [folder / name for name in names]
    if any(".." in path.parts for path in paths):
        raise UserError("its list of files leads elsewhere")
    return sorted(paths)


def _absolute(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name

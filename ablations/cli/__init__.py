"""The front door: parses, calls one function, prints.

`commands` names every command. Only the module of the one that was typed is imported: `ablations
table` starts neither JAX nor a trainer.
"""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, NoReturn

from ablations import plugins
from ablations.cli.arguments import Parser, add_commands, part
from ablations.cli.commands import COMMANDS
from ablations.core.files import SetAside
from ablations.errors import Note, UserError, missing_extra, one_line
from ablations.git import git
from ablations.sweep.machine import left_out_of_workers

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM)
_UNREADABLE = (
    *(errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.EIO, errno.ESTALE),
    *(errno.ENAMETOOLONG, errno.ELOOP),
)


MOST_LINES = 20  # of files that are left out


class _Version(argparse.Action):
    def __call__(
        self, *_: argparse.ArgumentParser | argparse.Namespace | str | Sequence[str] | None
    ) -> NoReturn:
        print(f"rl-ablations {version('rl-ablations')}{_commit()}")
        sys.exit(0)


def _commit() -> str:
    """Return the commit of a clone that is run from, to be printed beside the version."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        return f" ({git(root, 'describe', '--always', '--dirty').decode().strip()})"
    except (OSError, SubprocessError):
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    It is 0, or 1 where cells failed or something got worse, 2 for bad input, 3 where a gate stays
    undecided, 130 after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of Latin-1, a name that is no text
            stream.reconfigure(errors="backslashreplace")
    # Records are kept by the thousand, none of them in a cycle: to look for cycles after every few
    # hundred objects, as is usual, takes a tenth of the time of a command that reads them.
    gc.set_threshold(100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("always", SetAside)
        warnings.simplefilter("always", Note)
        warnings.showwarning = _Lines(warnings.showwarning)
        return _run(arguments)


class _Lines:
    """Print notes, and what is set aside up to MOST_LINES, a line each, once."""

    def __init__(self, others: Callable[..., None]):
        self._others = others
        self._printed: set[str] = set()

    def __call__(
        self, message: Warning | str, category: type[Warning], *where: Any, **more: Any
    ) -> None:
        if not issubclass(category, (Note, SetAside)):
            self._others(message, category, *where, **more)
            return
        line, left_out = one_line(str(message)), issubclass(category, SetAside)
        if line in self._printed or (left_out and len(self._printed) > MOST_LINES):
            return
        if left_out and len(self._printed) == MOST_LINES:
            line = "more files, in the same way"
        self._printed.add(line)
        print(f"ablations: {'left out: ' if left_out else ''}{line}", file=sys.stderr)


def _run(arguments: Sequence[str] | None) -> int:
    options = argparse.Namespace()
    try:
        options = _root().parse_args(arguments)
        if options.plugin:
            plugins.load(options.plugin)
        if options.command.unpacks != "nothing" and (options.results / "archive").is_dir():
            part("selected").unpack(options)
        code = options.run(options) or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("ablations: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head`: what is still in the buffer must not meet the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if (line := _in_a_line(error, options)) is None:
            raise
        print(f"ablations: {line}", file=sys.stderr)
        return 2


def _in_a_line(error: Exception, options: argparse.Namespace) -> str | None:
    """Return an error of the user's or of his machine in a line; None for a fault of ours."""
    match error:
        case UserError():
            return one_line(str(error))
        case ModuleNotFoundError():
            missing = missing_extra(error)
            return None if missing is None else str(missing)
        case ValueError():
            return _of_the_shell(error)
        case OSError():
            return _of_a_file(error, options)
    return None


def _of_the_shell(error: ValueError) -> str | None:
    """Return in a line which variable JAX cannot be imported with; None where it is none."""
    for name in left_out_of_workers():
        if name.lower() in str(error).lower():
            return f"JAX does not start with {name}={os.environ[name]} of this shell: unset it"
    return None


def _of_a_file(error: OSError, options: argparse.Namespace) -> str | None:
    """Return in a line what a file or folder cannot do; None where it is a fault of ours."""
    name = error.filename2 or error.filename
    path = Path(os.fsdecode(name)) if isinstance(name, str | bytes) else None
    output = getattr(options, "output", None)
    if error.errno in _NO_ROOM or (error.errno in _NOT_ALLOWED and not _is_closed(path)):
        where = f"'{path}'" if path else f"to '{options.results}'"
        return (
            f"cannot write {where}: {error.strerror}: make room or give another --results; what is "
            f"done is safe"
        )
    if path is None and error.errno in (errno.EIO, errno.ESTALE):
        return f"cannot read or write in '{options.results}': {error.strerror}; try again"
    if path is None or error.errno not in (*_NOT_ALLOWED, *_UNREADABLE):
        return None
    writes = error.filename2 is not None or error.errno == errno.EEXIST
    writes = writes or (output is not None and path.is_relative_to(output))
    return f"cannot {'write' if writes else 'read'} '{path}': {error.strerror}"


def _is_closed(path: Path | None) -> bool:
    """Return whether a path is there, or in a folder that is, and cannot be read."""
    if path is None:
        return False
    return not os.access(path.parent, os.X_OK) or (path.exists() and not os.access(path, os.R_OK))


def parser() -> Parser:
    """Return the parser of all commands, with all of their flags."""
    root, *_ = _root().every()
    return root


def _root() -> Parser:
    """Return the parser of all commands, each without its flags until it is parsed."""
    root = Parser(
        prog="ablations",
        description="Does this RL implementation detail matter? Paired ablations, honest tables.",
    )
    root.add_argument("--version", action=_Version, nargs=0, help="print it and exit")
    add_commands(root, COMMANDS)
    return root

"""Find runs of commands that ended well, to read their curves in another way.

    results/work/ended/<key>.json   the cell whose command it was, and what it took

A key names all that decides what a command does: a configuration without how its curve is read.
What the command left lies in the record of that cell, or in its work folder until it could be read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Annotated

from ablations.core.decode import Count, Matches, Part, encode
from ablations.core.files import find_json
from ablations.core.record import CommandLine, Configuration, Seconds
from ablations.errors import UserError
from ablations.records import cell_folder, digest, read_record, write_atomically
from ablations.sweep.claims import work_folder

FOLDER = "run"  # of a command, in a record and in a work folder
READING = ("curve", "metric", "step", "better")  # of a line: how its curve is read
MOST_BYTES = 100_000


class EndedRun(Part, frozen=True):
    """A command that ended with exit code 0.

    cell: the hash of the cell that ran it. peak_megabytes: the most memory that it held. resumed:
    the steps at which it was taken up again.
    """

    cell: Annotated[str, Matches("[0-9a-f]{16}", "a cell")]
    seconds: Seconds
    peak_megabytes: Count
    resumed: tuple[Count, ...] = ()

    @property
    def first(self) -> int:
        """Return the step at which its last process began."""
        return self.resumed[-1] if self.resumed else 0


def path_of(results: Path, config: Configuration) -> Path:
    """Return where the run of a configuration is noted."""
    line = {name: value for name, value in config["command"].items() if name not in READING}
    return results / "work" / "ended" / f"{digest({**config, 'command': line})}.json"


def keep(results: Path, config: Configuration, run: EndedRun) -> None:
    """Note a run, so that its command is not run again."""
    write_atomically(path_of(results, config), encode(run))


def find(results: Path, config: Configuration) -> tuple[EndedRun, Path] | None:
    """Return the run of a configuration and the folder of what it left; None where that is gone."""
    return _noted(results, path_of(results, config))


def is_gone(results: Path, path: Path) -> bool:
    """Return whether what a noted run left is no longer there."""
    return _noted(results, path) is None


def _noted(results: Path, path: Path) -> tuple[EndedRun, Path] | None:
    run = find_json(path, EndedRun, MOST_BYTES, lenient=True)
    if run is None:
        return None
    folders = (home(results, run.cell) / FOLDER for home in (cell_folder, work_folder))
    return next(((run, folder) for folder in folders if folder.is_dir()), None)


def forget(results: Path, config: Configuration) -> None:
    """Delete the note of a run, so that its command is run again."""
    path_of(results, config).unlink(missing_ok=True)


def bring(left: Path, folder: Path) -> None:
    """Put what a run left into another cell's folder: the same files, where the disc has links.

    Raises:
        OSError: it is gone, or the disc is full.
    """
    if left == folder:
        return
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(left, folder, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def was_read(results: Path, command: CommandLine) -> bool:
    """Return whether a curve of this command was read in this way before."""
    for path in (results / "cells").glob("[!.]*"):
        with contextlib.suppress(UserError):  # of another version, or damaged
            record = read_record(results, path.name)
            if record and record.status == "done" and record.config.get("command") == command:
                return True
    return False

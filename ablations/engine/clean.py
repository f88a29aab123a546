"""Find files that may be deleted from a results folder, and delete them.

A results folder may contain other files of its owner. Only names that match `OURS` are deleted, and
symbolic links are not followed.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path

from ablations.core.files import set_aside
from ablations.engine.backends.command.training import read_note
from ablations.engine.claims import at_rest
from ablations.engine.slurm import queue
from ablations.engine.stored import every_plan

_CELL = "[0-9a-f]{16}"
_RUN = "[0-9a-f]{8}"
# Folder -> the names of the suite's own files in it
OURS = {
    "cells": rf"{_CELL}|\.{_CELL}\..+",
    "set-aside": rf"{_CELL}(-checkpoint-\w+)?-{_RUN}",
    "work": _CELL,
    "work/logs": rf"{_RUN}(\.\d+)?-\d+\.log",
    "work/programs": rf"{_CELL}-\d+",
    "work/orders": rf"{_RUN}(\.\d+)?\.json",
    "work/ended": rf"{_CELL}\.json",
    "work/submissions": _RUN,
}


def size(path: Path) -> int:
    """Return the bytes of a file, or of the files below a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.lstat().st_size for file in files if file.is_file())


def waste(results: Path) -> list[Path]:
    """Find files that neither a plan nor a running process needs; [] if no plan is stored.

    They are checkpoints and other files of unfinished runs, and records that were set aside or
    belong to no plan. While something runs here or waits in a queue, no file of unfinished runs is
    found.
    """
    plans = [plan for _, plan in every_plan(results)]
    if not plans:
        return []
    found = [*_ours(results, "set-aside")]
    if None in plans:
        set_aside("records are not deleted while a plan cannot be read")
    else:
        wanted = {cell.hash for plan in plans if plan for cell in plan.cells}
        found += (path for path in _ours(results, "cells") if path.name not in wanted)
    parts = [part for part in OURS if part.startswith("work") and part != "work/ended"]
    if unfinished := [path for part in parts for path in _ours(results, part)]:
        with at_rest(results) as idle:
            waits = bool(queue.all_submissions(results)) and _has_jobs()
            found += unfinished if idle and not waits else []
    found += (path for path in _ours(results, "work/ended") if read_note(results, path) is None)
    return found


def _has_jobs() -> bool:
    """Return whether a queue may have jobs of any results folder."""
    if shutil.which("squeue") is None:
        return False
    try:
        return any(job.alive for job in queue.jobs())
    except queue.Silent:
        return True


def delete(results: Path, paths: Collection[Path]) -> None:
    """Delete paths that `waste` found; not those of unfinished runs if something runs by now."""
    unfinished = {path for path in paths if path.is_relative_to(results / "work")}
    with at_rest(results) if unfinished else nullcontext(True) as idle:
        for path in paths:
            if path in unfinished and not idle:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    for part in sorted(OURS, reverse=True):
        with contextlib.suppress(OSError):  # not empty, or missing
            (results / part).rmdir()


def _ours(results: Path, part: str) -> Iterator[Path]:
    """Yield the suite's own files in a part of a results folder."""
    folder = results / part
    within = [folder, *(path for path in folder.parents if path.is_relative_to(results))]
    if any(path.is_symlink() for path in within if path != results):
        return
    for path in sorted(folder.glob("*")):
        if re.fullmatch(OURS[part], path.name) and not path.is_symlink():
            yield path

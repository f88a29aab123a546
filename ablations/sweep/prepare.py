"""What of some plans is still to be computed; what stands in its way is set aside, not deleted."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations.errors import UserError
from ablations.records import (
    DamagedRecord,
    Plan,
    cell_folder,
    read_record,
    verify_curve,
    write_atomically,
    write_plan,
)
from ablations.sweep.claims import hold, work_folder


@dataclass(frozen=True)
class Work:
    """cells: all that the plans need, each once; todo: those that nobody has computed."""

    cells: tuple[Mapping[str, Any], ...]
    todo: tuple[Mapping[str, Any], ...]


def look(
    plans: Sequence[Plan],
    results: Path,
    *,
    fresh: bool = False,
    only: Collection[str] | None = None,
) -> Work:
    """Stores the plans and finds out what they still need.

    fresh: everything is to do; what was there is set aside. only: hashes of the cells to look at;
    the others are not in the answer. Raises UserError when the results
    folder cannot be written.
    """
    require_writable(results)
    for plan in plans:
        write_plan(results, plan)
    cells = list({cell["hash"]: cell for plan in plans for cell in plan.cells}.values())
    if only is not None:
        cells = [cell for cell in cells if cell["hash"] in only]
    if fresh:
        for cell in cells:
            _start_over(results, cell["hash"])
    todo = [cell for cell in cells if not _has_result(results, cell["hash"])]
    return Work(tuple(cells), tuple(todo))


def missing(
    plans: Sequence[Plan], results: Path, *, fresh: bool = False
) -> list[Mapping[str, Any]]:
    """What `look` would find to do; changes nothing."""
    cells = {cell["hash"]: cell for plan in plans for cell in plan.cells}
    return [c for c in cells.values() if fresh or not _is_computed(results, c["hash"])]


def _is_computed(results: Path, cell: str) -> bool:
    try:
        record = read_record(results, cell)
        if record is not None:
            verify_curve(results, record)
    except DamagedRecord:
        return False
    return record is not None and record.failure != "error"


def require_writable(results: Path) -> None:
    try:
        for folder in (results / "cells", results / "work"):
            folder.mkdir(parents=True, exist_ok=True)
        write_atomically(results / "work" / ".writable", "")
        (results / "work" / ".writable").unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write to the results folder '{results}': {error.strerror}; "
            f"give another one with --results"
        ) from None


def _has_result(results: Path, cell: str) -> bool:
    """Whether a cell needs no run. What is damaged, or failed for no reason of its own, is set
    aside.
    """
    try:
        record = read_record(results, cell)
        if record is not None:
            verify_curve(results, record)
    except DamagedRecord as damaged:
        print(f"{str(damaged).partition(';')[0]}: set aside, to be computed again", flush=True)
    else:
        if record is None:
            return False
        if record.failure != "error":
            if work_folder(results, cell).is_dir() and (held := hold(results, cell)):
                held.finish()  # left by one that was killed right after it wrote the record
            return True
    _set_aside(results, cell, cell_folder(results, cell))
    return False


def _set_aside(results: Path, cell: str, path: Path) -> None:
    """Moves it out of the way, if no other run did or is at work on the cell."""
    if held := hold(results, cell):
        aside = results / "set-aside" / f"{cell}-{uuid.uuid4().hex[:8]}"
        aside.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, aside)
        held.release()


def _start_over(results: Path, cell: str) -> None:
    """Sets aside how far a cell came, unless somebody runs it now."""
    for path in (cell_folder(results, cell), work_folder(results, cell) / "checkpoints"):
        if path.is_dir():
            _set_aside(results, cell, path)

"""Find the runs of plans that are to be computed; set aside records that are no results."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations.engine.claims import hold, work_folder
from ablations.engine.job import Cell, cells_of, distinct, sharing_programs
from ablations.errors import UserError
from ablations.records import (
    DamagedRecord,
    Plan,
    Record,
    cell_folder,
    has_run,
    read_plan,
    read_record,
    verify_curve,
    write_atomically,
    write_plan,
)


@dataclass(frozen=True)
class Work:
    """The runs of some plans, each once. todo: those without a result."""

    cells: tuple[Cell, ...]
    todo: tuple[Cell, ...]


def prepare(plans: Sequence[Plan], results: Path, *, fresh: bool = False) -> Work:
    """Store the plans, and find the runs that they still need.

    Args:
        plans: to be computed.
        results: the results folder.
        fresh: everything is to do; what was there is set aside.

    Raises:
        UserError: the results folder cannot be written, or another study file has a study's name.
    """
    require_writable(results)
    for plan in plans:
        _require_same_file(results, plan)
    for plan in plans:
        write_plan(results, plan)
    return clear_the_way(needed(plans), results, fresh=fresh)


def _require_same_file(results: Path, plan: Plan) -> None:
    """Raise UserError where a study of this name has run from another file that is still there."""
    name, file = plan.study.name, plan.study.file
    if file is None or not has_run(results, name):
        return
    try:
        other = read_plan(results, name).study.file
    except UserError:  # damaged: it is written again
        return
    there = [each for each in (other, file) if each and os.path.exists(each)]
    if len(there) == 2 and not os.path.samefile(*there):
        raise UserError(
            f"'{name}' in '{results}' is the study of '{other}': give that of '{file}' another "
            f"name, or another --results"
        )


def clear_the_way(
    cells: Sequence[Cell],
    results: Path,
    *,
    fresh: bool = False,
    say: Callable[[str], None] = print,
) -> Work:
    """Find the runs without a result; set aside records that are none.

    One that is damaged, with a line, or that failed with an error, which is worth another try.
    """
    if fresh:
        for cell in cells:
            _start_over(results, cell.hash)
            cell.backend.forget(cell, results)
    todo = [cell for cell in cells if not _has_result(results, cell.hash, say)]
    return Work(tuple(cells), tuple(todo))


def missing(plans: Sequence[Plan], results: Path, *, fresh: bool = False) -> list[Cell]:
    """Return the runs that `prepare` would find to do; change nothing."""
    return [cell for cell in needed(plans) if fresh or not _is_computed(results, cell.hash)]


def needed(plans: Sequence[Plan]) -> tuple[Cell, ...]:
    """Return the runs of all plans, each once. Plans share programs where they can."""
    cells = distinct(cell for plan in plans for cell in cells_of(plan))
    return cells if len(plans) < 2 else sharing_programs(cells)


def require_writable(results: Path) -> None:
    """Raise UserError where a results folder cannot be written."""
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


def _is_computed(results: Path, cell: str) -> bool:
    try:
        return _is_result(whole_record(results, cell))
    except DamagedRecord:
        return False


def _has_result(results: Path, cell: str, say: Callable[[str], None]) -> bool:
    """Return whether a run is done; set aside a record that is no result."""
    try:
        record = whole_record(results, cell)
    except DamagedRecord as damaged:
        say(f"{str(damaged).partition(';')[0]}: set aside, to be computed again")
    else:
        if record is None:
            return False
        if _is_result(record):
            if work_folder(results, cell).is_dir() and (held := hold(results, cell)):
                held.finish()  # left by one that was killed right after it wrote the record
            return True
    _set_aside(results, cell, cell_folder(results, cell))
    return False


def whole_record(results: Path, cell: str) -> Record | None:
    """Return the record of a run, None where there is none.

    Raises DamagedRecord: it, or its curve, is not what was written.
    """
    record = read_record(results, cell)
    if record is not None:
        verify_curve(results, record)
    return record


def _is_result(record: Record | None) -> bool:
    return record is not None and record.failure != "error"


def _set_aside(results: Path, cell: str, path: Path) -> None:
    """Move a path aside, unless another run did, or works on the cell."""
    if held := hold(results, cell):
        aside = results / "set-aside" / f"{cell}-{uuid.uuid4().hex[:8]}"
        aside.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, aside)
        held.release()


def _start_over(results: Path, cell: str) -> None:
    """Set aside the record and checkpoints of a run, unless it is running."""
    work = work_folder(results, cell)
    for path in (cell_folder(results, cell), work / "checkpoints", work / "run"):
        if path.is_dir():
            _set_aside(results, cell, path)

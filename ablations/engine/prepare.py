"""Find the runs of plans that must be computed; set aside damaged records and errors."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations.engine.claims import hold, make_folder, work_folder
from ablations.engine.job import Cell, cells_of, distinct, sharing_programs
from ablations.records import (
    DamagedRecord,
    Plan,
    Record,
    cell_folder,
    read_record,
    verify_curve,
    write_plan,
)


@dataclass(frozen=True)
class Work:
    """The distinct runs of some plans. todo: the runs without a result."""

    cells: tuple[Cell, ...]
    todo: tuple[Cell, ...]


def prepare(plans: Sequence[Plan], results: Path, *, fresh: bool = False) -> Work:
    """Store plans, find their missing runs, and set aside damaged records and failures by an error.

    plans: the plans.
    results: the results folder.
    fresh: set all records aside, so that every run is missing.
    Raises UserError: the folder cannot be made.
    """
    for name in ("cells", "work"):
        make_folder(results, name)
    for plan in plans:
        write_plan(results, plan)
    cells = needed(plans)
    if fresh:
        _set_all_aside(cells, results)
    todo = []
    for cell in cells:
        done, damage = _result_of(results, cell.hash)
        if not done:
            todo.append(cell)
            if damage:
                print(f"{damage.partition(';')[0]}: set aside, to be computed again")
            if cell_folder(results, cell.hash).is_dir():
                _set_aside(results, cell.hash, cell_folder(results, cell.hash))
        elif work_folder(results, cell.hash).is_dir() and (held := hold(results, cell.hash)):
            held.finish()  # a worker was killed right after it wrote the record
    return Work(cells, tuple(todo))


def missing(plans: Sequence[Plan], results: Path, *, fresh: bool = False) -> list[Cell]:
    """Return the missing runs of plans; change nothing."""
    return [cell for cell in needed(plans) if fresh or not _result_of(results, cell.hash)[0]]


def needed(plans: Sequence[Plan]) -> tuple[Cell, ...]:
    """Return the distinct runs of plans, with as few programs as possible."""
    cells = distinct(cell for plan in plans for cell in cells_of(plan))
    return cells if len(plans) < 2 else sharing_programs(cells)


def whole_record(results: Path, cell: str) -> Record | None:
    """Return the record of a run, or None. Raises DamagedRecord for it or its curve."""
    record = read_record(results, cell)
    if record is not None:
        verify_curve(results, record)
    return record


def _result_of(results: Path, cell: str) -> tuple[bool, str | None]:
    """Return whether a run has a result, and how its record is damaged."""
    try:
        record = whole_record(results, cell)
    except DamagedRecord as damaged:
        return False, str(damaged)
    return record is not None and record.failure != "error", None


def _set_all_aside(cells: Sequence[Cell], results: Path) -> None:
    for cell in cells:
        work = work_folder(results, cell.hash)
        for path in (cell_folder(results, cell.hash), work / "checkpoints", work / "run"):
            if path.is_dir():
                _set_aside(results, cell.hash, path)
        cell.backend.forget(cell, results)


def _set_aside(results: Path, cell: str, path: Path) -> None:
    """Move a path to the folder set-aside, unless another process holds the run."""
    if held := hold(results, cell):
        aside = results / "set-aside" / f"{cell}-{uuid.uuid4().hex[:8]}"
        aside.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, aside)
        held.release()

"""The records that a question rests on: of every stored plan that ran a part of its design."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from ablations.core.decode import Json, as_json
from ablations.core.plan import CellEntry, Flags
from ablations.errors import UserError
from ablations.records import Plan, plans_folder, read_plan
from ablations.report.results import Results
from ablations.request import Request

# What two selections have to share, so that their cells belong to one design.
_SHARED = ("profile", "steps", "set", "vary", "base", "geometry")


def gathered(folder: Path, study: str, run: Flags) -> Results | None:
    """Return the results of all tasks and seeds of a design, however they were divided into runs.

    Plans are those of archives and of what ran here, which needs neither the study nor JAX. A cell
    that several have counts once. None where nothing was planned.

    Args:
        folder: the results folder.
        study: its name.
        run: the selection of the design.
    """
    wanted = _shared(Request.of(study, run).flags())
    plans = [plan for plan in _stored(folder, study) if _shared(plan.request) == wanted]
    if not plans:
        return None
    tasks = {name: task for plan in reversed(plans) for name, task in plan.tasks.items()}
    variants = {name: v for plan in reversed(plans) for name, v in plan.variants.items()}
    cells: dict[tuple[str, str, int], CellEntry] = {}
    for plan in plans:
        for cell in plan.cells:
            if plan.tasks[cell.task] == tasks[cell.task]:
                cells.setdefault((cell.task, cell.variant, cell.seed), cell)
    whole = replace(plans[0], tasks=tasks, variants=variants, cells=tuple(cells.values()))
    return Results(whole, folder)


class Spent(NamedTuple):
    """The cost of runs: how many, the hours that a core trained, and the makes of processors."""

    runs: int
    core_hours: float
    processors: tuple[str, ...]


def spent(results: Iterable[Results]) -> Spent:
    """Return the cost of the runs of several designs; one that they share counts once."""
    records = {
        run.record.hash: run.record.provenance
        for design in results
        for run in design.runs()
        if run.record is not None
    }
    seconds = sum(one.get("seconds", 0.0) / max(1, one.get("lanes", 1)) for one in records.values())
    makes = {one["processor"] for one in records.values() if "processor" in one}
    return Spent(len(records), seconds / 3600, tuple(sorted(makes)))


def _stored(folder: Path, study: str) -> Iterator[Plan]:
    for path in sorted(plans_folder(folder, study).glob("*.json")):
        with contextlib.suppress(UserError):  # damaged, or of another version
            yield read_plan(folder, study, path.stem)


def _shared(flags: Flags) -> list[Json]:
    given = as_json(flags)
    return [given.get(name) or None for name in _SHARED]

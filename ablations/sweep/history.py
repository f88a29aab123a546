"""List the plans that ran in a results folder, find the last of a study, remove a study."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ablations.core.files import set_aside
from ablations.errors import UserError
from ablations.names import NAME
from ablations.records import Plan, cell_folder, read_plan
from ablations.request import Request
from ablations.sweep.claims import hold


@dataclass(frozen=True)
class StoredRun:
    """A stored plan.

    when: of its file, in seconds since 1970. done: cells that have a record. last: it is what the
    study's name means where no flags are given.
    """

    plan: Plan
    path: Path
    when: float
    done: int
    last: bool

    @property
    def command(self) -> str:
        """Return the command that ran it, or the one that imports such runs."""
        plan = self.plan
        if plan.imported:
            return f"ablations import ... --study {plan.study.name}"
        if ends := plan.request.get("explain"):
            return f"ablations explain {' '.join(ends)}"
        return Request.of(plan.study.name, plan.request).command()


def stored_runs(results: Path, study: str = "*") -> list[StoredRun]:
    """Return the plans of a study, or of all of them, the newest first.

    A damaged one is left out, with a line.
    """
    runs = []
    for path in (results / "plans").glob(f"{study}/*.json"):
        if not NAME.fullmatch(path.parent.name):
            continue
        try:
            plan = read_plan(results, path.parent.name, path.stem)
        except UserError as why:
            set_aside(why)
            continue
        done = sum(cell_folder(results, cell.hash).exists() for cell in plan.cells)
        runs.append(StoredRun(plan, path, path.stat().st_mtime, done, _is_last(path)))
    return sorted(runs, key=lambda run: (-run.when, run.path))


def last_plan(results: Path, study: str) -> Plan:
    """Return the last plan of a study that has begun.

    One that was stopped before it had a cell, or any work on one, hides no results of the plan
    before it.

    Raises:
        UserError: there is none.
    """
    plan = read_plan(results, study)
    if _has_begun(results, plan):
        return plan
    return next((run.plan for run in stored_runs(results, study) if run.done), plan)


def remove(results: Path, study: str, *, dry_run: bool) -> list[Path]:
    """Delete a study's plans, and its cells that no other study has; return what goes.

    Raises:
        UserError: nothing of that name ran, another study's plan cannot be read, so that nobody
            knows its cells, or a cell is running.
    """
    mine = {cell.hash for plan in _plans(results, study) for cell in plan.cells}
    others = {path.parent.name for path in (results / "plans").glob("*/*.json")} - {study}
    shared = {cell.hash for one in others for plan in _plans(results, one) for cell in plan.cells}
    cells = [cell_folder(results, name) for name in sorted(mine - shared)]
    going = [results / "plans" / study, *(cell for cell in cells if cell.is_dir())]
    if dry_run:
        return going
    _require_rest(results, mine - shared)
    for path in going:
        shutil.rmtree(path)
    return going


def _plans(results: Path, study: str) -> Iterator[Plan]:
    names = sorted(path.stem for path in (results / "plans" / study).glob("*.json"))
    if not names:
        read_plan(results, study)
    yield from (read_plan(results, study, name) for name in names)


def _require_rest(results: Path, cells: set[str]) -> None:
    for name in sorted(cells):
        if (results / "work" / name / "lock").exists():
            held = hold(results, name)
            if held is None:
                raise UserError(f"cell {name} is running: stop it first")
            held.release()


def _has_begun(results: Path, plan: Plan) -> bool:
    return any(
        cell_folder(results, cell.hash).exists() or (results / "work" / cell.hash).exists()
        for cell in plan.cells
    )


def _is_last(path: Path) -> bool:
    try:
        return (path.parent / "last").read_text().strip() == path.stem
    except (OSError, UnicodeDecodeError):
        return False

"""Measure how good the choices of an axis are as estimates, at moments of a study's training.

The cells of one variant of the plan train once more, bit for bit, and are measured at `STAGES` by
the trainer's diagnosis. That is a cell like any other, with "diagnosis" in its configuration: the
ordinary crew trains it, and its record lies in a results folder of its own, results/diagnoses; so
nothing is measured twice.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ablations.core.record import Configuration, Diagnosis
from ablations.errors import UserError
from ablations.records import Plan, digest
from ablations.sweep.cell import Cell, cells_of, distinct
from ablations.sweep.local import Processes
from ablations.sweep.prepare import clear_the_way, require_writable
from ablations.trainers import trainer

STAGES = (0.1, 0.5, 1.0)
REVISION = 2


def folder(results: Path) -> Path:
    """Return the results folder of diagnoses."""
    return results / "diagnoses"


def cells(plan: Plan) -> list[Cell]:
    """Return the cells of a plan's baseline, to be diagnosed.

    Of its first variant, where the baseline is not selected.

    Raises:
        UserError: the trainer has no diagnosis.
    """
    name = plan.study.baseline
    name = name if name in plan.variants else next(iter(plan.variants))
    return [_diagnosed(cell) for cell in cells_of(plan) if cell.variant == name]


def _diagnosed(cell: Cell) -> Cell:
    from ablations.trainers.composed import revisions

    definition = trainer(cell.config["trainer"]["name"])
    if definition.diagnosis is None:
        raise UserError(
            f"trainer '{definition.name}' of study '{cell.study}' has no diagnosis: "
            f"`ablations figure {cell.study}` draws what it records"
        )
    how: Diagnosis = {
        "measured": revisions(definition.diagnosed),
        "stages": list(STAGES),
        "revision": REVISION,
    }
    config: Configuration = {**cell.config, "diagnosis": how}
    return replace(cell, hash=digest(config), config=config)


def reference(cell: Cell) -> str:
    """Return the choice that trained, to which the others are compared."""
    definition = trainer(cell.config["trainer"]["name"])
    return definition.completed(cell.config)["choices"][definition.diagnosed]["name"]


def run(
    plans: Sequence[Plan], results: Path, *, workers: int | None = None, quiet: bool = False
) -> None:
    """Run the missing diagnoses of plans; return when all are there.

    Progress goes to stderr.

    Raises:
        UserError: a cell could not be measured.
    """
    asked = distinct(cell for plan in plans for cell in cells(plan))
    kept = folder(results)
    require_writable(kept)
    work = clear_the_way(asked, kept, say=lambda line: print(line, file=sys.stderr))
    names = ", ".join(plan.study.name for plan in plans)
    executor = Processes(workers, lanes=1, quiet=quiet, output=sys.stderr)
    outcome = executor.carry_out(work, kept, f"diagnosis of {names}")
    if outcome.failed:
        cell, record = outcome.failed[0]
        raise UserError(f"{cell.name}: {record.reason}")

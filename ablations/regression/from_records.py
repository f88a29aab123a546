"""Curves by task and variant, from a study's plan and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from ablations.core.decode import Json, as_json, leaves
from ablations.curve import Curve, diverged, logged
from ablations.errors import UserError, unknown
from ablations.records import Plan, Record, read_curve, read_record
from ablations.regression.baselines import Baseline, Group
from ablations.regression.curves import Curves, require_scores, together


class GroupName(NamedTuple):
    """The name of a group of a study's baseline, "study/task/variant"."""

    study: str
    task: str
    variant: str

    @classmethod
    def of(cls, name: str) -> GroupName:
        """Parse a name."""
        return cls(*name.split("/", 2))

    def __str__(self) -> str:
        """Return the name as a baseline has it."""
        return "/".join(self)


def groups(plan: Plan, results: Path) -> dict[str, Group]:
    """Return every task and variant of a plan with the curves of all its seeds, for a baseline.

    Raises UserError where a cell has not run, or was stopped by an error.
    """
    by_name = {}
    for name in names(plan):
        _, task, variant = name
        seeds = [c.seed for c in plan.cells if (c.task, c.variant) == (task, variant)]
        curves = read(plan, results, name, seeds)
        if lacking := [seed for seed in seeds if seed not in (*curves.seeds, *curves.failed)]:
            raise UserError(
                f"{variant} on {task} has no record of seed {lacking[0]}"
                f"{f' and {len(lacking) - 1} more' if len(lacking) > 1 else ''}: "
                f"`ablations run {plan.study.name}` first"
            )
        by_name[str(name)] = Group(
            curves=curves,
            metric=plan.study.metric,
            about=configuration(plan, task, variant),
        )
    return by_name


def names(plan: Plan) -> list[GroupName]:
    """Return the groups of a plan, in its order."""
    study = plan.study.name
    return list(dict.fromkeys(GroupName(study, c.task, c.variant) for c in plan.cells))


def configuration(plan: Plan, task: str, variant: str) -> dict[str, Json]:
    """Return what decides the curves of a task and variant, but for the seed and the code."""
    config = next(
        cell.config for cell in plan.cells if (cell.task, cell.variant) == (task, variant)
    )
    return {name: value for name, value in as_json(config).items() if name != "seed"}


def read(plan: Plan, results: Path, name: GroupName, seeds: Sequence[int] | None = None) -> Curves:
    """Return the curves that a plan's records have of a group; missing ones are left out.

    Raises UserError for a cell that an error stopped: that says nothing about learning.
    """
    _, task, variant = name
    cells = [
        cell
        for cell in plan.cells
        if (cell.task, cell.variant) == (task, variant) and (seeds is None or cell.seed in seeds)
    ]
    runs: dict[int, Curve] = {}
    failed: dict[int, str] = {}
    for cell in cells:
        if (record := read_record(results, cell.hash)) is None:
            continue
        run = _run(plan, record, results, f"{variant} on {task}, seed {cell.seed}, failed")
        if isinstance(run, str):
            failed[cell.seed] = run
        else:
            runs[cell.seed] = run
    if not runs and not failed:
        raise UserError(
            f"no record of {variant} on {task} in '{results}': run it there, or leave out --records"
        )
    joined = together(tuple(runs), list(runs.values()), failed)
    if np.isinf(joined.values).any():
        raise UserError(f"{variant} on {task}: a curve is infinite")
    require_scores(joined)
    return joined


def _run(plan: Plan, record: Record, results: Path, failure: str) -> Curve | str:
    """Return the curve of a record, or why it diverged. Raises UserError for an error."""
    metric = plan.study.metric
    if record.status == "failed":
        if record.failure != "diverged":
            raise UserError(f"{failure}: {record.reason}")
        return str(record.reason)
    curve = read_curve(results, record)
    if metric not in curve:
        raise unknown("metric", metric, (name for name in curve if name != "step"))
    run = logged(curve["step"], curve[metric])
    return diverged(metric, run.end) if run.status == "diverged" else run


def require_same_settings(baseline: Baseline, name: GroupName, now: Mapping[str, Json]) -> None:
    """Raise UserError where a group is not trained as its baseline was.

    Revisions may differ, and so may the data of imported runs: they are the question.
    """
    then = _decisive(baseline.groups[str(name)].about)
    for setting, value in _decisive(now).items():
        before = then.pop(setting, None)
        if before != value:
            raise UserError(
                f"{name} is trained with other settings than its baseline '{baseline.name}': "
                f"{setting} was {before!r}, is {value!r}: set it back, or save the baseline anew"
            )
    if then:
        raise UserError(
            f"{name} is trained with other settings than its baseline '{baseline.name}': "
            f"{next(iter(then))} is gone: save the baseline anew"
        )


def _decisive(config: Mapping[str, Json]) -> dict[str, Json]:
    free = {"revision", "imported"}
    return {name: x for name, x in leaves(config) if free.isdisjoint(name.split("."))}


def with_seeds(plan: Plan, wanted: Mapping[GroupName, Sequence[int]]) -> Plan:
    """Return the part of a plan with those cells."""
    study = plan.study.name
    cells = tuple(
        cell
        for cell in plan.cells
        if cell.seed in wanted.get(GroupName(study, cell.task, cell.variant), ())
    )
    return replace(plan, cells=cells)

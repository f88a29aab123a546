"""From a study's plan and records to curves by task and variant, and back to what trains them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ablations.curve import Curve, diverged, logged
from ablations.errors import UserError, unknown
from ablations.records import Plan, Record, read_curve, read_record
from ablations.regression.baselines import Baseline, Group
from ablations.regression.check import Check, Terms, check, checking
from ablations.regression.curves import Curves, require_scores, together

# More seeds of some groups are wanted: (study, task, variant) -> seeds
Wanted = Mapping[tuple[str, str, str], Sequence[int]]
Train = Callable[[Wanted], Mapping[tuple[str, str, str], Curves]]


def key(study: str, task: str, variant: str) -> str:
    return f"{study}/{task}/{variant}"


def groups(plan: Plan, results: Path) -> dict[str, Group]:
    """Every task and variant of a plan with the curves of all its seeds, for a baseline.

    Raises UserError where a cell has not run, or was stopped by an error.
    """
    found = {}
    for task, variant in pairs(plan):
        seeds = [c.seed for c in plan.cells if (c.task, c.variant) == (task, variant)]
        curves = read(plan, results, task, variant, seeds)
        if lacking := [seed for seed in seeds if seed not in (*curves.seeds, *curves.failed)]:
            raise UserError(
                f"{variant} on {task} has no record of seed {lacking[0]}"
                f"{f' and {len(lacking) - 1} more' if len(lacking) > 1 else ''}: "
                f"`ablations run {plan.study.name}` first"
            )
        found[key(plan.study.name, task, variant)] = Group(
            curves=curves,
            metric=plan.study.metric,
            about=configuration(plan, task, variant),
        )
    return found


def pairs(plan: Plan) -> list[tuple[str, str]]:
    """(task, variant), in the plan's order."""
    return list(dict.fromkeys((cell.task, cell.variant) for cell in plan.cells))


def configuration(plan: Plan, task: str, variant: str) -> dict[str, Any]:
    """What decides the curves of a task and variant, but for the seed and the code."""
    config = next(
        cell.config for cell in plan.cells if (cell.task, cell.variant) == (task, variant)
    )
    return {name: value for name, value in config.items() if name != "seed"}


def read(
    plan: Plan, results: Path, task: str, variant: str, seeds: Sequence[int] | None = None
) -> Curves:
    """The curves that a plan's records have of a task and variant; missing ones are left out.

    Raises UserError for a cell that an error stopped: that says nothing about learning.
    """
    runs: dict[int, Curve] = {}
    failed: dict[int, str] = {}
    for cell in plan.cells:
        seed = cell.seed
        if (cell.task, cell.variant) != (task, variant) or (
            seeds is not None and seed not in seeds
        ):
            continue
        record = read_record(results, cell.hash)
        if record is None:
            continue
        if record.status == "failed":
            if record.failure != "diverged":
                raise UserError(f"{variant} on {task}, seed {seed}, failed: {record.reason}")
            failed[seed] = str(record.reason)
            continue
        run = _curve(record, results, plan.study.metric)
        if run.status == "diverged":
            failed[seed] = diverged(plan.study.metric, run.end)
        else:
            runs[seed] = run
    if not runs and not failed:
        raise UserError(
            f"no record of {variant} on {task} in '{results}': run it there, or leave out --records"
        )
    found = together(tuple(runs), list(runs.values()), failed)
    if np.isinf(found.values).any():
        raise UserError(f"{variant} on {task}: a curve is infinite")
    require_scores(found)
    return found


def _curve(record: Record, results: Path, metric: str) -> Curve:
    curve = read_curve(results, record)
    if metric not in curve:
        raise unknown("metric", metric, (name for name in curve if name != "step"))
    return logged(curve["step"], curve[metric])


def require_same_settings(baseline: Baseline, name: str, now: Mapping[str, Any]) -> None:
    """Raises UserError where a group is not trained as its baseline was. Revisions may differ, and
    so may the data of imported runs: they are the question."""
    then = dict(_flat(baseline.groups[name].about))
    for setting, value in _flat(now):
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


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if name in ("revision", "imported"):
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def terms(group: Group, **asked: Any) -> Terms:
    """Of a check against a group: what is asked, and the group's own direction."""
    return Terms(higher_is_better=group.higher_is_better, **asked)


def with_seeds(plan: Plan, wanted: Wanted) -> Plan:
    """The part of a plan with those cells."""
    study = plan.study.name
    cells = tuple(
        cell for cell in plan.cells if cell.seed in wanted.get((study, cell.task, cell.variant), ())
    )
    return replace(plan, cells=cells)


def check_all(baseline: Baseline, asked: Mapping[str, Terms], train: Train) -> dict[str, Check]:
    """All groups side by side: each round trains what those that are still undecided want."""
    running = {name: checking(group.curves, asked[name]) for name, group in baseline.groups.items()}
    wanted = {name: next(steps) for name, steps in running.items()}
    found: dict[str, Check] = {}
    while wanted:
        trained = train({_split(name): seeds for name, seeds in wanted.items()})
        ahead: dict[str, tuple[int, ...]] = {}
        for name in wanted:
            curves = trained[_split(name)]
            if not curves.seeds:  # all diverged: no steps of their own
                curves = together((), [], curves.failed, [baseline.groups[name].curves.steps])
            try:
                ahead[name] = running[name].send(curves)
            except StopIteration as ended:
                found[name] = ended.value
        wanted = ahead
    return {name: found[name] for name in baseline.groups}


def check_given(
    baseline: Baseline, asked: Mapping[str, Terms], given: Mapping[str, Curves]
) -> dict[str, Check]:
    """All groups against curves that are there already."""
    return {
        name: check(group.curves, given[name], asked[name])
        for name, group in baseline.groups.items()
    }


def _split(name: str) -> tuple[str, str, str]:
    study, task, variant = name.split("/", 2)
    return study, task, variant

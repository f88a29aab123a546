"""Verdicts on claims from the records: intervals against a margin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.claims.comparisons import JUDGES
from ablations.report.claims.entries import Claim
from ablations.report.claims.found import (
    EVALUATION,
    TRAINING,
    Judged,
    ended_of,
    learned_by,
)
from ablations.report.results import Results
from ablations.report.scores import scores
from ablations.report.statistics import LEVEL
from ablations.report.units import smoothed_together

_LAST = 0.8  # where the last fifth of training begins


def judged(claim: Claim, results: Results, level: float = LEVEL) -> Judged:
    """Judge a claim by the records of its plan.

    Args:
        claim: to be judged.
        results: of the plan that it runs.
        level: shared by all that it compares.

    Raises:
        UserError: the claim names what its study does not have.
    """
    plan = results.plan
    _require_known(claim, plan)
    parts, notes = JUDGES[claim.statistic](claim, results, level)
    first = _source(claim, plan)
    return Judged(
        claim,
        tuple(parts),
        {task: plan.tasks[task].steps for task in claim.tasks},
        len(plan.seeds),
        "completions" if plan.study.step_unit == "completion" else "steps",
        first,
        _rising(claim, results, first),
        _margins(claim, results, first),
        tuple(notes),
    )


def by_another(claim: Claim) -> Claim | None:
    """Return the same claim by another metric, where there is one to tell beside it.

    By training returns, where it is judged by those of evaluations; by these, where a difference of
    accuracies is judged.
    """
    if claim.metric == EVALUATION and claim.statistic != "agreement":
        return replace(claim, metric=TRAINING)
    if claim.metric.endswith("accuracy") and claim.statistic == "difference":
        return replace(claim, metric=EVALUATION)
    return None


def _source(claim: Claim, plan: Plan) -> str:
    """Return the variant whose learning is the unit."""
    if claim.statistic == "robustness":
        return claim.versus[len(claim.versus) // 2]
    return claim.versus[0] if claim.versus else plan.study.baseline


def _rising(claim: Claim, results: Results, variant: str) -> dict[str, float]:
    """Return task -> margins by which the mean curve rose over the last fifth of training."""
    if claim.metric not in (TRAINING, EVALUATION):
        return {}
    scored = scores(results, metric=TRAINING)
    rose = {}
    for task in claim.tasks:
        unit = learned_by(claim, results, task, variant)
        curves = scored.curves(task, variant)
        if unit is None or not curves or min(ended_of(results.plan, scored, task, [variant])) == 0:
            continue
        share = claim.margin if claim.statistic != "spread" else 0.05
        ends, values = smoothed_together(curves)
        if not (seen := np.isfinite(values).any(axis=0)).any():
            continue
        ends, mean = ends[seen], np.nanmean(values[:, seen], axis=0)
        before = int(np.searchsorted(ends, _LAST * ends[-1], side="right")) - 1
        rose[task] = float(mean[-1] - mean[max(before, 0)]) / (share * unit.size)
    return rose


def _margins(claim: Claim, results: Results, variant: str) -> dict[str, tuple[float, float]]:
    """Return the margin of each task in units of the return, beside what was gained.

    That is by how much the variant's mean evaluation rose from the first to the last.
    """
    if claim.metric != EVALUATION or claim.statistic not in ("difference", "effect", "interaction"):
        return {}
    scored = scores(results, metric=EVALUATION)
    sizes = {}
    for task in claim.tasks:
        unit = learned_by(claim, results, task, variant)
        curves = [c.values[~np.isnan(c.values)] for c in scored.curves(task, variant)]
        rises = [curve[-1] - curve[0] for curve in curves if len(curve) > 1]
        if unit is not None and rises:
            sizes[task] = (claim.margin * unit.size, float(np.mean(rises)))
    return sizes


def _require_known(claim: Claim, plan: Plan) -> None:
    where = f"of claim '{claim.id}'"
    for task in claim.tasks:
        if task not in plan.tasks:
            raise unknown(f"task {where}", task, plan.tasks)
    for variant in (*claim.variant, *claim.versus):
        if variant not in plan.variants:
            raise unknown(f"variant {where}", variant, plan.variants)
    if plan.looks and claim.statistic != "difference":
        raise UserError(
            f"claim '{claim.id}': only differences can be looked at while seeds are added: "
            f"let it run a number of seeds"
        )

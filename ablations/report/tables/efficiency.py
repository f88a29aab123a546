"""Sample efficiency: area under the curve, and how soon runs are most of the way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ablations.records import Plan
from ablations.report.scores import Scores, auc
from ablations.report.statistics import interval, iqm, median_steps, steps_to_threshold
from ablations.report.tables.entries import Sheet, Shown, number

SHARE_OF_THE_WAY = 0.75


def efficiency_sheet(plan: Plan, results: Path, found: Scores) -> Sheet | None:
    """Area under the curve, and steps until a run is 3/4 of the way that the baseline goes."""
    rows: list[tuple[Any, ...]] = []
    for task in plan.tasks:
        threshold = _threshold(plan, found, task)
        for variant in plan.variants:
            cells = found.of(task, variant)
            areas = np.array([auc(c.steps, c.values) for c in cells if c.status == "done"])
            low, high = map(number, interval(areas))
            failed = sum(c.status == "failed" for c in cells)
            values = (task, variant, len(areas), failed, number(iqm(areas)), low, high)
            if threshold is None:
                rows.append((*values, None, None, None, None, None, None))
                continue
            # A run that failed never gets there.
            reached = median_steps(
                [
                    steps_to_threshold(c.steps, c.values, threshold)
                    if c.status == "done"
                    else math.inf
                    for c in cells
                    if c.status in ("done", "failed")
                ]
            )
            steps = (reached.median, reached.low, reached.high)
            rows.append((*values, threshold, *steps, reached.reached, reached.n))
    if not any(row[2] for row in rows):
        return None
    return Sheet(
        plan.study["name"],
        "efficiency",
        f"Sample efficiency. AUC: IQM over seeds of the mean {found.metric} over training, 95% "
        "interval. Steps: environment steps until a run first reaches a threshold, median over "
        "seeds and its 95% interval (order statistics); a failed run never reaches it. The "
        f"threshold is {100 * SHARE_OF_THE_WAY:g}% of the way from where the baseline's curve "
        "starts to where it ends.",
        (
            "task",
            "variant",
            "n",
            "n_failed",
            "auc",
            "auc_low",
            "auc_high",
            "threshold",
            "steps",
            "steps_low",
            "steps_high",
            "reached",
            "runs",
        ),
        tuple(rows),
        (
            Shown("task", "text", ("task",)),
            Shown("variant", "text", ("variant",)),
            Shown("AUC", "estimate", ("auc", "auc_low", "auc_high")),
            Shown("[95%]", "interval", ("auc", "auc_low", "auc_high")),
            Shown("steps", "steps", ("steps",)),
            Shown("[95%]", "step interval", ("steps_low", "steps_high")),
            Shown("reached", "share", ("reached", "runs")),
            Shown("seeds", "seeds", ("n", "n_failed")),
        ),
    )


def _threshold(plan: Plan, found: Scores, task: str) -> float | None:
    """Three quarters of the way from the baseline's first value to its score; None where that is
    not upwards."""
    name = plan.study["baseline"]
    baseline = name if name in plan.variants else next(iter(plan.variants))
    cells = [cell for cell in found.of(task, baseline) if cell.status == "done"]
    firsts = [cell.values[~np.isnan(cell.values)][0] for cell in cells]
    if not cells:
        return None
    start, end = float(iqm(firsts)), float(iqm([cell.value for cell in cells]))
    return start + SHARE_OF_THE_WAY * (end - start) if end > start else None

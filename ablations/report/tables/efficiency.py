"""Sample efficiency: area under the curve, and how soon runs are most of the way."""

from __future__ import annotations

import math

import numpy as np

from ablations.core.verdict import Verdict
from ablations.report.results import Results
from ablations.report.scores import auc, scores, step_unit
from ablations.report.statistics import LEVEL, interval, median_steps, steps_to_threshold
from ablations.report.tables.entries import (
    Column,
    Sheet,
    Values,
    bounded,
    number,
    text_columns,
    with_ends,
)
from ablations.report.tables.pairings import last_look
from ablations.report.units import units

SHARE_OF_THE_WAY = 0.75


def efficiency_sheet(results: Results, metric: str | None = None) -> Sheet | None:
    """List areas under curves, and steps until a run is 3/4 of the way that its baseline goes."""
    plan, scored, learned = results.plan, scores(results, metric=metric), units(results, metric)
    rows: list[Values] = []
    for task in plan.tasks:
        for variant in plan.variants:
            cells = scored.of(task, variant)
            areas = np.array(
                [auc(c.curve.steps, c.curve.values) for c in cells if c.status == "done"]
            )
            low, high = map(number, interval(areas, "mean"))
            failed = scored.failures([task], variant)
            pair = (variant, learned.source(variant))
            both, _ = last_look(plan, scored, [task], pair, LEVEL)
            more = both.failures([task], pair[0]) - both.failures([task], pair[1])
            stability = Verdict.EQUIVALENT.guarded(more) if more else None
            center = float(areas.mean()) if len(areas) else None
            values = (task, variant, len(areas), failed, stability, center, low, high)
            unit = learned.of(task, variant)
            if unit is None or plan.study.margin_in_metric:
                rows.append((*values, None, None, None, None, None, None))
                continue
            threshold = unit.low + SHARE_OF_THE_WAY * unit.size
            # A run that failed never gets there.
            reached = median_steps(
                [
                    steps_to_threshold(c.curve.steps, c.curve.values, threshold)
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
    way = (
        "from the better policy that learns nothing to the baseline's score"
        if learned.trivial
        else "from the lowest to the highest point of the smoothed mean curve of what the variant "
        "is compared with"
    )
    return Sheet(
        plan.study.name,
        "efficiency",
        f"Sample efficiency. AUC: mean over seeds of the mean {scored.metric} over training, 95% "
        f"interval. Steps: {step_unit(plan)} from which on a run stays at a threshold, median over "
        "seeds and its 95% interval (order statistics); a failed run never gets there. The "
        f"threshold is {100 * SHARE_OF_THE_WAY:g}% of the way {way}. unstable: more runs "
        "failed than of its baseline, so its AUC is of those that survived.",
        (
            *("task", "variant", "n", "n_failed", "stability", *with_ends("auc"), "threshold"),
            *(*with_ends("steps"), "reached", "runs"),
        ),
        tuple(rows),
        (
            *text_columns("task", "variant"),
            *bounded("AUC", "auc", inside="[95%]"),
            Column("steps", "steps", ("steps",)),
            Column("[95%]", "step interval", ("steps_low", "steps_high")),
            Column("reached", "share", ("reached", "runs")),
            Column("seeds", "seeds", ("n", "n_failed")),
            Column("verdict", "text", ("stability",)),
        ),
    )

"""Stability: how many runs fail, how far seeds differ, how bad the worst are, and speed."""

from __future__ import annotations

import numpy as np

from ablations.distributions import fisher_p
from ablations.report.results import Results
from ablations.report.scores import baseline_of, scores
from ablations.report.statistics import FEWEST, Floats, interval, summary, worst_quarter
from ablations.report.tables.comparison import table
from ablations.report.tables.entries import (
    Column,
    Entry,
    Sheet,
    Values,
    bounded,
    number,
    text_columns,
    with_ends,
)
from ablations.report.units import Units, units_of_score

FAILS = 0.5  # of the way to the baseline's median, below which a run counts as failed


def stability_sheet(results: Results, metric: str | None = None) -> Sheet | None:
    """List failures, interquartile ranges, worst quarters and areas; None without a finished run.

    A run that diverged counts as the worst score of its task, and so as a failure.
    """
    plan, learned = results.plan, units_of_score(results, metric)
    scored = scores(results, metric=metric).with_diverged(learned.floors)
    areas = table(results, metric=metric, score="auc")
    values = {
        (task, v): np.array(list(scored.by_seed(task, v).values()))
        for task in plan.tasks
        for v in plan.variants
    }
    rows: list[Values] = []
    for (task, variant), own in values.items():
        versus = baseline_of(plan, variant)
        against = values.get((task, versus or variant), own)
        threshold = _threshold(learned, task, variant, against)
        below, p = None, None
        if threshold is not None:
            below = int(np.sum(own < threshold))
            if versus is not None and len(own) and len(against):
                events = (below, int(np.sum(against < threshold)))
                p = fisher_p(events, (len(own), len(against)))
        spreads = (summary(own, "iqr"), *interval(own, "iqr"), *worst_quarter(own))
        area = areas.entry(task, variant) or Entry(task, variant)
        bounds = (area.difference, area.difference_low, area.difference_high)
        shares = area.in_units if area.answer else None
        rows.append(
            (
                *(task, variant, len(own), below, threshold, p, *map(number, spreads), *bounds),
                *(*(shares or (None, None, None)), area.n_pairs, area.answer),
            )
        )
    if not any(row[2] for row in rows):
        return None
    compared = max(1, sum(row[5] is not None for row in rows))
    rows = [
        (*row[:6], None if row[5] is None else min(1.0, row[5] * compared), *row[6:])
        for row in rows
    ]
    way = "doing nothing" if learned.trivial else "the lowest point of its smoothed mean curve"
    return Sheet(
        plan.study.name,
        "stability",
        f"Stability, of the score by {scored.metric}. Failed: runs below {100 * FAILS:g}% of the "
        f"way from {way} to the baseline's median; p: of Fisher's exact test against the "
        "baseline's, times the comparisons (Bonferroni). IQR: interquartile range over seeds, with "
        f"a bootstrap of {FEWEST['iqr']} seeds or more. Worst quarter: mean of the lowest quarter "
        "of the seeds, with Student's t of its degrees. A run that diverged counts as failed, and "
        "as the worst score of its task. Area: difference of the mean over training, paired by "
        "seed, as `--score auc` has it with its answer.",
        (
            *("task", "variant", "n", "failed", "threshold", "p", "p_adjusted"),
            *(*with_ends("iqr"), *with_ends("worst_quarter"), *with_ends("area")),
            *(*with_ends("area_share"), "area_pairs", "area_answer"),
        ),
        tuple(rows),
        (
            *text_columns("task", "variant"),
            Column("failed", "share", ("failed", "n")),
            Column("p (adj.)", "p", ("p_adjusted",)),
            *bounded("IQR", "iqr", inside="[95%]"),
            *bounded("worst quarter", "worst_quarter", inside="[95%]"),
            *bounded("area", "area", sign="+"),
            *([_ANSWER] if areas.answers else []),
        ),
    )


_ANSWER = Column(
    "by area",
    "answer",
    ("area_answer", *with_ends("area_share"), "area_pairs"),
)


def _threshold(learned: Units, task: str, variant: str, against: Floats) -> float | None:
    """Return the score below which a run of a variant counts as failed; None without a unit."""
    unit = learned.of(task, variant)
    if unit is None or not len(against):
        return None
    return unit.low + FAILS * (float(np.median(against)) - unit.low)

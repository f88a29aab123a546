"""The content of figures for print and page: families, labels, curves, normalised scores.

Needs no plotting library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ablations.curve import on_common_steps, share_steps, thinned
from ablations.records import Plan
from ablations.report import units
from ablations.report.scores import Scores, baseline_of, grouped
from ablations.report.statistics import Aggregate, aggregate, aggregate_interval, interval, iqm
from ablations.report.tables.entries import ALL_TASKS
from ablations.report.units import Units

REPLICATES = 2_000  # a band is drawn, not quoted
MOST_POINTS = 100  # of a mean over curves of different steps


# A panel holds as many lines as there are colours.
LINES_OF_A_PANEL = 8


@dataclass(frozen=True)
class Family:
    """Variants that share a panel: first what the others are compared with.

    name: "" where there is one family; "vs a"; "vs a (2)" for the second part of one that has more
    variants than a panel holds.
    """

    name: str
    variants: tuple[str, ...]


def families(plan: Plan) -> list[Family]:
    """Variants by what they are compared with, which is in each part of a family that is large."""
    groups: dict[str, list[str]] = {}
    for name, _ in grouped({v: baseline_of(plan, v) for v in plan.variants}):
        versus = baseline_of(plan, name)
        head = versus if versus in plan.variants else name if versus is None else ""
        groups.setdefault(head or "", [head] if head else []).append(name)
    all_families = []
    for group in groups.values():
        head, *others = dict.fromkeys(group)
        size = LINES_OF_A_PANEL - 1
        parts = [others[i : i + size] for i in range(0, len(others), size)] or [[]]
        for part, few in enumerate(parts, 1):
            name = f"vs {head}" + (f" ({part})" if len(parts) > 1 else "")
            all_families.append(Family(name, (head, *few)))
    return all_families if len(all_families) > 1 else [Family("", all_families[0].variants)]


def ordered(plan: Plan) -> list[str]:
    """Return every variant once, families together."""
    return list(dict.fromkeys(v for family in families(plan) for v in family.variants))


def label(metric: str) -> str:
    """Write a metric for an axis: "training/return" is "return (training)"."""
    where, _, what = metric.rpartition("/")
    return f"{what.replace('_', ' ')} ({where})" if where else what.replace("_", " ")


def points(
    scored: Scores, task: str, variant: str
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return steps, IQM, low and high `[n]` of a variant's curves.

    They are where at least half of the finished cells have a value. Curves of other steps than each
    other are thinned, and read off at steps that all have. Failed and missing cells are left out.
    low and high are NaN where there is one value.
    """
    curves = scored.curves(task, variant)
    if not curves:
        nothing = np.zeros(0)
        return np.zeros(0, np.int64), nothing, nothing, nothing
    if not share_steps(curves):
        curves = [thinned(curve, MOST_POINTS) for curve in curves]
    steps, rows = on_common_steps(curves, MOST_POINTS)
    values = rows.T
    counts = np.sum(np.isfinite(values), axis=1)
    middle, low, high = (np.full(len(steps), np.nan) for _ in range(3))
    for count in np.unique(counts):
        if 2 * count < len(curves) or not count:
            continue
        chosen = counts == count
        here = np.stack([row[np.isfinite(row)] for row in values[chosen]])
        middle[chosen] = iqm(here)
        low[chosen], high[chosen] = interval(here, replicates=REPLICATES)
    kept = np.isfinite(middle)
    return steps[kept], middle[kept], low[kept], high[kept]


STATISTICS: Mapping[Aggregate, str] = {
    "task_iqm": "IQM, mean over tasks",
    "iqm": "IQM, pooled",
    "mean": "mean",
    "median": "median",
    "optimality_gap": "optimality gap",
}


def shown(plan: Plan) -> dict[Aggregate, str]:
    """Return the statistics that say something of their own.

    With one task a mean over tasks of IQMs is the IQM, and with one or two the median of the tasks'
    means is their mean.
    """
    fewest = {"task_iqm": 2, "median": 3}
    return {k: name for k, name in STATISTICS.items() if len(plan.tasks) >= fewest.get(k, 1)}


def paired(
    plan: Plan, scored: Scores, learned: Units, task: str, variant: str
) -> NDArray[np.float64]:
    """Return the differences `[n]` of a variant to what it is compared with, by seed.

    They are in the units of the row: the metric's; on ALL_TASKS the mean over tasks, in what was
    learned.
    """
    baseline = baseline_of(plan, variant)
    scales = {task: 1.0}
    if task == ALL_TASKS:
        sizes = {t: learned.of(t, variant) for t in plan.tasks}
        scales = {t: unit.size for t, unit in sizes.items() if unit is not None}
    if baseline is None or not scales:
        return np.zeros(0)
    ours, theirs = np.moveaxis(scored.on_common_seeds(list(scales), (variant, baseline)), 1, 0)
    divisors = np.array(list(scales.values()))[:, None]
    means: NDArray[np.float64] = ((ours - theirs) / divisors).mean(axis=0)
    return means


MOST_SHARES = 40  # of a curve over tasks


def efficiency(
    plan: Plan, scored: Scores, learned: Units
) -> dict[str, tuple[NDArray[np.float64], ...]]:
    """Return the sample-efficiency curve of each variant (rliable, Agarwal et al. 2021).

    At the points where all seeds have a value, over the seeds that are complete on every task.

    Returns:
        variant -> share of training, IQM of normalised scores (mean over tasks), low, high, `[n]`
        each; {} with fewer than two tasks.
    """
    curves: dict[str, tuple[NDArray[np.float64], ...]] = {}
    for variant in ordered(plan):
        rows = []
        tasks = [task for task in plan.tasks if learned.of(task, variant) is not None]
        cells = {t: {c.seed: c for c in scored.of(t, variant) if len(c.curve.steps)} for t in tasks}
        seeds = sorted(set.intersection(*map(set, cells.values()))) if len(tasks) > 1 else []
        if not seeds:
            continue
        count = min(len(cells[task][seed].curve.steps) for task in tasks for seed in seeds)
        share = np.arange(1, min(count, MOST_SHARES) + 1) / min(count, MOST_SHARES)
        for task in tasks:
            of_seeds = [cells[task][seed].curve for seed in seeds]
            values = np.array([curve.at(share * curve.steps[-1]) for curve in of_seeds])
            if (unit := learned.of(task, variant)) is not None:
                rows.append((values - unit.low) / unit.size)
        kept = np.isfinite(np.array(rows)).all(axis=(0, 1))
        at = [[row[:, place] for row in rows] for place in np.flatnonzero(kept)]
        middle = np.array([aggregate(rows_here) for rows_here in at])
        bounds = [aggregate_interval(rows_here, replicates=REPLICATES) for rows_here in at]
        low, high = np.array(bounds).reshape(-1, 2).T
        curves[variant] = (share[kept], middle, low, high)
    return curves


def normalised(plan: Plan, scored: Scores, learned: Units) -> dict[str, list[NDArray[np.float64]]]:
    """Return variant -> normalised scores `[n]` per task that has a unit, where there are any."""
    scores = {
        variant: units.normalised(plan, scored, learned, variant) for variant in plan.variants
    }
    return {v: rows for v, rows in scores.items() if rows and len(rows[0])}


def thresholds(scores: Mapping[str, list[NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Return normalised scores `[101]` that span all runs, on round numbers."""
    together = np.concatenate([row for rows in scores.values() for row in rows])
    low, high = np.floor(10 * together.min()) / 10, np.ceil(10 * together.max()) / 10
    return np.linspace(low, high if high > low else low + 0.1, 101)

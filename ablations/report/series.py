"""What figures and the page's charts both draw: groups, labels, curves, normalised scores.

Needs no plotting library.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ablations.records import Plan
from ablations.report import units
from ablations.report.scores import Scores, baseline_of, grouped
from ablations.report.statistics import Aggregate, interval, iqm
from ablations.report.units import Units

REPLICATES = 2_000  # a band is drawn, not quoted


def groups(plan: Plan) -> list[list[str]]:
    """Variants by baseline, each baseline first in its group."""
    groups: dict[str, list[str]] = {}
    for name, _ in grouped({v: baseline_of(plan, v) for v in plan.variants}):
        versus = baseline_of(plan, name)
        head = versus if versus in plan.variants else name if versus is None else ""
        groups.setdefault(head or "", [head] if head else []).append(name)
    return [list(dict.fromkeys(group)) for group in groups.values()]


def label(metric: str) -> str:
    """ "training/return" -> "return (training)"."""
    where, _, what = metric.rpartition("/")
    return f"{what.replace('_', ' ')} ({where})" if where else what.replace("_", " ")


def points(
    found: Scores, task: str, variant: str
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """steps, IQM, low, high, `[n]` each: where at least half of the finished cells have a value.

    Failed and missing cells are left out. low and high are NaN where there is one value.
    """
    cells = [cell for cell in found.of(task, variant) if len(cell.steps)]
    if not cells:
        nothing = np.zeros(0)
        return np.zeros(0, np.int64), nothing, nothing, nothing
    steps = np.unique(np.concatenate([cell.steps for cell in cells]))
    values = np.full((len(steps), len(cells)), np.nan)
    for column, cell in enumerate(cells):
        values[np.searchsorted(steps, cell.steps), column] = cell.values
    counts = np.sum(np.isfinite(values), axis=1)
    middle, low, high = (np.full(len(steps), np.nan) for _ in range(3))
    for count in np.unique(counts):
        if 2 * count < len(cells) or not count:
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
    """The statistics that say something of their own: with one task a mean over tasks of IQMs is
    the IQM, and with one or two the median of the tasks' means is their mean."""
    fewest = {"task_iqm": 2, "median": 3}
    return {k: name for k, name in STATISTICS.items() if len(plan.tasks) >= fewest.get(k, 1)}


def normalised(plan: Plan, found: Scores, learned: Units) -> dict[str, list[NDArray[np.float64]]]:
    """variant -> normalised scores `[n]` per task that has a unit, where there are any."""
    scores = {variant: units.normalised(plan, found, learned, variant) for variant in plan.variants}
    return {v: rows for v, rows in scores.items() if rows and len(rows[0])}


def thresholds(scores: Mapping[str, list[NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Normalised scores `[101]` that span all runs, on round numbers."""
    together = np.concatenate([row for rows in scores.values() for row in rows])
    low, high = np.floor(10 * together.min()) / 10, np.ceil(10 * together.max()) / 10
    return np.linspace(low, high if high > low else low + 0.1, 101)

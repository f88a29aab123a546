"""Aggregates of normalised scores over tasks, performance profiles, probabilities of improvement.

The definitions are rliable's (Agarwal et al. 2021, "Deep reinforcement learning at the edge of the
statistical precipice"), but for "task IQM". The scores of a variant are a sequence with one array
`[n]` of runs per task; the bootstrap is stratified: it draws runs within each task.

The levels of the percentile bootstrap are widened to the Student quantile with n - 1 degrees of
freedom, n the runs of the task that has the fewest. The intervals of "task IQM" then cover 94 to
99% at 8 runs per task (a plain bootstrap: 90 to 97%), those of "IQM" 92 to 97%, of "mean" 91 to
97%, of "optimality gap" 90 to 96%. Of runs that collapse on each of five tasks in just the quarter
that an IQM drops, those of "task IQM" cover 85 to 92%: the bias of an IQM adds up over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ablations.stats.differences import share_above
from ablations.stats.summaries import (
    LEVEL,
    NAN,
    REPLICATES,
    Estimate,
    Floats,
    bisect,
    deviation,
    drawn_weights,
    draws,
    iqm_of,
    student,
)

Tasks = Sequence[ArrayLike]

_NUMBERS_AT_ONCE = 2_000_000
_OF_PROFILES = 2_000  # replicates


def _of_tasks(of: Callable[[Floats], Any]) -> Callable[..., Any]:
    return lambda *tasks: np.mean([of(scores) for scores in tasks], axis=0)


# Name -> statistic of one array `[..., n]` of scores per task, `[...]`. Add one by adding a line.
AGGREGATES: dict[str, Callable[..., Any]] = {
    # With few tasks a pooled IQM drops the runs of the hardest and the easiest task.
    "task IQM": _of_tasks(iqm_of),
    "IQM": lambda *tasks: iqm_of(np.concatenate(tasks, axis=-1)),
    "median": lambda *tasks: np.median([scores.mean(axis=-1) for scores in tasks], axis=0),
    "mean": _of_tasks(lambda scores: scores.mean(axis=-1)),
    "optimality gap": _of_tasks(lambda scores: 1 - np.minimum(scores, 1).mean(axis=-1)),
}


def aggregate(
    tasks: Tasks, name: str = "task IQM", level: float = LEVEL, replicates: int = REPLICATES
) -> Estimate:
    """Return an aggregate over tasks, one of `AGGREGATES`, with its bootstrap interval.

    With fewer than 5 runs on a task the interval is value ± t sqrt(sum over tasks of s² / n) /
    tasks, t Student's quantile. NaN where a task has no run; no interval where one has one.
    """
    rows, statistic = _rows(tasks), AGGREGATES[name]
    fewest = min(map(len, rows))
    if fewest < 2:
        return Estimate(float(statistic(*rows)) if fewest else NAN)
    value, t = float(statistic(*rows)), student(fewest - 1, level)
    if fewest < 5:
        errors = (float(deviation(row)) / math.sqrt(len(row)) for row in rows)
        reach = t * math.hypot(*errors) / len(rows)
        least = 0.0 if name == "optimality gap" else -math.inf
        return Estimate(value, max(least, value - reach), value + reach)
    # A bootstrap sample's spread is that of n runs, not n - 1; that of an IQM makes up for it.
    t *= 1.0 if "IQM" in name else math.sqrt(fewest / (fewest - 1))
    # Sorted, so that the order of the runs is irrelevant.
    ordered = [np.sort(row) for row in rows]
    index = [draws(len(row), replicates, task) for task, row in enumerate(rows)]
    size = max(1, _NUMBERS_AT_ONCE // sum(map(len, rows)))
    resampled = [
        statistic(*(row[at[k : k + size]] for row, at in zip(ordered, index, strict=True)))
        for k in range(0, replicates, size)
    ]
    return Estimate(value, *map(float, _quantiles(np.concatenate(resampled), t)))


def profile(
    tasks: Tasks, thresholds: ArrayLike, level: float = LEVEL
) -> tuple[Floats, Floats, Floats]:
    """Return the share of runs above each threshold `[k]`, a mean over tasks: share, low, high.

    The intervals are pointwise, by bootstrap; NaN below 2 runs.
    """
    cuts, rows = np.asarray(thresholds, np.float64), _rows(tasks)
    above = [(row[:, None] > cuts).astype(np.float64) for row in rows]
    share = np.mean([runs.mean(axis=0) for runs in above], axis=0)
    fewest = min(map(len, rows))
    if fewest < 2:
        return share, np.full(cuts.shape, NAN), np.full(cuts.shape, NAN)
    weights = (
        drawn_weights(draws(len(row), _OF_PROFILES, task), np.full(len(row), 1 / len(row)))
        for task, row in enumerate(rows)
    )
    again = np.mean([w @ runs for w, runs in zip(weights, above, strict=True)], axis=0)
    return share, *_quantiles(again, student(fewest - 1, level))


def improvement(ours: Tasks, theirs: Tasks, level: float = LEVEL) -> Estimate:
    """Return the chance that a run of ours scores above one of theirs, a mean over tasks.

    Mann-Whitney's U / n², ties counted half. The interval holds the chances θ with
    |chance - θ| <= t sd(θ), t Student's quantile with n - 1 degrees of freedom, and Hanley and
    McNeil's variance of U / n², θ (1 - θ) (1 + (n - 1) ((1 - θ) / (2 - θ) + θ / (1 + θ))) / n²
    (Newcombe 2006, "Confidence intervals for an effect size measure based on the Mann-Whitney
    statistic", part 2, method 5), averaged over tasks. It is wider than it need be where pairs are
    strongly correlated; a bootstrap has no width where all runs are above all others, and covers
    43% at 8 seeds where the truth is .98. No interval below 2 pairs.
    """
    pairs = list(zip(_rows(ours), _rows(theirs), strict=True))
    for a, b in pairs:
        if a.shape != b.shape:
            raise ValueError(f"paired scores need one shape [n]: {a.shape} and {b.shape}")
    chance = float(np.mean([share_above(a, b) for a, b in pairs]))
    sizes = np.array([len(a) for a, _ in pairs])
    if sizes.min() < 2:
        return Estimate(chance)
    t = student(int(sizes.min()) - 1, level)

    def outside(theta: float) -> bool:
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        parts = theta * (1 - theta) * (1 + (sizes - 1) * spread) / sizes**2
        return bool((chance - theta) ** 2 > t**2 * parts.sum() / len(sizes) ** 2)

    ends = (bisect(outside, end, chance)[0] if outside(end) else end for end in (0.0, 1.0))
    return Estimate(chance, *ends)


def _rows(tasks: Tasks) -> list[Floats]:
    rows = [np.asarray(runs, np.float64) for runs in tasks]
    if not rows or any(row.ndim != 1 for row in rows):
        raise ValueError("scores are a sequence with one array [n] of runs per task")
    return rows


def _quantiles(resampled: Floats, t: float) -> tuple[Floats, Floats]:
    """Return quantiles of replicates, along the first axis, at the levels Phi(-t) and Phi(t)."""
    tail = float(special.ndtr(-t))
    low, high = np.quantile(resampled, (tail, 1 - tail), axis=0)
    return low, high

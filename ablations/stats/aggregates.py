"""Bootstrapped statistics: the IQM, aggregates over tasks, profiles, probabilities of improvement.

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
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ablations.stats.differences import share_above
from ablations.stats.summaries import (
    LEVEL,
    NAN,
    Estimate,
    Floats,
    between,
    bisect,
    deviation,
    estimate,
    student,
)

REPLICATES = 10_000
Tasks = Sequence[ArrayLike]
Statistic = Callable[..., Any]  # of one array `[..., n]` of scores per task: `[...]`

_SEED = 20261
_NUMBERS_AT_ONCE = 2_000_000
_OF_PROFILES = 2_000  # replicates


def _iqm(scores: Floats) -> Any:
    """Return the interquartile mean: without floor(n / 4) scores at each end, as rliable has it."""
    drop = scores.shape[-1] // 4
    ordered = np.sort(scores, axis=-1, kind="stable")[..., drop : scores.shape[-1] - drop]
    # Rounding must not move the mean of equal scores.
    return np.clip(ordered.mean(axis=-1), ordered[..., 0], ordered[..., -1])


def _of_tasks(of: Callable[[Floats], Any]) -> Statistic:
    return lambda *tasks: np.mean([of(scores) for scores in tasks], axis=0)


# A line adds an aggregate. With few tasks a pooled "IQM" drops the easiest and the hardest.
AGGREGATES: dict[str, Statistic] = {
    "task IQM": _of_tasks(_iqm),
    "IQM": lambda *tasks: _iqm(np.concatenate(tasks, axis=-1)),
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

    Args:
        tasks: scores `[..., n]` of each task; the n may differ.
        name: of the aggregate.
        level: of the interval.
        replicates: of the bootstrap.
    """
    rows, statistic = _rows(tasks), AGGREGATES[name]
    fewest = min(row.shape[-1] for row in rows)
    if fewest < 2:
        value = statistic(*rows) if fewest else np.full(rows[0].shape[:-1], NAN)
        return between(value, NAN)
    value, t = statistic(*rows), student(fewest - 1, level)
    if fewest >= 5:
        # A bootstrap sample's spread is that of n runs, not n - 1; that of an IQM makes up for it.
        wide = t if "IQM" in name else t * math.sqrt(fewest / (fewest - 1))
        return estimate(value, *_bootstrap(statistic, rows, wide, replicates))
    squares = sum(np.square(deviation(row)) / row.shape[-1] for row in rows)
    reach = t * np.sqrt(squares) / len(rows)
    low = value - reach if name != "optimality gap" else np.maximum(value - reach, 0.0)
    return estimate(value, low, value + reach)


def iqm(scores: ArrayLike, level: float = LEVEL, replicates: int = REPLICATES) -> Estimate:
    """Return the interquartile mean over the last axis with its bootstrap interval."""
    return aggregate([scores], "task IQM", level, replicates)


def iqr(scores: ArrayLike, level: float = LEVEL, replicates: int = REPLICATES) -> Estimate:
    """Return the interquartile range over the last axis; fewer than 8 scores have no interval."""

    def statistic(rows: Floats) -> Any:
        return np.subtract(*np.quantile(rows, (0.75, 0.25), axis=-1))

    (rows,) = _rows([scores])
    n = rows.shape[-1]
    if n < 8:
        value = statistic(rows) if n else np.full(rows.shape[:-1], NAN)
        return between(value, NAN)
    return estimate(
        statistic(rows), *_bootstrap(statistic, [rows], student(n - 1, level), replicates)
    )


def profile(
    tasks: Tasks, thresholds: ArrayLike, level: float = LEVEL
) -> tuple[Floats, Floats, Floats]:
    """Return the share of runs above each threshold `[k]`, a mean over tasks: share, low, high.

    The intervals are pointwise, by bootstrap; NaN below 2 runs.
    """
    above = [row[:, None] > np.asarray(thresholds, np.float64) for row in _rows(tasks)]
    share = np.mean([runs.mean(axis=0) for runs in above], axis=0)
    fewest = min(map(len, above))
    if fewest < 2:
        return share, NAN * share, NAN * share
    index = (draws(len(runs), _OF_PROFILES, task) for task, runs in enumerate(above))
    again = [runs[drawn].mean(axis=1) for runs, drawn in zip(above, index, strict=True)]
    tail = float(special.ndtr(-student(fewest - 1, level)))
    return share, *np.quantile(np.mean(again, axis=0), (tail, 1 - tail), axis=0)


def improvement(ours: Tasks, theirs: Tasks, level: float = LEVEL) -> Estimate:
    """Return the chance that a run of ours scores above one of theirs, a mean over tasks.

    Mann-Whitney's U / n², ties counted half. The interval holds the chances θ with
    |chance - θ| <= t sd(θ), t Student's quantile with n - 1 degrees of freedom, and Hanley and
    McNeil's variance of U / n², θ (1 - θ) (1 + (n - 1) ((1 - θ) / (2 - θ) + θ / (1 + θ))) / n²
    (Newcombe 2006, "Confidence intervals for an effect size measure based on the Mann-Whitney
    statistic", part 2, method 5), averaged over tasks. A bootstrap has no width where all runs are
    above all others, and covers 43% at 8 seeds where the truth is .98. No interval below 2 pairs.
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
    if not rows or any(row.ndim < 1 for row in rows):
        raise ValueError("scores are a sequence with one array [n] of runs per task")
    return rows


@lru_cache(maxsize=32)
def draws(n: int, replicates: int, task: int = 0) -> NDArray[np.intp]:
    """Draw the runs of a task for each bootstrap sample, `[replicates, n]`, each row sorted."""
    random = np.random.default_rng([_SEED, n, task] if task else [_SEED, n])
    return np.sort(random.integers(0, n, (replicates, n)), axis=-1)


def _bootstrap(statistic: Statistic, rows: Sequence[Floats], t: float, replicates: int) -> Any:
    """Return both ends: the quantiles of a resampled statistic at Phi(-t) and Phi(t)."""
    ordered = [np.sort(row, axis=-1) for row in rows]  # so that the order of runs is irrelevant
    index = [draws(row.shape[-1], replicates, task) for task, row in enumerate(rows)]
    size = max(1, _NUMBERS_AT_ONCE // sum(row.size for row in rows))
    resampled = [
        statistic(*(row[..., at[k : k + size]] for row, at in zip(ordered, index, strict=True)))
        for k in range(0, replicates, size)
    ]
    tail = float(special.ndtr(-t))
    return np.quantile(np.concatenate(resampled, axis=-1), (tail, 1 - tail), axis=-1)

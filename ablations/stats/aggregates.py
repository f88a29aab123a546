"""Bootstrapped statistics: the IQM, aggregates over tasks, profiles, probabilities of improvement.

The definitions are rliable's (Agarwal et al. 2021, "Deep reinforcement learning at the edge of the
statistical precipice"), except "task IQM". The scores of a variant are a sequence with one array
`[n]` of runs per task. The bootstrap is stratified: it draws runs within each task.

The levels of the percentile bootstrap are widened to the Student quantile with n - 1 degrees of
freedom, with n the fewest runs of a task.
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
Statistic = Callable[..., Any]  # one array `[..., n]` of scores per task -> `[...]`

_SEED = 20261
_MOST_NUMBERS = 2_000_000  # in a block of bootstrap samples
_OF_PROFILES = 2_000  # replicates


def _iqm(scores: Floats) -> Any:
    """Return the interquartile mean: floor(n / 4) scores are dropped at each end, as in rliable."""
    drop = scores.shape[-1] // 4
    ordered = np.sort(scores, axis=-1, kind="stable")[..., drop : scores.shape[-1] - drop]
    # The mean of equal scores is exact.
    return np.clip(ordered.mean(axis=-1), ordered[..., 0], ordered[..., -1])


def _of_tasks(of: Callable[[Floats], Any]) -> Statistic:
    return lambda *tasks: np.mean([of(scores) for scores in tasks], axis=0)


# With few tasks, the pooled "IQM" may drop the easiest and the hardest task.
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
    """Return an aggregate over tasks with its bootstrap interval.

    With fewer than 5 runs on a task the interval is value ± t sqrt(sum over tasks of s² / n) /
    tasks, with Student's quantile t. It is NaN if a task has one run, and so is the value if a task
    has no run.

    Args:
        tasks: scores `[..., n]` of each task; n may differ.
        name: of the aggregate in `AGGREGATES`.
        level: of the interval.
        replicates: number of bootstrap samples.
    """
    rows, statistic = _rows(tasks), AGGREGATES[name]
    fewest = min(row.shape[-1] for row in rows)
    value = statistic(*rows) if fewest else np.full(rows[0].shape[:-1], NAN)
    if fewest < 2:
        return between(value, NAN)
    t = student(fewest - 1, level)
    if fewest >= 5:
        # The bootstrap variance has the divisor n, not n - 1. An IQM needs no correction for it.
        wide = t if "IQM" in name else t * math.sqrt(fewest / (fewest - 1))
        return estimate(value, *_bootstrap(statistic, rows, wide, replicates))
    squares = sum(np.square(deviation(row)) / row.shape[-1] for row in rows)
    reach = t * np.sqrt(squares) / len(rows)
    low = value - reach if name != "optimality gap" else np.maximum(value - reach, 0.0)
    return estimate(value, low, value + reach)


def profile(
    tasks: Tasks, thresholds: ArrayLike, level: float = LEVEL
) -> tuple[Floats, Floats, Floats]:
    """Return the share of runs above each threshold `[k]`, averaged over tasks: share, low, high.

    The intervals are pointwise bootstrap intervals; NaN with fewer than 2 runs.
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
    """Return the probability that a run of ours scores higher than one of theirs, over tasks.

    This is Mann-Whitney's U / n², averaged over tasks; ties count half. The interval holds all
    probabilities θ with |U / n² - θ| <= t sd(θ), with Student's quantile t of n - 1 degrees of
    freedom and Hanley and McNeil's variance of U / n²,
    θ (1 - θ) (1 + (n - 1) ((1 - θ) / (2 - θ) + θ / (1 + θ))) / n² (Newcombe 2006, "Confidence
    intervals for an effect size measure based on the Mann-Whitney statistic", part 2, method 5). A
    bootstrap has no width if all runs are above all others; with 8 seeds and a true probability of
    .98 it covers 43%. Fewer than 2 pairs have no interval.
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
def draws(n: int, replicates: int, task: int) -> NDArray[np.intp]:
    """Draw the runs of a task for each bootstrap sample `[replicates, n]`, with sorted rows."""
    random = np.random.default_rng([_SEED, n, task] if task else [_SEED, n])
    return np.sort(random.integers(0, n, (replicates, n)), axis=-1)


def _bootstrap(statistic: Statistic, rows: Sequence[Floats], t: float, replicates: int) -> Any:
    ordered = [np.sort(row, axis=-1) for row in rows]  # the order of runs must not matter
    index = [draws(row.shape[-1], replicates, task) for task, row in enumerate(rows)]
    size = max(1, _MOST_NUMBERS // sum(row.size for row in rows))
    resampled = [
        statistic(*(row[..., at[k : k + size]] for row, at in zip(ordered, index, strict=True)))
        for k in range(0, replicates, size)
    ]
    tail = float(special.ndtr(-t))
    return np.quantile(np.concatenate(resampled, axis=-1), (tail, 1 - tail), axis=-1)

"""Measure what one setting for all tasks loses, and whether one way loses more than another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.distributions import normal_cdf, student_quantile
from ablations.report.statistics.paired import Comparison, rounding_of
from ablations.report.statistics.summaries import LEVEL, REPLICATES, SEED


def lost(means: ArrayLike) -> NDArray[np.float64]:
    """Return what one setting for all tasks loses `[...]`, of mean scores `[..., tasks, settings]`.

    mean over e of max over h of M(e, h), minus max over h of mean over e of M(e, h): the
    sensitivity of Adkins, Bowling and White 2024. 0 where one setting is the best on every task.
    """
    values = np.asarray(means, dtype=np.float64)
    return np.asarray(values.max(axis=-1).mean(axis=-1) - values.mean(axis=-2).max(axis=-1))


def compare_lost(scores: ArrayLike, baseline: ArrayLike, level: float = LEVEL) -> Comparison:
    """Compare what `scores` lose with what `baseline` loses.

    Interval: a bootstrap over seeds, each drawn with all its runs on both sides; percentiles at Phi
    of the Student quantile times sqrt(n / (n - 1)), as `summaries.interval` has them for means.
    deviation: that of the replicates times sqrt(n), for seeds that would decide. No interval where
    all replicates are the same number, since they do not tell how much other seeds would differ.

    Args:
        scores: `[tasks, settings, seeds]`.
        baseline: the same, of shared seeds.
        level: of the interval.
    """
    ours, theirs = np.asarray(scores, np.float64), np.asarray(baseline, np.float64)
    if ours.shape != theirs.shape or ours.ndim != 3:
        raise ValueError(f"scores need one shape [tasks, settings, seeds]: {ours.shape}")
    n = ours.shape[2]
    if n < 2:
        return Comparison(n, level=level)
    center = float(lost(ours.mean(axis=2)) - lost(theirs.mean(axis=2)))
    drawn = np.random.default_rng([SEED, n]).integers(0, n, (REPLICATES, n))
    counts = (drawn[:, :, None] == np.arange(n)).sum(axis=1) / n
    replicates = lost(np.einsum("bs,ehs->beh", counts, ours)) - lost(
        np.einsum("bs,ehs->beh", counts, theirs)
    )
    quantile = student_quantile(n - 1, level / 2) * math.sqrt(n / (n - 1))
    tail = float(normal_cdf(quantile))
    low, high = (float(end) for end in np.quantile(replicates, (tail, 1 - tail)))
    deviation = float(replicates.std(ddof=1)) * math.sqrt(n)
    if deviation <= rounding_of(ours, theirs):
        return Comparison(n, center, level=level, deviation=0.0)
    return Comparison(n, center, min(low, center), max(high, center), level, deviation)

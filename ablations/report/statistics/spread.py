"""Compute the mean of the worst quarter of the seeds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ablations.distributions import student_quantile
from ablations.report.statistics.summaries import LEVEL, Floats, deviation


def worst_quarter(scores: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Compute the mean of the lowest ceil(n / 4) scores: `[..., n]` -> it, low, high `[...]`.

    The variance is that of a conditional tail expectation (Manistre and Hancock 2005, "Variance of
    the CTE estimator"): that of the tail, and of where it ends, `q`; with k scores in it that of
    min(x - q, 0) n / k, over n. Student's t has the k - 1 degrees of the tail, which alone tell its
    spread. NaN where it has fewer than two scores.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    n = ordered.shape[-1]
    k = -(-n // 4)
    if k < 2:
        mean = ordered[..., 0] if n else np.full(ordered.shape[:-1], np.nan)
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    mean = ordered[..., :k].mean(axis=-1)
    end = ordered[..., k - 1 : k + 1].mean(axis=-1, keepdims=True)
    error = deviation(np.minimum(ordered - end, 0.0)) * math.sqrt(n) / k
    reach = -student_quantile(k - 1, LEVEL / 2) * error
    return mean, mean - reach, mean + reach

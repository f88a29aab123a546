"""The mean difference to a baseline that has more seeds than the variant."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ablations.distributions import student_cdf
from ablations.report.statistics.paired import Comparison, compare, rounding_of
from ablations.report.statistics.summaries import LEVEL, powers

FEWEST_PAIRS = 8  # of which a slope can be told


def regress(
    scores: ArrayLike,
    baseline: ArrayLike,
    every: ArrayLike,
    margin: float | None = None,
    level: float = LEVEL,
) -> Comparison:
    """Compare two arrays `[n]`, paired by seed, in view of all N seeds of the baseline.

    The regression estimator of double sampling (Cochran 1977, "Sampling Techniques", 12.6), of
    which the baseline is the control variate: with the variant's mean y, the baseline's x over the
    pairs and X over all of its seeds, and the slope b of the variant on it over the pairs,

        difference = y + b (X - x) - X
        variance = s^2 (1 / n + (X - x)^2 / S) + (b - 1)^2 S_N / (N - 1) / N

    with s^2 the residual variance, n - 2 degrees of freedom, S and S_N the sums of squares of the
    baseline over the pairs and over all of its seeds; degrees by Satterthwaite. Of independent
    scores b is 0, and the whole baseline is used; of equal ones 1, and only the pairs are. b is 0
    where the baseline does not vary, and fewer than `FEWEST_PAIRS` pairs are compared as pairs.

    Args:
        scores: `[n]`, or `[tasks, n]` whose means over tasks are compared.
        baseline: of the same shape and seeds.
        every: `[N]` or `[tasks, N]`, scores of all of its seeds, those of the pairs among them.
        margin: in their units.
        level: of the interval.
    """
    paired = compare(scores, baseline, margin, level)
    n, rounding = paired.n, rounding_of(scores, baseline, every)
    y, x, baselines = (np.asarray(of, np.float64) for of in (scores, baseline, every))
    if n < FEWEST_PAIRS or paired.low is None or not np.all(np.isfinite(baselines)):
        return paired
    power = int(powers(np.concatenate([of.ravel() for of in (y, x, baselines)])))
    y, x, baselines = (
        np.ldexp(of.mean(axis=0) if of.ndim == 2 else of, -power) for of in (y, x, baselines)
    )
    off, over = x - x.mean(), baselines - baselines.mean()
    sum_of_squares = float(off @ off)
    varies = math.sqrt(sum_of_squares) > math.ldexp(rounding, -power) * math.sqrt(n)
    slope = float(off @ y) / sum_of_squares if varies else 0.0
    gap = float(baselines.mean() - x.mean())
    left = y - y.mean() - slope * off
    degrees = n - 1 - varies
    own = float(left @ left) / degrees * (1 / n + (gap**2 / sum_of_squares if varies else 0.0))
    shared = (slope - 1) ** 2 * float(over @ over) / (len(baselines) - 1) / len(baselines)
    error = math.sqrt(own + shared)
    if not error > math.ldexp(rounding, -power):
        return paired
    freedom = (own + shared) ** 2 / (own**2 / degrees + shared**2 / (len(baselines) - 1))
    center = math.ldexp(float(y.mean() + slope * gap - baselines.mean()), power)
    error = math.ldexp(error, power)
    return replace(
        Comparison.by_student(n, center, error, freedom, level),
        wilcoxon_p=paired.wilcoxon_p,
        probability_of_improvement=paired.probability_of_improvement,
        p_equivalent=None
        if margin is None
        else student_cdf(freedom, (abs(center) - margin) / error),
    )

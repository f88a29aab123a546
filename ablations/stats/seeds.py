"""The power of a comparison with n pairs of runs, and the number of seeds that it needs."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ablations.stats.summaries import LEVEL, NAN, Floats, bisect, student

POWER = 0.8
MOST_SEEDS = 10_000


def power(
    n: int, difference: ArrayLike, sd: float, margin: float = NAN, level: float = LEVEL
) -> Floats:
    """Return the probability that the interval of n pairs excludes 0 or lies within the margin.

    Differences are normal. Let s be their sample standard deviation and
    r = t[n-1, 1-level/2] s / sqrt(n) the half width of the interval. It excludes 0 if the mean is
    beyond ±r. It lies within the margin and contains 0 if the mean is within ±min(r, margin - r).
    Both probabilities are averaged over 128 quantiles of s.

    Args:
        n: number of pairs.
        difference: true differences, any shape.
        sd: true standard deviation of paired differences.
        margin: NaN: none.
        level: of the interval.
    """
    scale = sd / math.sqrt(n)
    reach = student(n - 1, level) * _deviations(n - 1, 128) * scale
    center = np.asarray(difference, np.float64)[..., None]

    def within(bound: Floats) -> Floats:
        with np.errstate(over="ignore"):  # of numbers near the largest float
            high, low = (bound - center) / scale, (-bound - center) / scale
        return np.asarray(np.mean(special.ndtr(high) - special.ndtr(low), axis=-1))

    differs = 1.0 - within(reach)
    if math.isnan(margin):
        return differs
    return differs + within(np.clip(margin - reach, 0.0, reach))


@lru_cache(maxsize=4096)
def _deviations(freedom: int, nodes: int) -> Floats:
    """Return sample standard deviations of normal numbers at evenly spaced quantiles."""
    even = (np.arange(nodes) + 0.5) / nodes
    deviations: Floats = np.sqrt(2 * special.gammaincinv(freedom / 2, even) / freedom)
    return deviations


def seeds_needed(
    difference: float,
    sd: float,
    margin: float = NAN,
    level: float = LEVEL,
    chance: float = POWER,
    fewest: int = 2,
) -> float:
    """Return the smallest number of pairs, at least `fewest`, that decides a true difference.

    `seeds_needed(margin, sd)` pairs detect a difference of the margin. NaN above 10,000, if the
    difference or sd is NaN, and if sd is 0.
    """
    if not sd > 0 or math.isnan(difference):
        return NAN

    def decides(n: int) -> bool:
        return bool(power(n, difference, sd, margin, level) >= chance)

    candidates = range(fewest, MOST_SEEDS + 1)
    index = bisect_left(candidates, True, key=decides)
    return float(candidates[index]) if index < len(candidates) else NAN


def sd_interval(n: int, sd: float, level: float = LEVEL) -> tuple[float, float]:
    """Return the chi-squared interval of a standard deviation of n normal numbers."""
    freedom = n - 1
    high, low = 2 * special.gammaincinv(freedom / 2, (1 - level / 2, level / 2))
    return sd * math.sqrt(freedom / high), sd * math.sqrt(freedom / low)


def smallest_margin(n: int, sd: float, rate: float) -> float:
    """Return the margin with which n runs per side pass a change without effect with 80%.

    The margin m solves P(d - t s √(2/n) > -m) = 0.8, where d is normal with variance 2 sd²/n, s is
    the pooled standard deviation with 2(n - 1) degrees of freedom, and t is Student's one-sided
    quantile of the rate of false passes. `sd` is the standard deviation between runs, which are not
    paired.
    """
    freedom = 2 * (n - 1)
    reach = student(freedom, 2 * rate) * _deviations(freedom, 512)

    def fails(margin: float) -> bool:
        return bool(np.mean(special.ndtr(margin - reach)) < POWER)

    high = 1.0
    while fails(high):
        high *= 2
    return sd * math.sqrt(2 / n) * bisect(fails, 0.0, high)[1]

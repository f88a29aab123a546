"""The chance that n pairs of runs decide a comparison, and the number of seeds that it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ablations.stats.differences import Difference
from ablations.stats.summaries import LEVEL, NAN, Floats, bisect, student

POWER = 0.8
MOST_SEEDS = 10_000


class Seeds(NamedTuple):
    """The seeds that decide: a 90% range and the likely number; NaN above 10,000."""

    low: float = NAN
    likely: float = NAN
    high: float = NAN


def power(
    n: int, difference: ArrayLike, sd: float, margin: float = NAN, level: float = LEVEL
) -> Floats:
    """Return the chance that n pairs decide: exclude 0, or lie within the margin (NaN: none).

    Of normal differences. Given their sample deviation s, the interval reaches
    r = t[n-1, 1-level/2] s / sqrt(n) to each side of their mean, which is normal. 0 is outside
    where the mean is beyond ±r; the interval lies within the margin and holds 0 where the mean is
    within ±min(r, margin - r). Both are averaged over 128 quantiles of s.

    difference: true differences, any shape. sd: the true standard deviation of paired differences.
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
    """Return sample deviations of standard normal numbers at evenly spaced quantiles."""
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
    """Return the fewest pairs of runs, at least `fewest`, that decide a true difference.

    `seeds_needed(margin, sd)` show the margin. NaN above 10,000, and where difference or sd are NaN
    or sd is 0.
    """
    if not sd > 0 or math.isnan(difference):
        return NAN
    return _fewest(lambda n: bool(power(n, difference, sd, margin, level) >= chance), fewest)


@lru_cache(maxsize=4096)
def seeds_range(difference: Difference, margin: float = NAN, level: float = LEVEL) -> Seeds:
    """Return the seeds at which an inconclusive comparison would be decided with a chance of 80%.

    More than there are. likely: if mean and deviation of the differences are what they look like.
    low, high: over the means and deviations that both 90% intervals, Student's and the chi-squared
    one, allow: simulated, 90% of such ranges or more hold the truth. Without a margin a difference
    may be as small as it likes, and high is NaN.
    """
    n, center, sd = difference.n, difference.difference, difference.sd
    if math.isnan(center) or not sd > 0:
        return Seeds()
    least, most = sd_interval(n, sd, 0.1)
    reach = student(n - 1, 0.1) * sd / math.sqrt(n)
    ends = (center - reach, center + reach)
    # Equivalence is soonest at 0, and neither sign nor equivalence is easy half way to the margin.
    inner = (0.0,) if math.isnan(margin) else (0.0, margin / 2, -margin / 2, margin, -margin)
    truths = [*np.linspace(*ends, 5), *(mean for mean in inner if ends[0] < mean < ends[1])]

    def decided(seeds: int, spread: float) -> NDArray[np.bool_]:
        return np.asarray(power(seeds, truths, spread, margin, level) >= POWER)

    return Seeds(
        _fewest(lambda seeds: bool(np.any(decided(seeds, least))), n + 1),
        seeds_needed(center, sd, margin, level, fewest=n + 1),
        _fewest(lambda seeds: bool(np.all(decided(seeds, most))), n + 1),
    )


def sd_interval(n: int, sd: float, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a standard deviation of n normal numbers (chi-squared)."""
    freedom = n - 1
    high, low = 2 * special.gammaincinv(freedom / 2, (1 - level / 2, level / 2))
    return sd * math.sqrt(freedom / high), sd * math.sqrt(freedom / low)


def smallest_margin(n: int, sd: float, rate: float) -> float:
    """Return the margin at which n runs of either side pass a change of no effect, 80% of the time.

    The margin m solves P(d - t s √(2/n) > -m) = 0.8, with d normal of variance 2 sd²/n, s the
    pooled deviation of 2(n - 1) degrees of freedom, and t Student's quantile of the rate of false
    passes, one-sided. sd: the standard deviation between runs, which are not paired.
    """
    freedom = 2 * (n - 1)
    reach = student(freedom, 2 * rate) * _deviations(freedom, 512)

    def fails(margin: float) -> bool:
        return bool(np.mean(special.ndtr(margin - reach)) < POWER)

    high = 1.0
    while fails(high):
        high *= 2
    return sd * math.sqrt(2 / n) * bisect(fails, 0.0, high)[1]


def _fewest(decides: Callable[[int], bool], fewest: int) -> float:
    """Find the first number from `fewest` on that decides, by bisection."""
    if decides(fewest):
        return float(fewest)
    low, high = fewest, fewest + 1
    while not decides(high):
        if high >= MOST_SEEDS:
            return NAN
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return float(high)

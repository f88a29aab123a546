"""Estimate how many seeds a question needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.distributions import chi_squared_quantile, normal_cdf, student_quantile
from ablations.report.statistics.paired import Comparison
from ablations.report.statistics.summaries import LEVEL, Floats

MOST_SEEDS = 10_000
POWER = 0.8
_NODES = 128


class Seeds(NamedTuple):
    """The seeds that decide: an estimate, and the ends of a 90% range; None above 10,000."""

    low: int | None
    seen: int | None
    high: int | None


class Chances(NamedTuple):
    """Chances of verdicts, of which only one can come true."""

    differs: Floats
    equivalent: Floats

    @property
    def decides(self) -> Floats:
        """Return whether so many seeds decide."""
        return self.differs + self.equivalent


def chances(
    n: int, difference: ArrayLike, deviation: float, margin: float | None, level: float = LEVEL
) -> Chances:
    """Return the chances that n paired seeds exclude 0, and that they lie within the margin.

    For true differences of any shape. For normal differences. Given their sample deviation s, the
    interval reaches r = t[n-1, 1-level/2] s / sqrt(n) to each side of their mean, which is normal;
    0 is outside where the mean is beyond +-r, and the interval is within the margin and holds 0
    where the mean is within +-min(r, margin - r). Both are averaged over the distribution of s.
    """
    spread, quantile = _spreads(n, level)
    scale = deviation / math.sqrt(n)
    reach = quantile * spread * scale
    center = np.asarray(difference, dtype=np.float64)[..., None]

    def within(bound: Floats) -> Floats:
        with np.errstate(over="ignore"):  # of numbers near the largest float
            ends = (bound - center) / scale, (-bound - center) / scale
        return np.asarray(np.mean(normal_cdf(ends[0]) - normal_cdf(ends[1]), axis=-1))

    differs = 1.0 - within(reach)
    if margin is None:
        return Chances(differs, np.zeros_like(differs))
    return Chances(differs, within(np.clip(margin - reach, 0.0, reach)))


@lru_cache(maxsize=4096)
def _spreads(n: int, level: float) -> tuple[Floats, float]:
    """Return sample deviations of n standard normals at even quantiles, and Student's quantile."""
    even = (np.arange(_NODES) + 0.5) / _NODES
    freedom = n - 1
    quantile = -student_quantile(freedom, level / 2)
    return np.sqrt(chi_squared_quantile(freedom, even) / freedom), quantile


@lru_cache(maxsize=4096)
def seeds_to_decide(comparison: Comparison, margin: float | None) -> Seeds:
    """Return the seeds at which an undecided comparison would be decided with chance `POWER`.

    0 is excluded then, or the interval within the margin. More than there are. seen: if mean and
    deviation of the differences are what they look like. low, high: over the means and deviations
    that both 90% intervals, Student's and the chi-squared one, allow: simulated, 90% of such ranges
    or more hold the truth. Without a margin a difference may be as small as it likes, and high is
    None.
    """
    n, difference, deviation = comparison.n, comparison.difference, comparison.deviation
    if difference is None or not deviation:
        return Seeds(None, None, None)
    least, most = deviations(n, deviation, 0.1)
    reach = -student_quantile(n - 1, 0.05) * deviation / math.sqrt(n)
    ends = (difference - reach, difference + reach)
    # Equivalence is soonest at 0, and neither sign nor equivalence is easy half way to the margin.
    inner = (0.0,) if margin is None else (0.0, margin / 2, -margin / 2, margin, -margin)
    likely = [*np.linspace(*ends, 5), *(mean for mean in inner if ends[0] < mean < ends[1])]

    def decide(effects: ArrayLike, spread: float) -> Callable[[int], NDArray[np.bool_]]:
        return lambda seeds: (
            chances(seeds, effects, spread, margin, comparison.level).decides >= POWER
        )

    soonest, latest = decide(likely, least), decide(likely, most)
    return Seeds(
        _fewest(lambda seeds: bool(np.any(soonest(seeds))), n + 1),
        seeds_for(difference, deviation, margin, comparison.level, fewest=n + 1),
        _fewest(lambda seeds: bool(np.all(latest(seeds))), n + 1),
    )


def deviations(n: int, deviation: float, level: float) -> tuple[float, float]:
    """Return the (1 - level) interval of a standard deviation of n normal numbers (chi-squared)."""
    freedom = n - 1
    high, low = chi_squared_quantile(freedom, (1 - level / 2, level / 2))
    return deviation * math.sqrt(freedom / high), deviation * math.sqrt(freedom / low)


def seeds_for(
    effect: float,
    deviation: float,
    margin: float | None = None,
    level: float = LEVEL,
    power: float = POWER,
    fewest: int = 2,
) -> int | None:
    """Return the fewest paired seeds, at least `fewest`, that decide a true difference `effect`.

    Args:
        effect: the true difference.
        deviation: standard deviation of the differences.
        margin: in their units.
        level: of the interval that decides.
        power: the chance to decide.
        fewest: where to start.

    Returns:
        None above 10,000.
    """
    if not deviation > 0:
        raise ValueError(f"deviation must be positive: {deviation}")

    return _fewest(
        lambda seeds: bool(chances(seeds, effect, deviation, margin, level).decides >= power),
        fewest,
    )


def _fewest(decides: Callable[[int], bool], fewest: int) -> int | None:
    """Find the first number from `fewest` on that decides, by bisection."""
    if decides(fewest):
        return fewest
    low, high = fewest, fewest + 1
    while not decides(high):
        if high >= MOST_SEEDS:
            return None
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high

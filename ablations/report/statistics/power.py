"""How many seeds a question needs."""

from __future__ import annotations

import math

from scipy.special import nctdtr, stdtr, stdtrit

from ablations.report.statistics.paired import EQUIVALENCE_LEVEL, Comparison
from ablations.report.statistics.summaries import LEVEL

_MOST_SEEDS = 10_000


def power_of_difference(n: int, difference: float, deviation: float, level: float = LEVEL) -> float:
    """Chance that a paired t-test on n seeds excludes zero.

    P(T > t[n-1, 1-level/2]), T noncentral t with noncentrality |difference| * sqrt(n) / deviation;
    the far tail is left out.
    """
    critical = -stdtrit(n - 1, level / 2)
    return float(1 - nctdtr(n - 1, abs(difference) * math.sqrt(n) / deviation, critical))


def power_of_equivalence(
    n: int, difference: float, deviation: float, margin: float, level: float = EQUIVALENCE_LEVEL
) -> float:
    """Chance that TOST on n seeds establishes equivalence.

    F((m - d) r - t) + F((m + d) r - t) - 1, or 0 if that is negative, with m the margin, d the
    difference, r = sqrt(n) / deviation, t = t[n-1, 1-level], F Student's distribution function.
    """
    rate = math.sqrt(n) / deviation
    critical = -stdtrit(n - 1, level)
    upper = stdtr(n - 1, (margin - difference) * rate - critical)
    lower = stdtr(n - 1, (margin + difference) * rate - critical)
    return float(max(0.0, upper + lower - 1))


def seeds_to_decide(
    comparison: Comparison, margin: float | None, comparisons: int = 1, power: float = 0.8
) -> int | None:
    """Seeds at which a study would decide with chance `power`, if the truth is what was seen.

    `seeds_for_effect` of the difference seen, but more than the seeds there are. None above 10,000
    or where the data say nothing.
    """
    if comparison.difference is None or not comparison.deviation:
        return None
    return seeds_for_effect(
        comparison.difference,
        comparison.deviation,
        margin,
        comparisons,
        power,
        fewest=comparison.n + 1,
    )


def seeds_for_effect(
    effect: float,
    deviation: float,
    margin: float | None = None,
    comparisons: int = 1,
    power: float = 0.8,
    fewest: int = 2,
) -> int | None:
    """Paired seeds that decide a true difference `effect` with chance `power`.

    deviation: standard deviation of the differences, from the variance seen. The smallest n where
    power_of_difference (at 5% / comparisons, what Holm asks of its smallest p) or, with a margin,
    power_of_equivalence reaches `power`. None above 10,000.
    """
    if not deviation > 0:
        raise ValueError(f"deviation must be positive: {deviation}")

    def decides(seeds: int) -> bool:
        if power_of_difference(seeds, effect, deviation, LEVEL / max(1, comparisons)) >= power:
            return True
        return (
            margin is not None and power_of_equivalence(seeds, effect, deviation, margin) >= power
        )

    if decides(fewest):
        return fewest
    low, high = fewest, fewest + 1
    while not decides(high):
        if high >= _MOST_SEEDS:
            return None
        low, high = high, min(2 * high, _MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high

"""Differences paired by seed: tests, intervals, verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.core.verdict import Verdict
from ablations.distributions import normal_cdf, student_cdf, student_quantile
from ablations.report.statistics.summaries import LEVEL, powers, share_above

EXACT = 200  # differences of which the signed-rank test is exact


@dataclass(frozen=True)
class Comparison:
    """A variant against a baseline, on the seeds that both have. None where n is too small to say.

    n: number of pairs. difference: mean of (variant - baseline); low, high: its interval at
        1 - level, None where all differences are the same number and nothing tells their spread.
    level: chance that the interval misses; 5% shared over the comparisons of a family.
    deviation: sample standard deviation of the differences.
    p: two-sided, of a paired t-test, for this comparison alone. wilcoxon_p: two-sided, of the exact
        signed-rank test.
    p_equivalent: of TOST against the margin; None without a margin, or without an interval.
    probability_of_improvement: share of all (variant, baseline) pairs of runs where the variant is
        higher, ties counted half (Mann-Whitney U / n^2, rliable's definition).
    sign: 1 or -1 where the mean lies above or below 0 for sure: by its interval or, where all
        differences are the same number, by their sign; 0 where it may lie on either side.
    """

    n: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = LEVEL
    deviation: float | None = None
    p: float | None = None
    wilcoxon_p: float | None = None
    p_equivalent: float | None = None
    probability_of_improvement: float | None = None

    @classmethod
    def by_student(
        cls, n: int, difference: float, error: float, freedom: float, level: float
    ) -> Comparison:
        """Return the comparison of an estimate, from its standard error: Student's interval and p.

        Args:
            n: number of pairs.
            difference: the estimate.
            error: its standard error, above 0.
            freedom: the degrees of freedom of that.
            level: of the interval.
        """
        reach = -student_quantile(freedom, level / 2) * error
        return cls(
            n=n,
            difference=difference,
            low=difference - reach,
            high=difference + reach,
            level=level,
            deviation=error * math.sqrt(n),
            p=2 * student_cdf(freedom, -abs(difference) / error),
        )

    @property
    def sign(self) -> int:
        """1 or -1 where the mean lies above or below 0 for sure, else 0."""
        if self.low is not None and self.high is not None:
            return int(self.low > 0) - int(self.high < 0)
        if not self.difference or self.p is None or self.p >= self.level:
            return 0
        return 1 if self.difference > 0 else -1

    @property
    def bounds(self) -> tuple[float | None, float | None, float | None]:
        """The difference and the ends of its interval."""
        return self.difference, self.low, self.high

    @property
    def p_adjusted(self) -> float | None:
        """The p, times the comparisons that share the 5% (Bonferroni)."""
        return None if self.p is None else min(1.0, self.p * LEVEL / self.level)


def compare(
    scores: ArrayLike, baseline: ArrayLike, margin: float | None = None, level: float = LEVEL
) -> Comparison:
    """Compare two arrays `[n]` whose i-th entries share a seed.

    Args:
        scores: `[n]`, or `[tasks, n]` whose means over tasks are compared.
        baseline: of the same shape.
        margin: in their units.
        level: of the interval.
    """
    a, b = np.asarray(scores, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if a.shape != b.shape or a.ndim not in (1, 2):
        raise ValueError(f"paired scores need one shape [n]: {a.shape} and {b.shape}")
    # Of the tasks' own scores: a mean over tasks is as exact as they are, also where they cancel.
    rounding = rounding_of(a, b)
    with np.errstate(over="ignore"):  # what is infinite is not judged
        if a.ndim == 2:
            a, b = a.mean(axis=0), b.mean(axis=0)
        compared = judge(a - b, margin, rounding, level)
    if compared.difference is None:
        return compared
    return replace(compared, probability_of_improvement=share_above(a, b))


def rounding_of(*scores: ArrayLike) -> float:
    """Return the difference up to which numbers that are made of these scores are the same."""
    return 1e-12 * max(float(np.max(np.abs(of), initial=0.0)) for of in scores)


def judge(
    differences: ArrayLike,
    margin: float | None = None,
    rounding: float = 0.0,
    level: float = LEVEL,
) -> Comparison:
    """Judge the mean of `[n]` differences, one per seed.

    Interval and p are those of Student's t. Where all differences are the same number c (their
    deviation is at most `rounding`) they do not tell how much others would differ, so there is no
    interval: n equal pairs only bound the share of seeds that differ, see `most_differing`. p is 1
    for c = 0, and that of the sign test, 2^(1-n), for any other. Where a difference, or an end of
    the interval, is too large for a float, nothing is said.
    """
    pairs = np.asarray(differences, dtype=np.float64)
    n = len(pairs)
    if n == 0 or not np.all(np.isfinite(pairs)):
        return Comparison(n, level=level)
    # In units of a power of two, which changes no digit: squares of the numbers need not be floats.
    power = int(powers(pairs))
    pairs = np.ldexp(pairs, -power)
    center = float(pairs.mean())
    if n == 1:
        return Comparison(1, _times(center, power), level=level)
    deviation, least = float(pairs.std(ddof=1)), _times(rounding, -power)
    if deviation <= least:
        # So far from 0, all of them lie on one side of it.
        center = center if abs(center) > math.sqrt(n) * least else 0.0
        return Comparison(
            n=n,
            difference=_times(center, power),
            level=level,
            deviation=0.0,
            p=0.5 ** (n - 1) if center else 1.0,
            wilcoxon_p=wilcoxon(np.full(n, center)),
        )
    error = deviation / math.sqrt(n)
    reach = -student_quantile(n - 1, level / 2) * error
    low, high = _times(center - reach, power), _times(center + reach, power)
    if not math.isfinite(high - low):
        return Comparison(n, level=level)
    allowed = None if margin is None else _times(margin, -power)
    return Comparison(
        n=n,
        difference=_times(center, power),
        low=low,
        high=high,
        level=level,
        deviation=_times(deviation, power),
        p=2 * student_cdf(n - 1, -abs(center) / error),
        wilcoxon_p=wilcoxon(pairs),
        p_equivalent=None
        if allowed is None
        else student_cdf(n - 1, (abs(center) - allowed) / error),
    )


def _times(value: float, power: int) -> float:
    """Return value * 2^power; infinite where that is too large."""
    try:
        return math.ldexp(value, power)
    except OverflowError:
        return math.copysign(math.inf, value)


def most_differing(n: int) -> float:
    """Bound the share of seeds that may differ where n did not: 1 - .025^(1 / n)."""
    return float(1 - (LEVEL / 2) ** (1 / n))


def verdict(comparison: Comparison, margin: float | None) -> Verdict:
    """Return the verdict, by where the interval lies.

    equivalent: wholly within +-margin; also where 0 is outside, as a difference that small does not
        matter by the study's own statement.
    better, worse: wholly beyond the margin.
    better or worse, by an undecided amount: 0 is outside, the margin inside; or there is no margin.
    undecided: else, which is not evidence of no difference.

    As intervals at level / m cover all m truths of a family at once, every word of the family is
    right at once, equivalences included, with a chance of at least 1 - level.
    """
    low, high = comparison.low, comparison.high
    if margin is not None and low is not None and high is not None:
        if -margin < low and high < margin:
            return Verdict.EQUIVALENT
        if low > margin:
            return Verdict.BETTER
        if high < -margin:
            return Verdict.WORSE
    return _SIGNED[comparison.sign]


_SIGNED: Mapping[int, Verdict] = {
    1: Verdict.BETTER_UNDECIDED,
    -1: Verdict.WORSE_UNDECIDED,
    0: Verdict.UNDECIDED,
}


def not_the_best(scores: ArrayLike, level: float = LEVEL) -> NDArray[np.bool_]:
    """Tell which of k variants' scores `[k, n]`, paired by seed, are significantly below another's.

    All k (k - 1) / 2 pairs by paired t-tests, the level shared over them (Bonferroni): with a
    chance of at least 1 - level nobody is called below who is not, whichever looked best and
    however many are equal. (Hsu's comparisons with the best ask only that the one best variant is
    kept, and lose others that are as good.) NaN where a variant lacks a seed: a pair uses those
    that both have.
    """
    rows = np.asarray(scores, dtype=np.float64)
    below = np.zeros(len(rows), bool)
    first, second = np.triu_indices(len(rows), 1)
    if not len(first) or not rows.shape[1]:
        return below
    with np.errstate(over="ignore", invalid="ignore"):
        pairs = rows[first] - rows[second]
    both = np.isfinite(pairs)
    n = both.sum(axis=1)
    pairs = np.where(both, pairs, 0.0)
    size = np.where(both, np.maximum(np.abs(rows[first]), np.abs(rows[second])), 0.0).max(axis=1)
    power = powers(pairs)
    with np.errstate(over="ignore"):
        least = 1e-12 * np.ldexp(size, -power)
    pairs = np.ldexp(pairs, -power[:, None])
    center = pairs.sum(axis=1) / np.maximum(n, 1)
    off = np.where(both, pairs - center[:, None], 0.0)
    deviation = np.sqrt((off**2).sum(axis=1) / np.maximum(n - 1, 1))
    # Where all differences are the same number, their sign is all that can be tested.
    same = deviation <= least
    center = np.where(same & (np.abs(center) <= np.sqrt(n) * least), 0.0, center)
    t = np.abs(center) * np.sqrt(n) / np.where(same, 1.0, deviation)
    p = np.where(same, 0.5 ** (n - 1.0), 2 * np.vectorize(student_cdf)(np.maximum(n - 1, 1), -t))
    is_worse = (n > 1) & (center != 0) & (p < level / len(first))
    below[np.where(center < 0, first, second)[is_worse]] = True
    return below


def wilcoxon(differences: ArrayLike) -> float:
    """Return the two-sided p of the signed-rank test on `[n]` differences, zeros left out.

    Exact with ties too. Up to EXACT differences the distribution of the positive rank sum over all
    2^n sign flips, built rank by rank; beyond, where that takes n^3 operations, its normal
    approximation with the variance of the ranks that there are and a correction for continuity. Its
    smallest value at 8 seeds is 2 / 2^8 = .0078, which no Holm over more than 6 comparisons lets
    pass.
    """
    d = np.asarray(differences, dtype=np.float64)
    d = d[d != 0]
    if len(d) == 0:
        return 1.0
    size = np.sort(np.abs(d))
    # Twice the mid-ranks are integers: rank = (number smaller + number not larger + 1) / 2.
    twice = np.searchsorted(size, np.abs(d), "left") + np.searchsorted(size, np.abs(d), "right") + 1
    positive = int(twice[d > 0].sum())
    if len(d) > EXACT:
        off = max(0.0, abs(positive - twice.sum() / 2) - 1)  # half of a rank, in these units
        return float(2 * normal_cdf(-off / np.sqrt((twice**2.0).sum() / 4)))
    chance = np.zeros(int(twice.sum()) + 1)
    chance[0] = 1.0
    for rank in twice:
        moved = np.zeros_like(chance)
        moved[rank:] = chance[: len(chance) - rank]
        chance = (chance + moved) / 2
    tail = min(chance[: positive + 1].sum(), chance[positive:].sum())
    return float(min(1.0, 2 * tail))

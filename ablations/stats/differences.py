"""Differences of two sets of scores: intervals, tests, and the rule for verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ablations.stats.summaries import LEVEL, NAN, Floats, bisect, rate, student

VERDICTS = ("better", "worse", "equivalent", "inconclusive", "failed")
FEWEST_PAIRS = 8  # for the slope of a control variate
_OF_DISCORDANCE = 0.1  # share of the level for the interval of the rate of differing pairs


@dataclass(frozen=True)
class Difference:
    """The mean difference of a variant and its baseline. NaN: the runs do not determine a number.

    If all differences are the same number, their variance cannot be estimated: there is no
    interval, sd is 0, and p is the sign test's, 2^(1-n), or 1 if the number is 0.

    Attributes:
        n: number of pairs, or of runs of the smaller side.
        low, high: the interval.
        p: two-sided, of no difference, without correction for other comparisons.
        sd: standard deviation of the paired differences; √n times the standard error in other
            comparisons, except `mean_of_tasks`.
        freedom: degrees of freedom of Student's t; NaN for exact tests.
    """

    n: int
    difference: float = NAN
    low: float = NAN
    high: float = NAN
    p: float = NAN
    sd: float = NAN
    freedom: float = NAN

    def sign(self, level: float = LEVEL) -> int:
        """Return 1 or -1 if the mean is significantly above or below 0 at this level, else 0."""
        if not math.isnan(self.low):
            return (self.low > 0) - (self.high < 0)
        return (self.difference > 0) - (self.difference < 0) if self.p < level else 0


def decide(low: float, high: float, margin: float = NAN, more_failures: int = 0) -> str:
    """Return the verdict on a difference, one of `VERDICTS`, from its interval.

    equivalent: the interval lies within ±margin, even if it excludes 0: the study states that a
        difference this small does not matter.
    better, worse: the interval excludes 0.
    inconclusive: otherwise, and without an interval (NaN).
    failed: more runs of the variant failed than of the baseline, and the verdict is not "worse".
        The surviving runs may be better than the failed ones.

    Args:
        low: lower end of the interval.
        high: upper end of the interval.
        margin: the equivalence margin; NaN: none.
        more_failures: failed runs of the variant minus failed runs of the baseline, on shared
            seeds. If it is negative, "equivalent" and "worse" become "inconclusive".
    """
    if -margin < low and high < margin:
        verdict = "equivalent"
    else:
        verdict = "better" if low > 0 else "worse" if high < 0 else "inconclusive"
    if more_failures > 0 and verdict != "worse":
        return "failed"
    if more_failures < 0 and verdict in ("equivalent", "worse"):
        return "inconclusive"
    return verdict


def rounding_of(*scores: ArrayLike) -> float:
    """Return the rounding error of numbers computed from these scores."""
    return 1e-12 * max(float(np.max(np.abs(each), initial=0.0)) for each in scores)


def by_student(
    n: int,
    difference: float,
    error: float,
    freedom: float,
    level: float = LEVEL,
    rounding: float = 0.0,
) -> Difference:
    """Return Student's interval and p of an estimate; all NaN if an end is infinite.

    If the standard error is at most rounding / sqrt(n), all n differences are the same number.
    """
    sd = error * math.sqrt(n)
    if sd <= rounding:
        if abs(difference) <= math.sqrt(n) * rounding:
            return Difference(n, 0.0, p=1.0, sd=0.0)
        return Difference(n, difference, p=0.5 ** (n - 1), sd=0.0)
    reach = student(freedom, level) * error
    if not math.isfinite(reach):
        return Difference(n)
    p = 2 * float(special.stdtr(freedom, -abs(difference) / error))
    return Difference(n, difference, difference - reach, difference + reach, p, sd, freedom)


@np.errstate(over="ignore", invalid="ignore")
def of_differences(
    differences: ArrayLike, level: float = LEVEL, rounding: float = 0.0
) -> Difference:
    """Return the mean of differences `[n]`, one per seed, with Student's interval.

    Differences whose standard deviation is at most `rounding` are the same number. If one is not
    finite, the result is NaN.
    """
    d = np.asarray(differences, np.float64)
    n = len(d)
    if n == 0 or not np.isfinite(d).all():
        return Difference(n)
    center = float(d.mean())
    if n == 1:
        return Difference(1, center)
    return by_student(n, center, float(d.std(ddof=1)) / math.sqrt(n), n - 1, level, rounding)


def paired(ours: ArrayLike, theirs: ArrayLike, level: float = LEVEL) -> Difference:
    """Compare scores `[n]` whose i-th entries share a seed, by Student's t.

    Scores `[tasks, n]` are averaged over tasks first.
    """
    a, b = _paired_arrays(ours, theirs)
    with np.errstate(over="ignore"):  # infinite differences give NaN
        # Rounding depends on single tasks' scores, as their mean may cancel.
        return of_differences(_over_tasks(a) - _over_tasks(b), level, rounding_of(a, b))


@np.errstate(over="ignore", invalid="ignore")
def welch(ours: ArrayLike, theirs: ArrayLike, level: float = LEVEL) -> Difference:
    """Compare the means of independent runs `[n]` and `[m]` (Welch 1947).

    The interval is d ± t[f, 1-level/2] √(s₁²/n + s₂²/m), with the sample variances s² and
    f = (s₁²/n + s₂²/m)² / ((s₁²/n)²/(n-1) + (s₂²/m)²/(m-1)) (Satterthwaite).
    """
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"unpaired scores are [n] and [m]: {a.shape} and {b.shape}")
    n = min(len(a), len(b))
    if n == 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return Difference(n)
    center = float(a.mean() - b.mean())
    if n == 1:
        return Difference(1, center)
    errors = [float(side.std(ddof=1)) / math.sqrt(len(side)) for side in (a, b)]
    error = math.hypot(*errors)
    parts = ((e / error) ** 4 / (len(s) - 1) for e, s in zip(errors, (a, b), strict=True) if e)
    return by_student(n, center, error, 1 / (sum(parts) or 1.0), level, rounding_of(a, b))


def mean_of_tasks(each: Sequence[Difference], level: float = LEVEL) -> Difference:
    """Return the mean of independent differences on T tasks, with n pairs on each of them.

    The variance is Σ sd² / n / T², with Satterthwaite's degrees of freedom. In the result, n is the
    smallest n, and sd = √(Σ sd²) / T is that of one pair per task.
    """
    n, tasks = min(one.n for one in each), len(each)
    center = math.fsum(one.difference for one in each) / tasks
    if any(math.isnan(one.low) for one in each):
        return Difference(n, center)
    variances = [one.sd**2 / one.n for one in each]
    parts = [v**2 / one.freedom for v, one in zip(variances, each, strict=True)]
    variance = math.fsum(variances)
    result = by_student(n, center, math.sqrt(variance) / tasks, variance**2 / sum(parts), level)
    return replace(result, sd=math.hypot(*(one.sd for one in each)) / tasks)


def control_variate(
    ours: ArrayLike, theirs: ArrayLike, every: ArrayLike, level: float = LEVEL
) -> Difference:
    """Compare paired scores, using all N seeds of the baseline.

    This is the regression estimator of double sampling (Cochran 1977, "Sampling Techniques", 12.6)
    with the baseline as the control variate. Let y be the variant's mean over the pairs, x and X
    the baseline's means over the pairs and over all of its seeds, and b the slope of the regression
    of the variant's scores on the baseline's over the pairs. Then

        difference = y + b (X - x) - X
        variance = s² (1 / n + (X - x)² / S) + (b - 1)² S_N / (N - 1) / N

    with the residual variance s² (n - 2 degrees of freedom), the sums of squares S and S_N of the
    baseline over the pairs and over all of its seeds, and Satterthwaite's degrees of freedom. b is
    0 if the baseline does not vary. Fewer than 8 pairs are compared by `paired`.

    Args:
        ours: scores of the variant, as for `paired`.
        theirs: scores of the baseline with the same seeds.
        every: `[N]` or `[tasks, N]`, all scores of the baseline, including those of the pairs.
        level: of the interval.
    """
    plain = paired(ours, theirs, level)
    n, arrays = plain.n, [np.asarray(scores, np.float64) for scores in (ours, theirs, every)]
    if n < FEWEST_PAIRS or math.isnan(plain.low) or not np.isfinite(arrays[2]).all():
        return plain
    rounding = rounding_of(*arrays)
    y, x, baselines = map(_over_tasks, arrays)
    off, over = x - x.mean(), baselines - baselines.mean()
    squares = float(off @ off)
    varies = math.sqrt(squares) > rounding * math.sqrt(n)
    slope = float(off @ y) / squares if varies else 0.0
    gap = float(baselines.mean() - x.mean())
    left = y - y.mean() - slope * off
    freedom = n - 1 - varies
    own = float(left @ left) / freedom * (1 / n + (gap**2 / squares if varies else 0.0))
    others = len(baselines) - 1
    shared = (slope - 1) ** 2 * float(over @ over) / others / len(baselines)
    error = math.sqrt(own + shared)
    if not error > rounding:
        return plain
    center = float(y.mean() + slope * gap - baselines.mean())
    degrees = (own + shared) ** 2 / (own**2 / freedom + shared**2 / others)
    return by_student(n, center, error, degrees, level)


def _paired_arrays(ours: ArrayLike, theirs: ArrayLike) -> tuple[Floats, Floats]:
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape or a.ndim not in (1, 2):
        raise ValueError(f"paired scores need one shape [n]: {a.shape} and {b.shape}")
    return a, b


def _over_tasks(scores: Floats) -> Floats:
    return np.asarray(scores.mean(axis=0)) if scores.ndim == 2 else scores


# Tests


def share_above(ours: ArrayLike, theirs: ArrayLike) -> float:
    """Return the share of pairs of runs `[n]` and `[m]` in which ours is higher; ties count half.

    This is Mann-Whitney's U / nm, rliable's probability of improvement on one task.
    """
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    return float(np.mean(np.sign(a[:, None] - b) / 2 + 0.5))


# Success rates: scores of 1 (success) and 0


def is_outcome(values: ArrayLike) -> bool:
    """Return whether all values are 0 or 1, and there is at least one."""
    numbers = np.asarray(values, np.float64)
    return numbers.size > 0 and bool(np.isin(numbers, (0.0, 1.0)).all())


def are_successes(scores: ArrayLike) -> bool:
    """Return whether all scores are 0 or 1, with at least one 1: scores of 0 may be returns."""
    return is_outcome(scores) and bool(np.any(np.asarray(scores)))


def mcnemar_p(gained: ArrayLike, lost: ArrayLike) -> Floats:
    """Return the exact two-sided p of McNemar's test, the sign test of the pairs that differ."""
    fewer, both = np.minimum(gained, lost), np.add(gained, lost)
    p: Floats = np.minimum(1.0, 2 * special.bdtr(fewer, both, 0.5))
    return p


def outcomes(
    ours: ArrayLike, theirs: ArrayLike, level: float = LEVEL, *, by_seed: bool = True
) -> Difference:
    """Compare success rates by an exact interval; scores are 0 or 1.

    By seed, `[n]` and `[n]`: let q be the probability that a pair differs, and θ the probability
    that ours is the better one of such a pair. The difference is (2θ - 1) q. θ has the exact
    interval, given the pairs that differ, at 0.9 of the level, and q at the rest of it; both hold
    simultaneously (Bonferroni). The interval excludes 0 nearly when McNemar's exact test, whose p
    is returned, rejects.

    One pair has no interval.

    Otherwise, `[n]` and `[m]`: each rate has its exact interval at half of the level, and p is NaN.
    """
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if by_seed:
        a, b = (np.ravel(side) for side in _paired_arrays(a, b))
    n = min(len(a), len(b))
    if not n:
        return Difference(0)
    difference = float(a.mean() - b.mean())
    if not by_seed:
        mine, other = (rate(int(side.sum()), len(side), level / 2) for side in (a, b))
        return Difference(n, difference, mine.low - other.high, mine.high - other.low)
    if n == 1:
        return Difference(1, difference)
    gained, lost = int(np.sum(a > b)), int(np.sum(a < b))
    theta = rate(gained, gained + lost, (1 - _OF_DISCORDANCE) * level)
    q = rate(gained + lost, n, _OF_DISCORDANCE * level / 2)
    low, high = 2 * theta.low - 1, 2 * theta.high - 1
    low, high = low * (q.low if low > 0 else q.high), high * (q.high if high > 0 else q.low)
    sd = float((a - b).std(ddof=1))
    return Difference(n, difference, low, high, float(mcnemar_p(gained, lost)), sd)


def loss_p(ours: ArrayLike, theirs: ArrayLike, loss: float) -> float:
    """Return an exact one-sided p of the hypothesis that a success rate lost `loss` or more.

    The outcomes are unpaired. It is half of the smallest level at which the interval of `outcomes`
    lies above -loss.
    """

    def open_(level: float) -> bool:
        return not outcomes(ours, theirs, level, by_seed=False).low > -loss

    return bisect(open_, 0.0, 1.0)[1] / 2


def not_the_best(
    scores: ArrayLike, level: float = LEVEL, *, exact: bool = False
) -> NDArray[np.bool_]:
    """Return which of k variants are significantly worse than another one `[k]`.

    All k (k - 1) / 2 pairs are tested with a shared level (Bonferroni), so the probability of any
    false mark is at most the level, for any number of equally good variants. (Hsu's comparisons
    with the best only protect the single best variant.)

    Args:
        scores: `[k, n]`, paired by seed; NaN: a variant lacks a seed. A pair uses shared seeds.
        level: of all tests together.
        exact: use McNemar's test, for success rates.
    """
    rows = np.asarray(scores, np.float64)
    below = np.zeros(len(rows), bool)
    first, second = np.triu_indices(len(rows), 1)
    p, differences = (_of_outcomes if exact else _of_pairs)(rows[first], rows[second])
    lost = p < level / max(1, len(first))
    below[np.where(differences > 0, second, first)[lost]] = True
    return below


def _of_outcomes(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    gained, lost = (ours > theirs).sum(axis=-1), (ours < theirs).sum(axis=-1)
    return mcnemar_p(gained, lost), gained - lost


def _of_pairs(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Return p and difference of `paired` for each row of scores `[k, n]`; NaN: a missing run."""
    d = ours - theirs
    n = np.isfinite(d).sum(axis=1)
    p, differences, enough = np.full(len(d), NAN), np.zeros(len(d)), n > 1
    if not enough.any():
        return p, differences
    d, n = d[enough], n[enough]
    rounding = 1e-12 * np.nanmax(np.abs([ours[enough], theirs[enough]]), axis=(0, 2))
    center, sd = np.nanmean(d, axis=1), np.nanstd(d, axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_t = 2 * special.stdtr(n - 1, -np.abs(center) * np.sqrt(n) / sd)
    by_sign = np.where(np.abs(center) <= np.sqrt(n) * rounding, 1.0, 0.5 ** (n - 1.0))
    p[enough], differences[enough] = np.where(sd <= rounding, by_sign, by_t), center
    return p, differences

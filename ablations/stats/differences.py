"""Differences of two sets of scores: intervals, tests, and the one rule of verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ablations.stats.summaries import LEVEL, NAN, Floats, bisect, rate, scale_of, student

VERDICTS = ("better", "worse", "equivalent", "inconclusive", "failed")
FEWEST_PAIRS = 8  # for the slope of a control variate
EXACT = 200  # differences, up to which the signed-rank test is exact
_OF_DISCORDANCE = 0.1  # share of the level that the rate of differing pairs may use


@dataclass(frozen=True)
class Difference:
    """The mean difference of a variant and its baseline; NaN where the runs do not give a number.

    n: pairs of runs, or runs of the smaller side. low, high: the interval. p: two-sided, against no
    difference, of this comparison alone. sd: standard deviation of the paired differences, or what
    it would be for n pairs with this standard error. freedom: of Student's t, NaN of exact tests.

    Where all differences are the same number they do not tell how much others would differ: there
    is no interval, sd is 0, and p is that of the sign test, 2^(1-n); 1 where that number is 0.
    """

    n: int
    difference: float = NAN
    low: float = NAN
    high: float = NAN
    p: float = NAN
    sd: float = NAN
    freedom: float = NAN

    def sign(self, level: float = LEVEL) -> int:
        """Return 1 or -1 where the mean lies above or below 0 at this level, else 0."""
        if not math.isnan(self.low):
            return (self.low > 0) - (self.high < 0)
        return (self.difference > 0) - (self.difference < 0) if self.p < level else 0


def decide(low: float, high: float, margin: float = NAN, more_failures: int = 0) -> str:
    """Return the verdict on a difference, one of `VERDICTS`, by where its interval lies.

    equivalent: the interval lies within ±margin, also where 0 is outside of the interval, as a
        difference that small does not matter by the study's own statement.
    better, worse: 0 lies outside.
    inconclusive: else, and without an interval (NaN), which is no evidence of no difference.
    failed: more runs of the variant failed. The seeds that survive look better than they are, so
        only "worse" stays. Where the baseline failed more, "equivalent" and "worse" become
        "inconclusive".

    margin NaN: none. more_failures: failed runs of the variant minus those of the baseline, on
    common seeds.
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
    """Return the difference up to which numbers that are made of these scores are the same."""
    return 1e-12 * max(float(np.max(np.abs(of), initial=0.0)) for of in scores)


def by_student(
    n: int,
    difference: float,
    error: float,
    freedom: float,
    level: float = LEVEL,
    rounding: float = 0.0,
    scale: float = 1.0,
) -> Difference:
    """Return Student's interval and p of an estimate; no number where an end is infinite.

    Where its standard error is at most rounding / sqrt(n), all n differences are the same number.
    scale: a power of two, the unit of difference, error and rounding.
    """
    sd = error * math.sqrt(n)
    if sd <= rounding:
        if abs(difference) <= math.sqrt(n) * rounding:
            return Difference(n, 0.0, p=1.0, sd=0.0)
        return Difference(n, difference * scale, p=0.5 ** (n - 1), sd=0.0)
    reach = student(freedom, level) * error
    low, high = (difference - reach) * scale, (difference + reach) * scale
    if not math.isfinite(high - low):
        return Difference(n)
    p = 2 * float(special.stdtr(freedom, -abs(difference) / error))
    return Difference(n, difference * scale, low, high, p, sd * scale, freedom)


def of_differences(
    differences: ArrayLike, level: float = LEVEL, rounding: float = 0.0
) -> Difference:
    """Return the mean of differences `[n]`, one a seed, with Student's interval.

    Differences whose deviation is at most `rounding` are the same number. Where one of them is not
    finite there is no number.
    """
    d = np.asarray(differences, np.float64)
    n = len(d)
    if n == 0 or not np.isfinite(d).all():
        return Difference(n)
    scale = scale_of(d)
    d = d / scale
    center = float(d.mean())
    if n == 1:
        return Difference(1, center * scale)
    error = float(d.std(ddof=1)) / math.sqrt(n)
    return by_student(n, center, error, n - 1, level, rounding / scale, scale)


def paired(ours: ArrayLike, theirs: ArrayLike, level: float = LEVEL) -> Difference:
    """Compare scores `[n]` whose i-th entries share a seed, by Student's t.

    Of scores `[tasks, n]` the means over tasks are compared.
    """
    a, b = _paired_arrays(ours, theirs)
    with np.errstate(over="ignore"):  # what is infinite has no number
        # Rounding of the tasks' own scores: their mean is as exact as they are, if they cancel too.
        return of_differences(_over_tasks(a) - _over_tasks(b), level, rounding_of(a, b))


def welch(ours: ArrayLike, theirs: ArrayLike, level: float = LEVEL) -> Difference:
    """Compare the means of runs that share no seed, `[n]` and `[m]` (Welch 1947).

    With s² the sample variances the interval is d ± t[f, 1-level/2] √(s₁²/n + s₂²/m), where
    f = (s₁²/n + s₂²/m)² / ((s₁²/n)²/(n-1) + (s₂²/m)²/(m-1)) (Satterthwaite).
    """
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"unpaired scores are [n] and [m]: {a.shape} and {b.shape}")
    n = min(len(a), len(b))
    if n == 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return Difference(n)
    scale, rounding = scale_of(a, b), rounding_of(a, b)
    a, b, rounding = a / scale, b / scale, rounding / scale
    center = float(a.mean() - b.mean())
    if n == 1:
        return Difference(1, center * scale)
    errors = [float(side.std(ddof=1)) / math.sqrt(len(side)) for side in (a, b)]
    error = math.hypot(*errors)
    parts = ((e / error) ** 4 / (len(s) - 1) for e, s in zip(errors, (a, b), strict=True) if e)
    return by_student(n, center, error, 1 / (sum(parts) or 1.0), level, rounding, scale)


def control_variate(
    ours: ArrayLike, theirs: ArrayLike, every: ArrayLike, level: float = LEVEL
) -> Difference:
    """Compare paired scores in view of all N seeds of the baseline.

    The regression estimator of double sampling (Cochran 1977, "Sampling Techniques", 12.6), of
    which the baseline is the control variate: with the variant's mean y, the baseline's x over the
    pairs and X over all of its seeds, and the slope b of the variant on it over the pairs,

        difference = y + b (X - x) - X
        variance = s² (1 / n + (X - x)² / S) + (b - 1)² S_N / (N - 1) / N

    with s² the residual variance, n - 2 degrees of freedom, S and S_N the sums of squares of the
    baseline over the pairs and over all of its seeds; degrees by Satterthwaite. b is 0 where the
    baseline does not vary. Fewer than 8 pairs give no slope and are compared as pairs.

    ours, theirs: as of `paired`. every: `[N]` or `[tasks, N]`, all scores of the baseline, those of
    the pairs among them.
    """
    plain = paired(ours, theirs, level)
    n, arrays = plain.n, [np.asarray(of, np.float64) for of in (ours, theirs, every)]
    if n < FEWEST_PAIRS or math.isnan(plain.low) or not np.isfinite(arrays[2]).all():
        return plain
    scale = scale_of(*arrays)
    rounding = rounding_of(*arrays) / scale
    y, x, baselines = (_over_tasks(of / scale) for of in arrays)
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
    return by_student(n, center, error, degrees, level, 0.0, scale)


def _paired_arrays(ours: ArrayLike, theirs: ArrayLike) -> tuple[Floats, Floats]:
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape or a.ndim not in (1, 2):
        raise ValueError(f"paired scores need one shape [n]: {a.shape} and {b.shape}")
    return a, b


def _over_tasks(scores: Floats) -> Floats:
    return np.asarray(scores.mean(axis=0)) if scores.ndim == 2 else scores


# Tests beside the interval


def equivalence_p(difference: Difference, margin: float) -> float:
    """Return the p of two one-sided tests against ±margin (TOST), NaN without an interval."""
    error = difference.sd / math.sqrt(difference.n) if difference.n else NAN
    if math.isnan(difference.freedom) or math.isnan(margin):
        return NAN
    return float(special.stdtr(difference.freedom, (abs(difference.difference) - margin) / error))


def wilcoxon_p(differences: ArrayLike, rounding: float = 0.0) -> float:
    """Return the two-sided p of the signed-rank test on differences `[n]`, zeros left out.

    Zeros are differences of at most `rounding`, see `rounding_of`.

    Exact, with ties too: up to 200 differences by the distribution of the positive rank sum over
    all 2^n sign flips, built rank by rank; of more by its normal approximation with the variance
    of the ranks and a correction for continuity. NaN of no differences.
    """
    given = np.asarray(differences, np.float64)
    d = given[np.abs(given) > rounding]
    if len(d) == 0:
        return 1.0 if len(given) else NAN
    size = np.sort(np.abs(d))
    # Twice the mid-ranks are integers: rank = (number smaller + number not larger + 1) / 2.
    twice = np.searchsorted(size, np.abs(d), "left") + np.searchsorted(size, np.abs(d), "right") + 1
    positive = int(twice[d > 0].sum())
    if len(d) > EXACT:
        off = max(0.0, abs(positive - twice.sum() / 2) - 1)  # half of a rank, in these units
        return float(2 * special.ndtr(-off / np.sqrt((twice**2.0).sum() / 4)))
    chance = np.zeros(int(twice.sum()) + 1)
    chance[0] = 1.0
    for rank in twice:
        moved = np.zeros_like(chance)
        moved[rank:] = chance[: len(chance) - rank]
        chance = (chance + moved) / 2
    tail = min(chance[: positive + 1].sum(), chance[positive:].sum())
    return float(min(1.0, 2 * tail))


def share_above(ours: ArrayLike, theirs: ArrayLike) -> float:
    """Return the share of pairs of runs `[n]` and `[m]` in which ours is higher; ties count half.

    Mann-Whitney's U / nm, rliable's probability of improvement on one task.
    """
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    return float(np.mean(np.sign(a[:, None] - b) / 2 + 0.5))


# Outcomes: runs that succeed, 1, or fail, 0


def is_outcome(values: ArrayLike) -> bool:
    """Return whether all numbers are 0 or 1, and there are some."""
    numbers = np.asarray(values, np.float64)
    return numbers.size > 0 and bool(np.isin(numbers, (0.0, 1.0)).all())


def are_successes(scores: ArrayLike) -> bool:
    """Return whether each score is a success, 1, or a failure, 0, and one is a success.

    Scores that are all 0 may be returns as well.
    """
    return is_outcome(scores) and bool(np.any(np.asarray(scores)))


def mcnemar_p(gained: ArrayLike, lost: ArrayLike) -> Floats:
    """Return the exact two-sided p of McNemar's test: the sign test of the pairs that differ."""
    fewer, both = np.minimum(gained, lost), np.add(gained, lost)
    p: Floats = np.minimum(1.0, 2 * special.bdtr(fewer, both, 0.5))
    return p


def outcomes(
    ours: ArrayLike, theirs: ArrayLike, level: float = LEVEL, *, by_seed: bool = True
) -> Difference:
    """Compare success rates by an exact interval, of outcomes `[n]`, not by seed `[n]` and `[m]`.

    By seed: with q the chance that a pair differs and θ that the change is the better of such a
    pair, the difference is (2θ - 1) q. θ has its exact interval given the pairs that differ, at 0.9
    of the level, so that 0 is left out nearly where McNemar's exact test, whose p this is, rejects;
    q has it at the rest: by Bonferroni's inequality both hold at once. Else both rates have their
    exact intervals at half of the level, whose ends hold at once, and there is no p.
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
    gained, lost = int(np.sum(a > b)), int(np.sum(a < b))
    theta = rate(gained, gained + lost, (1 - _OF_DISCORDANCE) * level)
    q = rate(gained + lost, n, _OF_DISCORDANCE * level / 2)
    low, high = 2 * theta.low - 1, 2 * theta.high - 1
    low, high = low * (q.low if low > 0 else q.high), high * (q.high if high > 0 else q.low)
    sd = float((a - b).std(ddof=1)) if n > 1 else NAN
    return Difference(n, difference, low, high, float(mcnemar_p(gained, lost)), sd)


def loss_p(ours: ArrayLike, theirs: ArrayLike, loss: float, *, by_seed: bool) -> float:
    """Return an exact p of a rate having lost `loss` or more, 0.5 where that is as likely as not.

    Half of the least level at which the interval of `outcomes` lies above -loss.
    """

    def open_(level: float) -> bool:
        return not outcomes(ours, theirs, level, by_seed=by_seed).low > -loss

    return bisect(open_, 0.0, 1.0)[1] / 2


def not_the_best(
    scores: ArrayLike, level: float = LEVEL, test: Callable[..., Difference] = paired
) -> NDArray[np.bool_]:
    """Tell which of k variants' scores `[k, n]`, paired by seed, are significantly below another's.

    All k (k - 1) / 2 pairs are tested, the level shared over them (Bonferroni): with a chance of at
    least 1 - level no variant is called below that is not, whichever looked best and however many
    are equal. (Hsu's comparisons with the best ask only that the one best variant is kept, and lose
    others that are as good.)

    NaN: a variant lacks a seed; a pair uses those that both have. test: `outcomes` of successes.
    """
    rows = np.asarray(scores, np.float64)
    below = np.zeros(len(rows), bool)
    first, second = np.triu_indices(len(rows), 1)
    compare = _of_pairs if test is paired else _of_outcomes
    p, differences = compare(rows[first], rows[second])
    lost = p < level / max(1, len(first))
    below[np.where(differences > 0, second, first)[lost]] = True
    return below


def _of_outcomes(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    gained, lost = (ours > theirs).sum(axis=-1), (ours < theirs).sum(axis=-1)
    return mcnemar_p(gained, lost), gained - lost


def _of_pairs(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Return p and difference of `paired` for each row of scores `[k, n]`; NaN: no such run."""
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

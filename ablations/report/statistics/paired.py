"""Differences paired by seed: tests, intervals, verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from ablations.report.statistics.summaries import LEVEL, Floats

Verdict = Literal["better", "worse", "equivalent", "undecided"]

EQUIVALENCE_LEVEL = LEVEL / 2


@dataclass(frozen=True)
class Comparison:
    """A variant against a baseline, on the seeds that both have. None where n is too small to say.

    n: number of pairs. difference: mean of (variant - baseline); low, high: its 95% interval.
    deviation: sample standard deviation of the differences.
    p: two-sided, of a paired t-test. wilcoxon_p: two-sided, of the exact signed-rank test.
    p_equivalent: of TOST against the margin; None without a margin.
    probability_of_improvement: share of all (variant, baseline) pairs of runs where the variant is
        higher, ties counted half (Mann-Whitney U / n^2, rliable's definition).
    identical: every difference is zero.
    """

    n: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    p: float | None = None
    wilcoxon_p: float | None = None
    p_equivalent: float | None = None
    probability_of_improvement: float | None = None
    identical: bool = False


def compare(scores: ArrayLike, baseline: ArrayLike, margin: float | None = None) -> Comparison:
    """Compares two arrays `[n]` whose i-th entries share a seed. `margin` in their units."""
    a, b = np.asarray(scores, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"paired scores need one shape [n]: {a.shape} and {b.shape}")
    if len(a) == 0:
        return Comparison(0)
    wins = float(np.mean(np.sign(a[:, None] - b[None, :]) / 2 + 0.5))
    rounding = 1e-12 * float(np.max(np.abs([a, b])))
    return replace(judge(a - b, margin, rounding), probability_of_improvement=wins)


def judge(differences: ArrayLike, margin: float | None = None, rounding: float = 0.0) -> Comparison:
    """What `[n]` differences, one per seed, say about their mean.

    Interval and p are those of Student's t. Where all differences are the same number c (their
    deviation is at most `rounding`) there is no variance to judge by: c = 0 is plain equality
    (p = 1, p_equivalent = 0), any other c has the p of the sign test, 2^(1-n), and 2^-n for lying
    within the margin.
    """
    pairs = np.asarray(differences, dtype=np.float64)
    n = len(pairs)
    if n == 0:
        return Comparison(0)
    center = float(pairs.mean())
    if n == 1:
        return Comparison(1, center)
    deviation = float(pairs.std(ddof=1))
    if deviation <= rounding:
        identical = not np.any(pairs)
        inside = margin is not None and abs(center) < margin
        p_equivalent = 0.0 if identical else 0.5**n if inside else 1.0
        return Comparison(
            n=n,
            difference=center,
            low=center,
            high=center,
            deviation=0.0,
            p=1.0 if identical else 0.5 ** (n - 1),
            wilcoxon_p=wilcoxon(pairs),
            p_equivalent=None if margin is None else p_equivalent,
            identical=identical,
        )
    error = deviation / math.sqrt(n)
    reach = -float(stdtrit(n - 1, LEVEL / 2)) * error
    p_equivalent = 1.0 if margin is None else float(stdtr(n - 1, (abs(center) - margin) / error))
    return Comparison(
        n=n,
        difference=center,
        low=center - reach,
        high=center + reach,
        deviation=deviation,
        p=float(2 * stdtr(n - 1, -abs(center) / error)),
        wilcoxon_p=wilcoxon(pairs),
        p_equivalent=None if margin is None else p_equivalent,
    )


def wilcoxon(differences: ArrayLike) -> float:
    """Two-sided p of the signed-rank test on `[n]` differences, zeros left out, ties exact too.

    The distribution of the positive rank sum over all 2^n sign flips, built rank by rank. Its
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
    chance = np.zeros(int(twice.sum()) + 1)
    chance[0] = 1.0
    for rank in twice:
        moved = np.zeros_like(chance)
        moved[rank:] = chance[: len(chance) - rank]
        chance = (chance + moved) / 2
    positive = int(twice[d > 0].sum())
    tail = min(chance[: positive + 1].sum(), chance[positive:].sum())
    return float(min(1.0, 2 * tail))


def holm(p: ArrayLike) -> Floats:
    """Holm's step-down adjusted p-values `[k]`; NaN, a comparison not made, is passed through.

    Adjusted p of the i-th smallest of k is max over j <= i of (k - j + 1) * p_(j), at most 1.
    """
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    made = np.flatnonzero(~np.isnan(values))
    order = made[np.argsort(values[made], kind="stable")]
    scaled = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted


def verdict(comparison: Comparison, p_holm: float | None) -> Verdict:
    """What a comparison says.

    equivalent: the 95% interval lies within the margin, which is TOST at 2.5% on each side (each
        comparison by itself, as it claims something about that comparison alone). It wins over a
        significant difference: one that is real and within the margin does not matter, by the
        study's own statement; its p still stands beside it.
    better, worse: otherwise, Holm's adjusted p is below 5%, so the chance of any false one in the
        whole study is at most 5%.
    undecided: neither, which is not evidence of no difference.
    """
    if comparison.p_equivalent is not None and comparison.p_equivalent < EQUIVALENCE_LEVEL:
        return "equivalent"
    if p_holm is not None and p_holm < LEVEL and comparison.difference:
        return "better" if comparison.difference > 0 else "worse"
    return "undecided"

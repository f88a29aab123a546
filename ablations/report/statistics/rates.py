"""Success rates: exact intervals of one, and of the difference of two, paired or not."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.distributions import beta_quantile
from ablations.report.statistics.paired import Comparison
from ablations.report.statistics.summaries import LEVEL, share_above

_OF_DISCORDANCE = 0.1  # share of the level that the rate of discordant pairs may have


class Interval(NamedTuple):
    """Both ends."""

    low: float
    high: float


def is_outcome(values: ArrayLike) -> bool:
    """Return whether all numbers are 0 or 1, and there are some."""
    numbers = np.asarray(values, np.float64)
    return numbers.size > 0 and bool(np.isin(numbers, (0.0, 1.0)).all())


def are_successes(scores: ArrayLike) -> bool:
    """Return whether scores of runs are a success, 1, or a failure, 0, each.

    Of nothing but 0 that is not to be seen: a return may be 0 as well.
    """
    return is_outcome(scores) and bool(np.any(np.asarray(scores)))


def rate_interval(successes: int, trials: int, level: float = LEVEL) -> Interval:
    """Return the exact interval of a success rate (Clopper and Pearson 1934).

    Args:
        successes: of the trials.
        trials: independent ones; 0 tell nothing.
        level: chance that the interval misses, half at either end.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    failures = trials - successes
    low = beta_quantile(successes, failures + 1, level / 2) if successes else 0.0
    high = beta_quantile(successes + 1, failures, 1 - level / 2) if failures else 1.0
    return Interval(low, high)


def mcnemar_p(gained: int, lost: int) -> float:
    """Return the exact two-sided p of McNemar's test: the sign test of the pairs that differ.

    Args:
        gained: pairs in which only the change succeeds.
        lost: pairs in which only the baseline does.
    """
    n, fewer = gained + lost, min(gained, lost)
    if not n:
        return 1.0
    tail = sum(math.comb(n, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << n))


def paired_rates(gained: int, lost: int, pairs: int, level: float = LEVEL) -> Interval:
    """Return an exact interval of the difference of two success rates on the same trials.

    With q the chance that a pair differs and θ that the change is the better of such a pair, the
    difference is (2θ - 1) q. θ has its exact interval given the pairs that differ, at 0.9 of the
    level, so that 0 is left out nearly where McNemar's exact test rejects, and q at the rest: by
    Bonferroni's inequality both hold at once.

    Args:
        gained: pairs in which only the change succeeds.
        lost: pairs in which only the baseline does.
        pairs: all pairs.
        level: chance that the interval misses, half at either end at most.
    """
    differing = gained + lost
    theta = rate_interval(gained, differing, (1 - _OF_DISCORDANCE) * level)
    q = rate_interval(differing, pairs, _OF_DISCORDANCE * level / 2)
    low, high = 2 * theta.low - 1, 2 * theta.high - 1
    return Interval(low * (q.low if low > 0 else q.high), high * (q.high if high > 0 else q.low))


def fewer_successes(outcomes: ArrayLike, level: float = LEVEL) -> NDArray[np.bool_]:
    """Tell which of k variants' outcomes `[k, n]`, paired, are significantly below another's.

    `not_the_best` by McNemar's exact test of each pair. NaN where a variant lacks a seed.
    """
    rows = np.asarray(outcomes, np.float64)
    below = np.zeros(len(rows), bool)
    pairs = list(itertools.combinations(range(len(rows)), 2))
    for first, second in pairs:
        gained = int(np.sum(rows[first] > rows[second]))
        lost = int(np.sum(rows[first] < rows[second]))
        if mcnemar_p(gained, lost) < level / len(pairs):
            below[second if gained > lost else first] = True
    return below


def loss_p(scores: ArrayLike, baseline: ArrayLike, loss: float, *, paired: bool) -> float:
    """Return an exact p of a rate having lost `loss` or more, 0.5 where that is as likely as not.

    Half of the least level at which the interval of `compare_outcomes` lies above -loss.

    Args:
        scores: outcomes, `[n]`.
        baseline: outcomes, `[n]` of the same seeds, or `[m]`.
        loss: above 0.
        paired: whether seeds are compared one by one.
    """
    least, most = 0.0, 1.0
    for _ in range(30):
        level = (least + most) / 2
        low = compare_outcomes(scores, baseline, paired=paired, level=level).low
        ruled_out = low is not None and low > -loss
        least, most = (least, level) if ruled_out else (level, most)
    return most / 2


def compare_outcomes(
    scores: ArrayLike, baseline: ArrayLike, *, paired: bool, level: float = LEVEL
) -> Comparison:
    """Compare outcomes of 0 and 1, `[n]` each, or `[n]` and `[m]` where they are not paired.

    Paired: `paired_rates`, with McNemar's exact p. Else the exact intervals of both rates at half
    of the level each, whose ends hold at once, and no p.
    """
    a, b = (np.asarray(side, np.float64) for side in (scores, baseline))
    if paired and a.shape != b.shape:
        raise ValueError(f"paired outcomes need one shape [n]: {a.shape} and {b.shape}")
    n = min(len(a), len(b))
    if not n:
        return Comparison(0, level=level)
    p = None
    if paired:
        gained, lost = int(np.sum(a > b)), int(np.sum(a < b))
        low, high = paired_rates(gained, lost, n, level)
        p = mcnemar_p(gained, lost)
    else:
        ours, theirs = (rate_interval(int(side.sum()), len(side), level / 2) for side in (a, b))
        low, high = ours.low - theirs.high, ours.high - theirs.low
    return Comparison(
        n=n,
        difference=float(a.mean() - b.mean()),
        low=low,
        high=high,
        level=level,
        deviation=float((a - b).std(ddof=1)) if paired and n > 1 else None,
        p=p,
        probability_of_improvement=share_above(a, b),
    )

"""The permutation tests of a check and their sample sizes, on arrays of scores.

**Tests.** If nothing changed, new and old scores have the same distribution, and every assignment
of seeds to "new" and "old" is as likely as the observed one. The share of assignments that are at
least as bad is a p-value for any distribution (skewed, bimodal, at a ceiling), down to four seeds.
A seed keeps all of its scores together, and the most extreme score counts, which corrects for
several correlated scores (Westfall and Young 1993, maxT). The statistic is a moderated t: each
side's variance is shrunk towards the pooled variance with `PRIOR_SEEDS` degrees of freedom (after
Smyth 2004). The plain difference of means mistakes a larger variance for a loss; Welch's t loses up
to a fifth of the power at four seeds.

**Design.** The check starts with few seeds and adds seeds while it is undecided. The rate of false
alarms is split over the stages, half of it for the last stage, so their sum bounds the rate for any
distribution. The rate of misses by early stops is split in the same way. The last stage detects the
effect with `POWER`, so the check detects it with at least `POWER - EARLY_MISSES` = 95%.

Both rates are averages over baselines. The power is integrated over the standard deviations that
the baseline's sample allows (after Browne 1995), so a small baseline detects only larger losses. A
baseline whose seeds did well by chance raises more false alarms: see `Design.lucky`.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ablations.errors import UserError
from ablations.regression import ALPHA, MOST_SEEDS
from ablations.stats import Floats, are_successes, deviation
from ablations.stats.interim import Stage, Stages, planned, split
from ablations.stats.summaries import bisect

PRIOR_SEEDS = 6
PERMUTATIONS = 10_000
FIRST_SEEDS = 4
FEWEST_OLD, RECOMMENDED_OLD = 5, 24
EARLY_MISSES = 0.025
POWER = 0.975
LUCK = 2.0
MOST_NEEDED = 1_000
_SEED = 20261
_BLOCK = 4_000


# The tests


@dataclass(frozen=True)
class Evidence:
    """The p-values of a comparison `[scores]`.

    Attributes:
        worse, better: of the hypothesis that nothing changed, against a loss or a gain, corrected
            over the scores.
        not_lost: of the hypothesis that this score lost `loss`; not corrected, as a check that
            passes rejects it for all scores.
    """

    worse: Floats
    better: Floats
    not_lost: Floats


def unpaired(
    now: Floats, baseline: Floats, loss: ArrayLike, permutations: int = PERMUTATIONS
) -> Evidence:
    """Test new scores `[n, scores]` against a baseline's `[m, scores]`.

    `loss` `[scores]` is positive, in the scores' units.
    """
    t, permuted, slack = _permuted_t(now, baseline, permutations)
    lowest, highest = permuted.min(axis=1)[:, None], permuted.max(axis=1)[:, None]
    worse, better = _share(lowest <= t + slack), _share(highest >= t - slack)
    t, permuted, slack = _permuted_t(now + np.asarray(loss), baseline, permutations)
    return Evidence(worse, better, not_lost=_share(permuted >= t - slack))


def smallest_p(n: int, m: int) -> float:
    """Return the smallest possible p of n new seeds against m old seeds."""
    return 1 / math.comb(n + m, n)


def _share(as_extreme: NDArray[np.bool_]) -> Floats:
    """Return the share of permutations, counting the observed assignment as one."""
    return np.asarray((1 + np.count_nonzero(as_extreme, axis=0)) / (1 + len(as_extreme)))


def _permuted_t(ours: Floats, theirs: Floats, permutations: int) -> tuple[Floats, Floats, Floats]:
    """Return the moderated t `[scores]`, permuted `[permutations, scores]`, and rounding errors."""
    scores, n, m = np.concatenate([ours, theirs]), len(ours), len(theirs)
    centred = scores - scores.mean(axis=0)
    largest = np.abs(centred).max(axis=0)
    centred = centred / np.where(largest > 0, largest, 1.0)
    total = (centred**2).sum(axis=0)

    def moderated(sums: Floats, squares: Floats) -> Floats:
        """Compute t from the sums and sums of squares of the n rows; all rows sum to 0."""
        ours, theirs = sums / n, -sums / m
        within_ours = np.maximum(squares - n * ours**2, 0.0)
        within_theirs = np.maximum(total - squares - m * theirs**2, 0.0)
        prior = PRIOR_SEEDS * (within_ours + within_theirs) / (n + m - 2)
        error = (within_ours + prior) / (n - 1 + PRIOR_SEEDS) / n
        error = error + (within_theirs + prior) / (m - 1 + PRIOR_SEEDS) / m
        t: Floats = (ours - theirs) / np.sqrt(np.maximum(error, 1e-24))
        return t

    observed = moderated(centred[:n].sum(axis=0), (centred[:n] ** 2).sum(axis=0))
    blocks = [
        _assignments(n, m, min(_BLOCK, permutations - start), start)
        for start in range(0, permutations, _BLOCK)
    ]
    permuted = np.concatenate([moderated(b @ centred, b @ centred**2) for b in blocks])
    return observed, permuted, 1e-9 * np.maximum(1.0, np.abs(observed))


@lru_cache(maxsize=16)
def _assignments(n: int, m: int, count: int, start: int) -> Floats:
    random = np.random.default_rng([_SEED, n, m, start])
    chosen = np.argsort(random.random((count, n + m)), axis=1)[:, :n]
    assigned = np.zeros((count, n + m))
    np.put_along_axis(assigned, chosen, 1.0, axis=1)
    return assigned


# The design


@dataclass(frozen=True)
class Design:
    """The seeds of a check, and the losses that it detects.

    Attributes:
        stages: their levels add up to the rate of false alarms.
        effect: the loss to detect, in units of the metric.
        caught: score -> the smallest loss that is detected with 95%, on average over baselines.
        needed: number of seeds that detects `effect` in every score; None above `MOST_NEEDED`.
        lucky: approximate rate of false alarms if the baseline's mean is `LUCK` standard errors too
            high. It falls to alpha with more baseline seeds.
    """

    stages: Stages
    effect: float
    caught: Mapping[str, float]
    needed: int | None
    lucky: float


def design(
    baseline: Mapping[str, Floats],
    effect: float,
    alpha: float = ALPHA,
    most: int = MOST_SEEDS,
    *,
    exactly: int | None = None,
) -> Design:
    """Plan a check. Raises UserError if the seeds are too few for a significant loss.

    Args:
        baseline: score -> `[m]`, higher is better.
        effect: the smallest loss worth detecting, in units of the metric.
        alpha: rate of false alarms.
        most: upper bound of the number of seeds.
        exactly: plan a single stage with this number of seeds.
    """
    if not 0 < alpha < 0.5:
        raise UserError(f"the false-alarm rate must be between 0 and 0.5, not {alpha:g}")
    if not effect > 0:
        raise UserError(f"the smallest effect must be above 0, not {effect:g}")
    old = len(next(iter(baseline.values())))
    require_seeds(old)
    fewest = next(n for n in itertools.count(FIRST_SEEDS) if smallest_p(n, old) <= alpha / 2)
    if (exactly or most) < fewest:
        raise UserError(
            f"too few seeds: {exactly or most} seeds against {old} of the baseline could never "
            f"show a loss at a false-alarm rate of {alpha:.2g}; at least {fewest} are needed"
        )
    deviations = {score: _deviation(values) for score, values in baseline.items()}
    # Bonferroni over the scores, which is conservative for the permutation test.
    level = alpha / (1 if exactly else 2) / len(baseline)

    def misses(seeds: int, loss: float, sd: float) -> bool:
        return _power(seeds, old, loss, sd, level) < POWER

    largest = max(deviations.values())
    needed = None
    if not misses(MOST_NEEDED, effect, largest):
        seeds = range(fewest, MOST_NEEDED + 1)
        needed = seeds[bisect_left(seeds, True, key=lambda n: not misses(n, effect, largest))]
    if exactly:
        stages = Stages([Stage(exactly, alpha, EARLY_MISSES)])
    else:
        stages = _stages(min(most, needed or most), alpha, old)
    last = stages[-1].seeds
    caught = {
        score: _smallest(partial(misses, last, sd=sd), sd) for score, sd in deviations.items()
    }
    ratio = last / old
    reach = LUCK * math.sqrt(ratio) + special.ndtri(alpha) * math.sqrt(1 + ratio)
    return Design(stages, effect, caught, needed, float(special.ndtr(reach)))


def require_seeds(old: int) -> None:
    """Raise UserError for a baseline of too few seeds."""
    if old < FEWEST_OLD:
        raise UserError(
            f"a baseline of {old} seeds is too small: at least {FEWEST_OLD} are needed, and "
            f"{RECOMMENDED_OLD} are recommended"
        )


def _deviation(scores: Floats) -> float:
    """Return the standard deviation of scores `[m]`, by Laplace's rate for successes."""
    if not are_successes(np.abs(scores)):
        return float(deviation(scores))
    rate = (float(np.abs(scores).sum()) + 1) / (len(scores) + 2)
    return math.sqrt(rate * (1 - rate))


def _stages(last: int, alpha: float, old: int) -> Stages:
    seeds = list(planned(FIRST_SEEDS, last, factor=2.0))
    # A stage that cannot reach its level would waste its share of alpha.
    while len(seeds) > 1 and smallest_p(seeds[0], old) > split(alpha, len(seeds))[0] / 2:
        seeds.pop(0)
    shares = zip(seeds, split(alpha, len(seeds)), split(EARLY_MISSES, len(seeds)), strict=True)
    return Stages(itertools.starmap(Stage, shares))


def _power(seeds: int, old: int, loss: float, sd: float, level: float) -> float:
    """Return the power of a one-sided t-test at `level`, with equal variances on both sides.

    The power is an average over baselines: their standard deviation s is estimated from `old`
    seeds, so s²/σ² is chi-squared over its degrees of freedom. The same s enters the pooled error.
    """
    if not sd > 0:
        return 1.0
    ratio, weight = _variances(old - 1)
    new, new_weight = _variances(seeds - 1)
    freedom, error = seeds + old - 2, math.sqrt(1 / seeds + 1 / old)
    variance = ((old - 1) * ratio[:, None] + (seeds - 1) * new) / freedom
    shift = loss / sd * np.sqrt(ratio) / error
    detected = special.ndtr(shift[:, None] + special.stdtrit(freedom, level) * np.sqrt(variance))
    return float(weight @ detected @ new_weight)


@lru_cache(maxsize=4096)
def _variances(freedom: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre points of s²/σ² on its quantiles, and their weights."""
    points, weights = np.polynomial.legendre.leggauss(64)
    return 2 * special.gammaincinv(freedom / 2, (points + 1) / 2) / freedom, weights / 2


def _smallest(misses: Callable[[float], bool], sd: float) -> float:
    if not sd > 0:
        return 0.0
    high = sd
    while misses(high):
        high *= 2
    return bisect(misses, 0.0, high)[1]

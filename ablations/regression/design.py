"""Design of a check: seeds, looks and levels, from the baseline's variance.

A check looks at a few seeds first and adds seeds only while it is undecided. Its false-alarm rate
is split over the looks, half of it for the last, so their sum bounds the rate whatever the returns
look like; so is its rate of misses by stopping too early. Within the looks that remain, the last
has `POWER` of catching the effect, so the whole check has at least `POWER - EARLY_MISSES` = 95%.

Both rates are averages over the baselines that could have been drawn. For the power that means
that the baseline's standard deviation is not taken for the true one: the power is integrated over
what the true one may be (after Browne 1995, who takes an upper bound of it), and a baseline of few
seeds promises less. For false alarms it means that one and the same baseline, checked at every
push, alarms more often if its seeds happened to do well: `Design.lucky` says how often.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ablations.distributions import (
    chi_squared_quantile,
    normal_cdf,
    normal_quantile,
    student_quantile,
)
from ablations.errors import UserError
from ablations.looks import Look, Looks, planned, split
from ablations.regression import ALPHA, MOST_SEEDS
from ablations.regression.permutation import smallest_p
from ablations.report.statistics.rates import are_successes
from ablations.report.statistics.summaries import deviation

FIRST_SEEDS = 4
EARLY_MISSES = 0.025
POWER = 0.975
FEWEST_OLD = 5
LUCK = 2.0


@dataclass(frozen=True)
class Design:
    """The cost of a check and the losses that it can see.

    looks: the level of each is the rate of false alarms spent there. effect: the loss to be caught,
    in the metric's units. caught: score -> the smallest loss in it that the check catches with 95%,
    on average over baselines. needed: the seeds that would catch `effect` in every score; None
    above `MOST_NEEDED`. lucky: about how often a check calls an unchanged trainer worse, if the
    mean of its baseline happens to lie `LUCK` standard errors too high (paired: of seeds that do
    not go alike at all). More seeds of the baseline bring it down to alpha.
    """

    looks: Looks
    alpha: float
    effect: float
    caught: Mapping[str, float]
    needed: int | None
    old_seeds: int
    lucky: float

    @property
    def most_seeds(self) -> int:
        """The seeds of the last look."""
        return self.looks[-1].seeds


MOST_NEEDED = 1_000


def design(
    baseline: Mapping[str, NDArray[np.float64]],
    effect: float,
    *,
    alpha: float = ALPHA,
    most: int = MOST_SEEDS,
    exactly: int | None = None,
    paired: bool = False,
) -> Design:
    """Plan a check. Raises UserError where so few seeds could never show a loss at this level.

    Args:
        baseline: score -> `[m]`, higher is better.
        effect: the smallest loss worth catching, in the metric's units.
        alpha: rate of false alarms.
        most: bound on the seeds.
        exactly: one look at so many seeds.
        paired: whether seeds are compared one by one.
    """
    if not 0 < alpha < 0.5:
        raise UserError(f"the false-alarm rate must be between 0 and 0.5, not {alpha:g}")
    if not effect > 0:
        raise UserError(f"the smallest effect worth catching must be above 0, not {effect:g}")
    old = len(next(iter(baseline.values())))
    if old < FEWEST_OLD:
        raise UserError(f"the baseline has {old} seeds: at least {FEWEST_OLD} are needed, 20 good")
    spread = [_spread(values) for values in baseline.values()]
    # The permutation test corrects over the scores better than Bonferroni; planning need not.
    level = alpha / (1 if exactly else 2) / len(spread)

    def power(seeds: int, loss: float) -> float:
        """Return the power for the score that varies most."""
        return _power(seeds, old, loss, max(spread), level, paired)

    fewest = _fewest(old if not paired else None, alpha)
    if (exactly or most) < fewest:
        raise _too_few(exactly or most, fewest, old, alpha, paired)
    needed = _needed(power, effect, fewest)
    looks = (
        Looks([Look(exactly, alpha, EARLY_MISSES)])
        if exactly
        else _looks(min(most, needed or most), alpha, old, paired)
    )
    last = looks[-1].seeds

    def caught(sd: float) -> float:
        return _caught(lambda loss: _power(last, old, loss, sd, level, paired), sd)

    each = dict(zip(baseline, map(caught, spread), strict=True))
    lucky = _lucky(last, last if paired else old, alpha)
    return Design(looks, alpha, effect, each, needed, old, lucky)


def _spread(scores: NDArray[np.float64]) -> float:
    """Return the deviation of `[m]` scores; of successes by Laplace's rate: a next run may fail."""
    if not are_successes(np.abs(scores)):
        return float(deviation(scores))
    rate = (float(np.abs(scores).sum()) + 1) / (len(scores) + 2)
    return math.sqrt(rate * (1 - rate))


def _looks(last: int, alpha: float, old: int, paired: bool) -> Looks:
    seeds = list(planned(FIRST_SEEDS, last, factor=2.0))
    # A look that cannot reach its level would only spend it.
    while len(seeds) > 1 and (
        smallest_p(seeds[0], None if paired else old) > split(alpha, len(seeds))[0] / 2
    ):
        seeds.pop(0)
    shares = zip(seeds, split(alpha, len(seeds)), split(EARLY_MISSES, len(seeds)), strict=True)
    return Looks(itertools.starmap(Look, shares))


def _fewest(old: int | None, alpha: float) -> int:
    """Return the fewest new seeds that reach half the level: a second deal may be as bad."""
    return next(n for n in itertools.count(FIRST_SEEDS) if smallest_p(n, old) <= alpha / 2)


def _too_few(seeds: int, fewest: int, old: int, alpha: float, paired: bool) -> UserError:
    against = "paired seeds" if paired else f"seeds against {old} of the baseline"
    return UserError(
        f"too few seeds: {seeds} {against} could never show a loss at a false-alarm rate of "
        f"{alpha:.2g}; at least {fewest} are needed"
    )


def _power(seeds: int, old: int, loss: float, spread: float, level: float, paired: bool) -> float:
    """Return the power of a one-sided t-test at `level`; paired: of seeds unrelated at worst.

    Variances are equal. An average over baselines: `spread` s is estimated from `old` seeds, so
    that s²/σ² is chi-squared over its degrees of freedom. The same s is part
    of the test's own error where that is pooled, which is why a baseline that looks calm by chance
    makes up for some of what it promises too much.
    """
    if not spread > 0:
        return 1.0
    ratio, weight = _variances(old - 1)
    new, new_weight = _variances(seeds - 1)
    if paired:
        freedom, error = seeds - 1, math.sqrt(2 / seeds)
        variance = np.broadcast_to(new, (len(ratio), len(new)))
    else:
        freedom, error = seeds + old - 2, math.sqrt(1 / seeds + 1 / old)
        variance = ((old - 1) * ratio[:, None] + (seeds - 1) * new) / freedom
    shift = loss / spread * np.sqrt(ratio) / error
    caught = normal_cdf(shift[:, None] + student_quantile(freedom, level) * np.sqrt(variance))
    return float(weight @ caught @ new_weight)


@lru_cache(maxsize=4096)
def _variances(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return values of s²/σ² and their weights: Gauss-Legendre points on its quantiles."""
    points, weights = np.polynomial.legendre.leggauss(64)
    return chi_squared_quantile(freedom, (points + 1) / 2) / freedom, weights / 2


def _lucky(seeds: int, old: int, level: float) -> float:
    """Return the false-alarm rate against a baseline `LUCK` standard errors above its own mean.

    `seeds` new ones are compared with `old`, at `level`; the variance is known.
    """
    ratio = seeds / old
    reach = LUCK * math.sqrt(ratio) + normal_quantile(level) * math.sqrt(1 + ratio)
    return float(normal_cdf(reach))


def _needed(power: Callable[[int, float], float], effect: float, fewest: int) -> int | None:
    if power(MOST_NEEDED, effect) < POWER:
        return None
    seeds = range(MOST_NEEDED)
    return bisect_left(seeds, POWER, fewest, key=lambda number: power(number, effect))


def _caught(power: Callable[[float], float], spread: float) -> float:
    """Return the smallest loss with enough power, to three digits."""
    if not spread > 0:
        return 0.0
    high = 2.0 ** math.frexp(spread)[1]
    while power(high / 2) >= POWER:
        high /= 2
    while power(high) < POWER:
        high *= 2
    low = high / 2
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high

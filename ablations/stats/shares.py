"""Shares of a gap: the Shapley value of each detail, over sampled orders.

Every seed switches the details one after another in a random order of its own, and in the reverse
of it (Mitchell et al. 2022, "Sampling permutations for Shapley value estimation": antithetic pairs
cancel the effect of the position for pairwise interactions). A detail's marginal effect in an order
is the score after it is switched minus the score before; its share is the mean over the orders.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ablations.stats.differences import Difference, of_differences, rounding_of
from ablations.stats.summaries import LEVEL, Floats


@dataclass(frozen=True)
class Attribution:
    """A gap and what each detail has of it, over seeds.

    shares: of each detail. alone: what it does alone at the start. removed: what its removal takes
    from the end (with the sign of its being there). interactions: the difference of the last two, a
    detail's interaction with all others.
    """

    gap: Difference
    shares: tuple[Difference, ...]
    alone: tuple[Difference, ...]
    removed: tuple[Difference, ...]
    interactions: tuple[Difference, ...]


def shares(orders: ArrayLike, along: ArrayLike, back: ArrayLike) -> Floats:
    """Compute the mean marginal effect of each detail in each seed's two orders: `[n, d]`.

    orders `[n, d]`: the details, 0 to d - 1, as a seed switches them. along, back `[n, d + 1]`:
    scores after 0, 1, ..., d details are switched, in that order and in the reverse of it. A row
    sums to its seed's gap, along[:, d] - along[:, 0].
    """
    ways = np.asarray(orders, np.intp)
    gained = np.zeros(ways.shape)
    for way, scores in ((ways, along), (ways[:, ::-1], back)):
        steps = np.diff(np.asarray(scores, np.float64), axis=1)
        gained += np.take_along_axis(steps, np.argsort(way, axis=1), axis=1) / 2
    return gained


def attribution(
    orders: ArrayLike,
    along: ArrayLike,
    back: ArrayLike,
    alone: ArrayLike,
    without: ArrayLike,
    comparisons: int | None = None,
) -> Attribution:
    """Judge the mean over seeds of `shares`, and the effects at the start and the end.

    alone, without `[n, d]`: the score with one detail switched, and with all but one. comparisons:
    how many share the 5% that intervals miss, the details by default: the intervals of the shares
    hold at once, likewise those of each of the other three; that of the gap has its own 5%.
    """
    forth = np.asarray(along, np.float64)
    start, end = forth[:, :1], forth[:, -1:]
    first = np.asarray(alone, np.float64) - start
    last = end - np.asarray(without, np.float64)
    level = LEVEL / max(1, comparisons or forth.shape[1] - 1)
    rounding = rounding_of(along, back, alone, without)

    def judged(effects: Floats) -> tuple[Difference, ...]:
        return tuple(of_differences(column, level, rounding) for column in effects.T)

    return Attribution(
        of_differences((end - start)[:, 0], LEVEL, rounding),
        judged(shares(orders, along, back)),
        judged(first),
        judged(last),
        judged(last - first),
    )

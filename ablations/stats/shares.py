"""Shares of a gap: the Shapley value of each detail, over sampled orders.

Each seed switches the details one after another in its own random order, and in the reverse order
(Mitchell et al. 2022, "Sampling permutations for Shapley value estimation": antithetic pairs cancel
the effect of the position for pairwise interactions). The marginal effect of a detail is the score
after its switch minus the score before; its share is the mean over orders.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ablations.stats.differences import Difference, of_differences, rounding_of
from ablations.stats.summaries import LEVEL, Floats


def shares(orders: ArrayLike, along: ArrayLike, back: ArrayLike) -> Floats:
    """Return the mean marginal effect of each detail over each seed's two orders `[n, d]`.

    A row sums to its seed's gap, along[:, d] - along[:, 0].

    Args:
        orders: `[n, d]`, the details 0 to d - 1 in the order in which a seed switches them.
        along: `[n, d + 1]`, scores after 0, 1, ..., d switches in this order.
        back: the same in the reverse order.
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
) -> tuple[Difference, dict[str, list[Difference]]]:
    """Return the gap and the effects of each detail, means over seeds with 95% intervals.

    `orders`, `along` and `back` are those of `shares`; `alone` and `without` `[n, d]` have the
    scores with one detail switched, and with all but one. The effects are "share", "alone" (the
    change when a detail is switched first), "removed" (switched last) and "interaction" (removed
    minus alone: with all other details). The intervals of one kind are simultaneous over
    `comparisons` (default: the number of details).
    """
    forth = np.asarray(along, np.float64)
    start, end = forth[:, :1], forth[:, -1:]
    first = np.asarray(alone, np.float64) - start
    last = end - np.asarray(without, np.float64)
    level = LEVEL / max(1, comparisons or forth.shape[1] - 1)
    rounding = rounding_of(along, back, alone, without)
    each = {
        **{"share": shares(orders, along, back), "alone": first},
        **{"removed": last, "interaction": last - first},
    }
    effects = {
        name: [of_differences(column, level, rounding) for column in columns.T]
        for name, columns in each.items()
    }
    return of_differences((end - start)[:, 0], LEVEL, rounding), effects

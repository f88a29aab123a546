"""Sample efficiency: how soon runs reach a threshold. Runs that never do are kept, as infinity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from ablations.report.statistics.summaries import LEVEL


@dataclass(frozen=True)
class StepsToThreshold:
    """n: runs. reached: how many got there. median, low, high: environment steps until a run does,
    with its 95% interval; infinite where too few do, None where n is too small to say.
    """

    n: int
    reached: int
    median: float | None = None
    low: float | None = None
    high: float | None = None


def steps_to_threshold(steps: ArrayLike, values: ArrayLike, threshold: float) -> float:
    """The first of `steps` `[n]` at which a curve `[n]` is at least `threshold`; infinity if none.

    Points without a value (NaN) do not count.
    """
    reached = np.flatnonzero(np.asarray(values, dtype=np.float64) >= threshold)
    return float(np.asarray(steps)[reached[0]]) if len(reached) else math.inf


def median_steps(steps: ArrayLike) -> StepsToThreshold:
    """Median over runs `[n]` of steps to a threshold, infinity allowed.

    The interval is between two order statistics, the innermost that hold the median with chance
    95% or more by the binomial: no assumption on the distribution. Below 6 runs there is none.
    """
    ordered = np.sort(np.asarray(steps, dtype=np.float64))
    n = len(ordered)
    reached = int(np.isfinite(ordered).sum())
    if n == 0:
        return StepsToThreshold(0, 0)
    left, right = ordered[(n - 1) // 2], ordered[n // 2]
    median = float(right if math.isinf(right) else (left + right) / 2)
    k = -1
    while bdtr(k + 1, n, 0.5) <= LEVEL / 2:
        k += 1
    if k < 0:
        return StepsToThreshold(n, reached, median)
    return StepsToThreshold(n, reached, median, float(ordered[k]), float(ordered[n - 1 - k]))

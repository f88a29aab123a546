"""Sample efficiency: how soon runs reach a threshold. Runs that never do are kept, as infinity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ablations.report.statistics.summaries import LEVEL


@dataclass(frozen=True)
class StepsToThreshold:
    """The share of runs that reach a threshold, and when.

    n: runs. reached: how many got there. median, low, high: environment steps until a run does,
    with its 95% interval; infinite where too few do, None where n is too small to say.
    """

    n: int
    reached: int
    median: float | None = None
    low: float | None = None
    high: float | None = None


def steps_to_threshold(steps: ArrayLike, values: ArrayLike, threshold: float) -> float:
    """Return the first of `steps` `[n]` from which on a curve `[n]` stays at `threshold`.

    The step that best splits the curve into a part below and a part above: with the least sum of
    (value - threshold) before it, each point weighted by the steps it ends. This is where the
    isotonic fit of the curve reaches the threshold (Robertson, Wright and Dykstra 1988), so noise
    moves it to both sides alike, while the first point above comes the earlier the noisier a curve
    is. Points without a value (NaN) do not count. Infinity if the curve never stays there.
    """
    rows = np.asarray(values, dtype=np.float64)
    seen = np.isfinite(rows)
    ends = np.asarray(steps, dtype=np.float64)[seen]
    above = np.diff(ends, prepend=0.0) * (rows[seen] - threshold)
    split = int(np.argmin(np.concatenate([[0.0], np.cumsum(above)])))
    return float(ends[split]) if split < len(ends) else math.inf


def median_steps(steps: ArrayLike) -> StepsToThreshold:
    """Compute the median over runs `[n]` of steps to a threshold, infinity allowed.

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
    while sum(math.comb(n, i) for i in range(k + 2)) / 2**n <= LEVEL / 2:
        k += 1
    if k < 0:
        return StepsToThreshold(n, reached, median)
    return StepsToThreshold(n, reached, median, float(ordered[k]), float(ordered[n - 1 - k]))

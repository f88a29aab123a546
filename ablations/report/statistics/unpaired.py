"""Differences between runs that share no seed: Welch's interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.report.statistics.paired import Comparison, rounding_of
from ablations.report.statistics.summaries import LEVEL, deviation, share_above


@dataclass(frozen=True)
class Moments:
    """The number, the mean and the sample standard deviation of runs."""

    n: int
    mean: float
    deviation: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Moments:
        """Summarize `[n]` scores, two or more."""
        return cls(len(values), float(values.mean()), float(deviation(values)))


def compare_unpaired(scores: ArrayLike, baseline: ArrayLike, level: float = LEVEL) -> Comparison:
    """Compare the means of two arrays `[n]` and `[m]` of independent runs (Welch 1947).

    With s² the sample variances, the interval is d ± t[f, 1-level/2] √(s₁²/n + s₂²/m), where
    f = (s₁²/n + s₂²/m)² / ((s₁²/n)²/(n-1) + (s₂²/m)²/(m-1)) (Satterthwaite). The comparison's n is
    the smaller of n and m, its deviation that of n paired differences with the same error. Fewer
    than two runs of either side, or runs that are all one number, tell no spread and have no
    interval. Where an end of it is too large for a float, nothing is said.
    """
    a, b = np.asarray(scores, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"unpaired scores are [n] and [m]: {a.shape} and {b.shape}")
    n = min(len(a), len(b))
    if n == 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return Comparison(n, level=level)
    if n == 1:
        return Comparison(n, float(a.mean() - b.mean()), level=level)
    with np.errstate(over="ignore"):  # what is infinite is not judged
        compared = welch(Moments.of(a), Moments.of(b), level, rounding_of(a, b))
    if compared.low is None or compared.high is None:
        return compared
    if not math.isfinite(compared.high - compared.low):
        return Comparison(n, level=level)
    return replace(compared, probability_of_improvement=share_above(a, b))


def welch(a: Moments, b: Moments, level: float = LEVEL, rounding: float = 0.0) -> Comparison:
    """Compare the means of two groups of runs, a - b, by their moments; see `compare_unpaired`.

    Args:
        a: of two runs or more.
        b: of two runs or more.
        level: of the interval.
        rounding: the error up to which all runs are one number.
    """
    n, difference = min(a.n, b.n), a.mean - b.mean
    errors = [side.deviation / math.sqrt(side.n) for side in (a, b)]
    error = math.hypot(*errors)
    if error <= rounding:
        alike = abs(difference) <= rounding
        return Comparison(
            n,
            0.0 if alike else difference,
            level=level,
            deviation=0.0,
            p=1.0 if alike else 0.5 ** (n - 1),
        )
    freedom = 1 / sum(
        (part / error) ** 4 / (side.n - 1) for part, side in zip(errors, (a, b), strict=True)
    )
    return Comparison.by_student(n, difference, error, freedom, level)

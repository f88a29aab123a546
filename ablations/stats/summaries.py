"""Statistics of one set of scores: means, rates, spreads and times, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

LEVEL = 0.05
NAN = math.nan


@dataclass(frozen=True)
class Estimate:
    """A number with its confidence interval; NaN with too few runs.

    Scores `[..., n]` give arrays `[...]`.
    """

    value: Any
    low: Any = NAN
    high: Any = NAN


def student(freedom: float, level: float) -> float:
    """Return the two-sided quantile of Student's t: |T| exceeds it with probability `level`."""
    return -float(special.stdtrit(freedom, level / 2))


def bisect(outside: Callable[[float], bool], out: float, inside: float) -> tuple[float, float]:
    """Bisect 60 times between a number outside a set and a number inside; return both."""
    for _ in range(60):
        middle = (out + inside) / 2
        out, inside = (middle, inside) if outside(middle) else (out, middle)
    return out, inside


@np.errstate(over="ignore", invalid="ignore")
def deviation(values: ArrayLike) -> Any:
    """Return the sample standard deviation over the last axis."""
    return np.std(np.asarray(values, np.float64), axis=-1, ddof=1)


def mean(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the mean over the last axis with Student's interval."""
    rows = np.asarray(scores, np.float64)
    n = rows.shape[-1]
    if n < 2:
        return between(rows[..., 0] if n else np.full(rows.shape[:-1], NAN), NAN)
    return between(rows.mean(axis=-1), student(n - 1, level) * deviation(rows) / math.sqrt(n))


def rate(successes: int, n: int, level: float = LEVEL) -> Estimate:
    """Return a success rate with its exact interval (Clopper and Pearson 1934).

    Without trials the rate is NaN and the interval 0 to 1. `rate(0, n).high` bounds the share of
    seeds that differ if n pairs of runs are equal.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials")
    failures = n - successes
    low = special.betaincinv(successes, failures + 1, level / 2) if successes else 0.0
    high = special.betaincinv(successes + 1, failures, 1 - level / 2) if failures else 1.0
    return Estimate(successes / n if n else NAN, float(low), float(high))


def median_time(times: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the median of times `[n]`, which are infinite for runs that never get there.

    The interval lies between two order statistics: the innermost pair that contains the median with
    a probability of at least 1 - level (binomial). Fewer than 6 runs have no 95% interval.
    """
    ordered = np.sort(np.asarray(times, np.float64))
    n = len(ordered)
    if n == 0:
        return Estimate(NAN)
    left, right = float(ordered[(n - 1) // 2]), float(ordered[n // 2])
    center = right if math.isinf(right) else (left + right) / 2
    k = -1
    while special.bdtr(k + 1, n, 0.5) <= level / 2:
        k += 1
    return Estimate(center, *map(float, (ordered[k], ordered[n - 1 - k]) if k >= 0 else (NAN, NAN)))


def steps_to(steps: ArrayLike, values: ArrayLike, threshold: float) -> float:
    """Return the first of `steps` `[n]` from which a curve `[n]` stays at `threshold`, or inf.

    This is the step at which the isotonic fit of the curve reaches the threshold (Robertson, Wright
    and Dykstra 1988), with points weighted by the steps before them: the split with the smallest
    sum of (value - threshold) before it. The first point above the threshold would be earlier for a
    noisier curve. Points without a value (NaN) are ignored.
    """
    rows = np.asarray(values, np.float64)
    logged = np.isfinite(rows)
    ends = np.asarray(steps, np.float64)[logged]
    above = np.diff(ends, prepend=0.0) * (rows[logged] - threshold)
    split = int(np.argmin(np.concatenate([[0.0], np.cumsum(above)])))
    return float(ends[split]) if split < len(ends) else math.inf


def fisher_p(events: tuple[int, int], trials: tuple[int, int]) -> float:
    """Return Fisher's exact two-sided p for numbers of events in two groups of trials.

    It is the probability of all tables with the same sums that are at most as likely as this one.
    """
    total, several = sum(trials), sum(events)
    counts = range(max(0, several - trials[1]), min(several, trials[0]) + 1)
    ways = {k: math.comb(trials[0], k) * math.comb(trials[1], several - k) for k in counts}
    return sum(n for n in ways.values() if n <= ways[events[0]]) / math.comb(total, several)


def estimate(value: Any, low: Any, high: Any) -> Estimate:
    """Return an estimate; arrays without axes become numbers."""
    return Estimate(*(np.asarray(each)[()] for each in (value, low, high)))


def between(center: Any, reach: Any) -> Estimate:
    """Return an estimate with the interval center ± reach; NaN: no interval."""
    return estimate(center, center - reach, center + reach)

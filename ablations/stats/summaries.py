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
    """A number with the ends of its confidence interval, NaN where too few runs give one.

    Each is an array `[...]` where the scores were `[..., n]`.
    """

    value: Any
    low: Any = NAN
    high: Any = NAN


def student(freedom: float, level: float) -> float:
    """Return the t that |T| exceeds with the chance `level`, for Student's T."""
    return -float(special.stdtrit(freedom, level / 2))


def bisect(outside: Callable[[float], bool], out: float, inside: float) -> tuple[float, float]:
    """Halve the way between a number outside of a set and one inside 60 times; return both."""
    for _ in range(60):
        middle = (out + inside) / 2
        out, inside = (middle, inside) if outside(middle) else (out, middle)
    return out, inside


def scale_of(*arrays: Floats) -> float:
    """Return a power of two near the largest size: dividing by it changes no digit.

    Squares of numbers near the largest or the smallest float are not floats.
    """
    largest = max(float(np.max(np.abs(array), initial=0.0)) for array in arrays)
    return math.ldexp(1.0, max(math.frexp(largest)[1] - 1, -1074))


def deviation(values: ArrayLike) -> Any:
    """Return the sample standard deviation over the last axis, `[..., n]` to `[...]`."""
    rows = np.asarray(values, np.float64)
    scale = scale_of(rows)
    return (rows / scale).std(axis=-1, ddof=1) * scale


def mean(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the mean over the last axis with Student's interval."""
    rows = np.asarray(scores, np.float64)
    n = rows.shape[-1]
    if n < 2:
        return _of_few(rows)
    return between(rows.mean(axis=-1), student(n - 1, level) * deviation(rows) / math.sqrt(n))


def rate(successes: int, n: int, level: float = LEVEL) -> Estimate:
    """Return a success rate with its exact interval (Clopper and Pearson 1934).

    Of no trials the rate is NaN, between 0 and 1. `rate(0, n).high` bounds the share of seeds that
    differ where n pairs of runs are all equal.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials")
    failures = n - successes
    low = special.betaincinv(successes, failures + 1, level / 2) if successes else 0.0
    high = special.betaincinv(successes + 1, failures, 1 - level / 2) if failures else 1.0
    return Estimate(successes / n if n else NAN, float(low), float(high))


def worst_quarter(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the mean of the lowest ceil(n / 4) scores over the last axis, with its interval.

    Its variance is that of a conditional tail expectation (Manistre and Hancock 2005, "Variance of
    the CTE estimator"): with k scores in the tail, which ends at q, the variance of
    min(x - q, 0) n / k, over n. Student's t has the k - 1 degrees of freedom of the tail. There is
    no interval where the tail has fewer than two scores.
    """
    ordered = np.sort(np.asarray(scores, np.float64), axis=-1)
    n = ordered.shape[-1]
    k = -(-n // 4)
    if k < 2:
        return _of_few(ordered[..., :k])
    end = ordered[..., k - 1 : k + 1].mean(axis=-1, keepdims=True)
    error = deviation(np.minimum(ordered - end, 0.0)) * math.sqrt(n) / k
    return between(ordered[..., :k].mean(axis=-1), student(k - 1, level) * error)


def median_time(times: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the median of times `[n]`, infinite where a run never gets there.

    The interval lies between two order statistics, the innermost that hold the median with a chance
    of 1 - level or more by the binomial distribution. Below 6 runs there is none at 95%.
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
    """Return the first of `steps` `[n]` from which on a curve `[n]` stays at `threshold`, or inf.

    Where the isotonic fit of the curve reaches the threshold (Robertson, Wright and Dykstra 1988),
    each point weighted by the steps that it ends: the split with the least sum of
    (value - threshold) before it. The first point above would come the earlier the noisier a curve
    is. Points without a value (NaN) do not count.
    """
    rows = np.asarray(values, np.float64)
    logged = np.isfinite(rows)
    ends = np.asarray(steps, np.float64)[logged]
    above = np.diff(ends, prepend=0.0) * (rows[logged] - threshold)
    split = int(np.argmin(np.concatenate([[0.0], np.cumsum(above)])))
    return float(ends[split]) if split < len(ends) else math.inf


def fisher_p(events: tuple[int, int], trials: tuple[int, int]) -> float:
    """Return Fisher's exact p, two-sided, for numbers of events in two groups of trials.

    The share of the tables with the same sums that are no likelier than this one.
    """
    total, several = sum(trials), sum(events)
    counts = range(max(0, several - trials[1]), min(several, trials[0]) + 1)
    ways = {k: math.comb(trials[0], k) * math.comb(trials[1], several - k) for k in counts}
    return sum(n for n in ways.values() if n <= ways[events[0]]) / math.comb(total, several)


def estimate(value: Any, low: Any, high: Any) -> Estimate:
    """Return an estimate of numbers or arrays; arrays without axes become numbers."""
    return Estimate(*(np.asarray(each)[()] for each in (value, low, high)))


def between(center: Any, reach: Any) -> Estimate:
    """Return an estimate with the interval center ± reach; NaN: none."""
    return estimate(center, center - reach, center + reach)


def _of_few(rows: Floats) -> Estimate:
    return between(rows[..., 0] if rows.shape[-1] else np.full(rows.shape[:-1], NAN), NAN)

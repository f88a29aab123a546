"""Statistics of one set of scores: means, rates, spreads and times, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

LEVEL = 0.05
REPLICATES = 10_000
NAN = math.nan
_SEED = 20261
_ROWS_AT_ONCE = 128


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
        return _without_interval(rows)
    return _between(rows.mean(axis=-1), student(n - 1, level) * deviation(rows) / math.sqrt(n))


def rate(successes: int, n: int, level: float = LEVEL) -> Estimate:
    """Return a success rate with its exact interval (Clopper and Pearson 1934).

    Without trials the rate is NaN and lies between 0 and 1.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials")
    failures = n - successes
    low = special.betaincinv(successes, failures + 1, level / 2) if successes else 0.0
    high = special.betaincinv(successes + 1, failures, 1 - level / 2) if failures else 1.0
    return Estimate(successes / n if n else NAN, float(low), float(high))


def iqm_of(scores: Floats) -> Any:
    """Return the interquartile mean over the last axis, `[..., n]` to `[...]`.

    It drops floor(n / 4) scores at each end, as scipy's trim_mean at 0.25 and rliable do.
    """
    n = scores.shape[-1]
    drop = n // 4
    ordered = np.sort(scores, axis=-1)[..., drop : n - drop]
    # Rounding must not move the mean of equal scores.
    return np.clip(ordered.mean(axis=-1), ordered[..., 0], ordered[..., -1])


def iqm(scores: ArrayLike, level: float = LEVEL, replicates: int = REPLICATES) -> Estimate:
    """Return the interquartile mean over the last axis with its bootstrap interval.

    Percentile bootstrap at levels Phi(-t) and Phi(t), t Student's quantile with n - 1 degrees of
    freedom. Fewer than 5 scores bound what a bootstrap can reach: there it is IQM ± t s / sqrt(n).
    """
    rows = np.asarray(scores, np.float64)
    n = rows.shape[-1]
    if n < 2:
        return _without_interval(rows)
    if n < 5:
        return _between(iqm_of(rows), student(n - 1, level) * deviation(rows) / math.sqrt(n))
    ordered = np.sort(rows, axis=-1)
    ends = _bootstrap(ordered, "iqm", level, replicates)
    low, high = np.clip(ends, ordered[..., 0], ordered[..., -1])
    return _estimate(iqm_of(rows), low, high)


def iqr(scores: ArrayLike, level: float = LEVEL, replicates: int = REPLICATES) -> Estimate:
    """Return the interquartile range over the last axis with its bootstrap interval.

    The quartiles are those of `numpy.quantile`. Fewer than 8 scores have no interval.
    """
    ordered = np.sort(np.asarray(scores, np.float64), axis=-1)
    n = ordered.shape[-1]
    nothing = np.full(ordered.shape[:-1], NAN)
    if n == 0:
        return _estimate(nothing, nothing, nothing)
    largest = ordered[..., -1] - ordered[..., 0]
    value = np.clip(ordered @ _ORDER_WEIGHTS["iqr"](n), 0.0, largest)
    if n < 8:
        return _estimate(value, nothing, nothing)
    low, high = np.clip(_bootstrap(ordered, "iqr", level, replicates), 0.0, largest)
    return _estimate(value, low, high)


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
        return _without_interval(ordered[..., :k])
    end = ordered[..., k - 1 : k + 1].mean(axis=-1, keepdims=True)
    error = deviation(np.minimum(ordered - end, 0.0)) * math.sqrt(n) / k
    return _between(ordered[..., :k].mean(axis=-1), student(k - 1, level) * error)


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
    """Return the first of `steps` `[n]` from which on a curve `[n]` stays at `threshold`.

    This is where the isotonic fit of the curve reaches the threshold (Robertson, Wright and Dykstra
    1988), each point weighted by the steps that it ends: the split with the least sum of
    (value - threshold) before it. The first point above the threshold would come the earlier the
    noisier a curve is. Points without a value (NaN) do not count. Infinite if never.
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


def most_differing(n: int, level: float = LEVEL) -> float:
    """Return the largest share of seeds that may differ where n pairs of runs were all equal."""
    return float(1 - (level / 2) ** (1 / n))


@lru_cache(maxsize=32)
def draws(n: int, replicates: int, task: int = 0) -> NDArray[np.intp]:
    """Draw the runs of a task for each bootstrap sample, `[replicates, n]`, each row sorted.

    A bootstrap sample of sorted scores, sorted, is the scores at sorted indices.
    """
    random = np.random.default_rng([_SEED, n, task] if task else [_SEED, n])
    return np.sort(random.integers(0, n, (replicates, n)), axis=-1)


def drawn_weights(index: NDArray[np.intp], weights: Floats) -> Floats:
    """Return `[replicates, n]`: the weight with which each score enters each bootstrap sample.

    index: as of `draws`. weights `[n]`: of the sorted scores of a sample.
    """
    flat = index + index.shape[1] * np.arange(len(index))[:, None]
    each = np.broadcast_to(weights, index.shape).ravel()
    drawn: Floats = np.bincount(flat.ravel(), each, index.size).astype(np.float64)
    return drawn.reshape(index.shape)


def _iqm_weights(n: int) -> Floats:
    drop = n // 4
    weights = np.zeros(n)
    weights[drop : n - drop] = 1 / (n - 2 * drop)
    return weights


def _iqr_weights(n: int) -> Floats:
    weights = np.zeros(n)
    for share, sign in ((0.75, 1), (0.25, -1)):
        below, part = divmod(share * (n - 1), 1)
        weights[int(below)] += sign * (1 - part)
        weights[min(int(below) + 1, n - 1)] += sign * part
    return weights


# Statistic = weights times sorted scores.
_ORDER_WEIGHTS: Mapping[str, Callable[[int], Floats]] = {"iqm": _iqm_weights, "iqr": _iqr_weights}


@lru_cache(maxsize=64)
def _matrix(n: int, statistic: str, replicates: int) -> Floats:
    """Return `[n, replicates]`: sorted scores times it is the statistic of each bootstrap sample.

    Resampling and sorting are done once for all scores of one length.
    """
    return drawn_weights(draws(n, replicates), _ORDER_WEIGHTS[statistic](n)).T


def _bootstrap(ordered: Floats, statistic: str, level: float, replicates: int) -> Floats:
    """Return the ends of the interval, `[2, ...]`, of sorted scores `[..., n]`."""
    n = ordered.shape[-1]
    tail = float(special.ndtr(-student(n - 1, level)))
    matrix, rows = _matrix(n, statistic, replicates), ordered.reshape(-1, n)
    blocks = (rows[at : at + _ROWS_AT_ONCE] for at in range(0, len(rows), _ROWS_AT_ONCE))
    ends = [np.quantile(block @ matrix, (tail, 1 - tail), axis=-1) for block in blocks]
    return np.concatenate(ends, axis=1).reshape(2, *ordered.shape[:-1])


def _estimate(value: Any, low: Any, high: Any) -> Estimate:
    """Return an estimate of numbers or arrays; arrays without axes become numbers."""
    return Estimate(*(np.asarray(each)[()] for each in (value, low, high)))


def _between(center: Any, reach: Any) -> Estimate:
    return _estimate(center, center - reach, center + reach)


def _without_interval(rows: Floats) -> Estimate:
    nothing = np.full(rows.shape[:-1], NAN)
    return _estimate(rows[..., 0] if rows.shape[-1] else nothing, nothing, nothing)

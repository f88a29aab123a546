"""Summaries of scores in one number, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.distributions import normal_cdf, student_quantile

Statistic = Literal["iqm", "mean", "median", "iqr"]
Floats = NDArray[np.float64]

LEVEL = 0.05
REPLICATES = 10_000
SEED = 20261
# Scores, for a bootstrap.
FEWEST: Mapping[Statistic, int] = {"iqm": 5, "median": 5, "mean": 7, "iqr": 8}

_ROWS_AT_ONCE = 128
_DRAWS_AT_ONCE = 2**17  # fits a cache


def share_above(ours: Floats, theirs: Floats) -> float:
    """Return the share of pairs of `[n]` and `[m]` in which ours is larger; ties count half."""
    return float(np.mean(np.sign(ours[:, None] - theirs[None, :]) / 2 + 0.5))


def deviation(values: ArrayLike) -> Floats:
    """Return the sample standard deviation over the last axis, `[..., n]` -> `[...]`.

    Also of numbers so large or so small that their squares are no floats.
    """
    rows = np.asarray(values, dtype=np.float64)
    power = powers(rows)
    return np.asarray(np.ldexp(np.ldexp(rows, -power[..., None]).std(axis=-1, ddof=1), power))


def powers(values: ArrayLike) -> NDArray[np.int32]:
    """Return the power of two just above all sizes along the last axis: `[..., n]` -> `[...]`."""
    return np.asarray(np.frexp(np.abs(np.asarray(values, np.float64)).max(axis=-1))[1])


def order_weights(n: int, statistic: Statistic = "iqm") -> Floats:
    """Weights `[n]` of the sorted scores: statistic = sum of weights * sorted scores.

    The IQM drops floor(n / 4) scores at each end and averages the rest (scipy's trim_mean at 0.25,
    which is what rliable reports). The interquartile range is between quartiles as `numpy.quantile`
    interpolates them.
    """
    weights = np.zeros(n)
    if statistic == "iqr":
        for share, sign in ((0.75, 1), (0.25, -1)):
            below, part = divmod(share * (n - 1), 1)
            weights[int(below)] += sign * (1 - part)
            weights[min(int(below) + 1, n - 1)] += sign * part
        return weights
    drop = {"mean": 0, "iqm": n // 4, "median": (n - 1) // 2}[statistic]
    weights[drop : n - drop] = 1.0 / (n - 2 * drop)
    return weights


def summary(scores: ArrayLike, statistic: Statistic = "iqm") -> Floats:
    """Compute a statistic over the last axis: `[..., n]` -> `[...]`; NaN of no scores."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    n = ordered.shape[-1]
    if n == 0:
        return np.full(ordered.shape[:-1], np.nan)
    return np.clip(ordered @ order_weights(n, statistic), *_ends(ordered, statistic))


def _ends(ordered: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
    """Return what no statistic of sorted scores `[..., n]` is beyond, but for rounding."""
    low, high = ordered[..., 0], ordered[..., -1]
    return (np.zeros_like(low), high - low) if statistic == "iqr" else (low, high)


def iqm(scores: ArrayLike) -> Floats:
    """Compute the interquartile mean over the last axis: `[..., n]` -> `[...]`."""
    return summary(scores, "iqm")


@lru_cache(maxsize=64)
def _resampled_weights(n: int, statistic: Statistic, replicates: int) -> Floats:
    """`[replicates, n]`: sorted scores times a row is the statistic of one bootstrap sample.

    A bootstrap sample of sorted scores, sorted, is the scores at sorted indices. So the resampling
    and the sorting are done once for all data of one length, and a replicate is one row of a matrix
    product.
    """
    draws = np.random.default_rng([SEED, n])
    weights = order_weights(n, statistic)
    used = np.flatnonzero(weights)
    sums = np.concatenate([[0.0], np.cumsum(np.full(n, weights[0]))])
    resampled = np.empty((replicates, n))
    for start in range(0, replicates, rows := max(1, _DRAWS_AT_ONCE // n)):
        block = resampled[start : start + rows]
        index = draws.integers(0, n, block.shape)
        offsets = n * np.arange(len(block))[:, None]
        if statistic == "mean":  # each draw weighs the same, in whichever order
            flat = (index + offsets).ravel()
            block[:] = sums[np.bincount(flat, minlength=block.size)].reshape(block.shape)
            continue
        if n <= 2**16:  # NumPy sorts numbers of 16 bits by their digits, in a third of the time
            index = index.astype(np.uint16)
        flat = (np.sort(index, axis=-1, kind="stable")[:, used] + offsets).ravel()
        each = np.tile(weights[used], len(block))
        block[:] = np.bincount(flat, each, block.size).reshape(block.shape)
    return resampled


def interval(
    scores: ArrayLike,
    statistic: Statistic = "iqm",
    *,
    level: float = LEVEL,
    replicates: int = REPLICATES,
) -> tuple[Floats, Floats]:
    """Return the (1 - level) interval over the last axis: `[..., n]` -> low, high `[...]`.

    Percentile bootstrap at levels Phi(-q) and Phi(q), q the Student quantile with n - 1 degrees of
    freedom (times sqrt(n / (n - 1)) for the mean). Few scores bound what a bootstrap can reach: of
    fewer than `FEWEST` it is statistic +- q * s / sqrt(n), but of the IQR NaN. One score has no
    interval: NaN. The order of the scores is irrelevant.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    n = ordered.shape[-1]
    if n < 2 or (statistic == "iqr" and n < FEWEST["iqr"]):
        nothing = np.full(ordered.shape[:-1], np.nan)
        return nothing, nothing.copy()
    quantile = -student_quantile(n - 1, level / 2)
    if n < FEWEST[statistic]:
        reach = quantile * deviation(ordered) / np.sqrt(n)
        center = summary(ordered, statistic)
        return center - reach, center + reach
    if statistic == "mean":
        quantile *= float(np.sqrt(n / (n - 1)))
    tail = float(normal_cdf(-quantile))
    weights = _resampled_weights(n, statistic, replicates).T
    rows = ordered.reshape(-1, n)
    bounds = np.empty((2, len(rows)))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        bounds[:, start : start + len(block)] = np.quantile(
            block @ weights, (tail, 1 - tail), axis=-1
        )
    # Rounding in the matrix product must not give identical scores a width.
    bounds = np.clip(bounds, *_ends(rows, statistic)).reshape(2, *ordered.shape[:-1])
    return bounds[0], bounds[1]


def worst_quarter(scores: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Compute the mean of the lowest ceil(n / 4) scores: `[..., n]` -> it, low, high `[...]`.

    The variance is that of a conditional tail expectation (Manistre and Hancock 2005, "Variance of
    the CTE estimator"): that of the tail, and of where it ends, `q`; with k scores in it that of
    min(x - q, 0) n / k, over n. Student's t has the k - 1 degrees of the tail, which alone tell its
    spread. NaN where it has fewer than two scores.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    n = ordered.shape[-1]
    k = -(-n // 4)
    if k < 2:
        mean = ordered[..., 0] if n else np.full(ordered.shape[:-1], np.nan)
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    mean = ordered[..., :k].mean(axis=-1)
    end = ordered[..., k - 1 : k + 1].mean(axis=-1, keepdims=True)
    error = deviation(np.minimum(ordered - end, 0.0)) * math.sqrt(n) / k
    reach = -student_quantile(k - 1, LEVEL / 2) * error
    return mean, mean - reach, mean + reach

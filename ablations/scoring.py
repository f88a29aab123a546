"""Scores of a learning curve, and the learned range of a baseline.

A score maps the steps and the values of a curve to one number. The learned range is the unit of
margins, normalised scores and effects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.curve import Curve, Steps, on_common_steps
from ablations.stats import summaries

Floats = NDArray[np.float64]
Score = Callable[[ArrayLike, ArrayLike], float]

LAST = 3  # evaluations in the score "last"
NOISE_LEVEL = 0.005
LEAD = 5.0  # standard deviations between seeds by which a baseline must exceed untrained policies
PROGRESS = 0.5  # smallest share of the way from untrained policies to the best score
AT_CEILING = 0.2  # largest share of seeds at a ceiling
NO_RANGE = (math.nan, math.nan)


def final(steps: ArrayLike, values: ArrayLike) -> float:
    """Compute the mean over the last tenth of training.

    Points `[n]` without a value (NaN: no episode finished) are ignored; NaN without any value.
    """
    ends, numbers = _points(steps, values)
    last_step = ends.max(initial=0)
    # Integers avoid the rounding of 0.9 * step.
    numbers = numbers[(10 * ends > 9 * last_step) | (ends == last_step)]
    return _mean_of_known(numbers)


def auc(steps: ArrayLike, values: ArrayLike) -> float:
    """Compute the area under the curve `[n]` divided by its steps: a mean over training.

    It uses trapezoids between points with a finite value. The first value is extended to step 0 and
    the last one to the end. NaN without any value.
    """
    ends, numbers = _points(steps, values)
    known = np.isfinite(numbers)
    if not known.any():
        return math.nan
    total = ends[-1]
    if not total:
        return final(steps, values)
    x = np.concatenate([[0], ends[known], [total]]).astype(np.float64)
    y = np.concatenate([numbers[known][:1], numbers[known], numbers[known][-1:]])
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2) / total)


def last(steps: ArrayLike, values: ArrayLike) -> float:
    """Compute the mean of the last `LAST` points `[n]` with a value; NaN with fewer."""
    numbers = _points(steps, values)[1]
    numbers = numbers[~np.isnan(numbers)]
    return float(numbers[-LAST:].mean()) if len(numbers) >= LAST else math.nan


def mean(steps: ArrayLike, values: ArrayLike) -> float:
    """Compute the mean of all points `[n]` with a value; NaN if none has one."""
    return _mean_of_known(_points(steps, values)[1])


SCORES: Mapping[str, Score] = {"final": final, "auc": auc, "last": last, "mean": mean}


def smoothed(steps: ArrayLike, values: ArrayLike) -> Floats:
    """Return means over the tenth of training that ends at each point, in the shape of `values`.

    `values` are `[points]` or `[seeds, points]`; NaN is ignored. A mean is NaN if its tenth has no
    value. The last point is the score "final".
    """
    ends, rows = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    known = np.isfinite(rows)
    zero = np.zeros((*rows.shape[:-1], 1))
    sums = np.concatenate([zero, np.cumsum(np.where(known, rows, 0.0), axis=-1)], axis=-1)
    counts = np.concatenate([zero, np.cumsum(known, axis=-1)], axis=-1)
    before = np.searchsorted(10 * ends, 10 * ends - ends[-1:], side="right")
    after = np.arange(1, len(ends) + 1)
    with np.errstate(invalid="ignore"):
        return np.asarray(
            (sums[..., after] - sums[..., before]) / (counts[..., after] - counts[..., before])
        )


def smoothed_together(curves: Sequence[Curve]) -> tuple[Steps, Floats]:
    """Return smoothed curves at common steps `[n]`: values `[curves, n]`."""
    return on_common_steps([replace(c, values=smoothed(c.steps, c.values)) for c in curves])


def learned_range(seeds: Sequence[Curve]) -> tuple[float, float]:
    """Return the lowest and the highest point of the mean of a variant's smoothed curves.

    It uses steps at which at least half of the seeds have a value. It is NaN with fewer than two
    seeds, and if the range is within the noise. The test: for each seed, take the steps at which
    the mean of the other seeds is lowest and highest; the seed's curve must increase between them
    (Student's t over seeds, at 0.5%). In simulations, random walks pass in at most 4% of cases with
    up to 8 seeds, and in 6% with 20.
    """
    if len(seeds) < 2:
        return NO_RANGE
    _, curves = smoothed_together(seeds)
    counts = np.sum(np.isfinite(curves), axis=0)
    kept = (2 * counts >= len(curves)) & (counts > 0)
    curves, counts = curves[:, kept], counts[kept]
    if curves.shape[1] < 2:
        return NO_RANGE
    average = np.nanmean(curves, axis=0)
    low, high = float(average.min()), float(average.max())
    # A range within the rounding error of the largest number is no range.
    rows = np.concatenate([curve.values for curve in seeds])
    largest = float(np.max(np.abs(rows[np.isfinite(rows)]), initial=0.0))
    if not 1e-9 * largest < high - low < math.inf:
        return NO_RANGE
    sums, climbs = np.where(np.isfinite(curves), curves, 0.0).sum(axis=0), []
    for curve in curves:
        usable = np.isfinite(curve) & (counts > 1)
        if usable.sum() > 1:
            own = curve[usable]
            others = (sums[usable] - own) / (counts[usable] - 1)
            climbs.append(own[np.argmax(others)] - own[np.argmin(others)])
    climb = summaries.mean(climbs, 2 * NOISE_LEVEL)
    return (low, high) if climb.low > 1e-12 * (high - low) else NO_RANGE


def beyond_untrained(floor: float, scores: Sequence[float]) -> tuple[float, float]:
    """Return the range from `floor`, the best untrained policy's score, to a baseline's mean score.

    NaN if the mean is less than `LEAD` standard deviations between seeds above the floor, or with
    fewer than two scores.
    """
    if len(scores) < 2:
        return NO_RANGE
    average, spread = float(np.mean(scores)), float(summaries.deviation(scores))
    lead = average - floor
    return (floor, average) if lead > 0 and lead >= LEAD * spread else NO_RANGE


def _mean_of_known(numbers: Floats) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if len(known) else math.nan


def _points(steps: ArrayLike, values: ArrayLike) -> tuple[NDArray[np.int64], Floats]:
    return np.asarray(steps, dtype=np.int64), np.asarray(values, dtype=np.float64)

"""When a gate ends early: the probability that a later stage passes a useful change.

This is conditional power: the probability for an assumed true difference, averaged over the σ that
the existing runs allow, σ² = squares / χ²[n-1]. The mean of k further runs is N(truth, σ²/k) and
their sum of squares is σ² χ²[k-1]. Together with the existing runs they give the t interval of the
later stage (paired, or Welch's).

An early end never passes a change, so the rates of false passes and false alarms do not grow. It
costs power: a test with a miss probability of β that ends where its conditional power is below γ
misses with a probability of at most β / (1 - γ) (Lan, Simon and Halperin 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.stats import Floats, student
from ablations.stats.interim import Stage

PATHS = 1000
Bounds = tuple[Floats, Floats]  # lower and upper ends of a later stage's intervals `[..., paths]`


@dataclass(frozen=True)
class Sample:
    """The number of values, their mean `[...]` and the sum of squares around it `[...]`."""

    n: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, values: ArrayLike) -> Sample:
        """Summarize values `[..., n]`."""
        array = np.asarray(values, np.float64)
        mean = array.mean(axis=-1)
        return cls(array.shape[-1], mean, ((array - mean[..., None]) ** 2).sum(axis=-1))


def chance_to_pass(
    sides: Sequence[Sample],
    margin: ArrayLike,
    below: Sequence[Stage],
    above: Sequence[Stage],
    *,
    better: bool,
) -> Floats:
    """Return the probability `[...]` that a later stage decides about a useful change.

    With `better`: the probability that a gain of the margin passes. Otherwise the larger of two
    probabilities: a change without effect passes; a change whose true difference is the current
    mean difference fails.

    Args:
        sides: the paired differences, or the change and the baseline with equally many runs.
        margin: in units of the metric `[...]`.
        below: later stages, with the levels of the lower ends.
        above: the same stages, with the levels of the upper ends.
        better: whether only gains pass.
    """
    size = np.asarray(margin, np.float64)[..., None]
    stages = (below, above)
    if better:
        return _share_of_paths([low > 0 for low, _ in _simulated(sides, size, *stages)])
    passed = _share_of_paths([low > -size for low, _ in _simulated(sides, 0 * size, *stages)])
    current = np.asarray(sides[0].mean - (sides[1].mean if len(sides) == 2 else 0.0))[..., None]
    highs = [high for _, high in _simulated(sides, current, *stages)]
    failed = _share_of_paths([*[high < -size for high in highs], highs[-1] < 0])
    return np.maximum(passed, failed)


def _share_of_paths(decided: Sequence[NDArray[np.bool_]]) -> Floats:
    return np.asarray(np.any(decided, axis=0).mean(axis=-1), np.float64)


def _simulated(
    sides: Sequence[Sample], truth: Floats, below: Sequence[Stage], above: Sequence[Stage]
) -> list[Bounds]:
    """Simulate the intervals of later stages for a true difference `truth` `[..., 1]`."""
    parts = [(side.mean[..., None], side.squares[..., None]) for side in sides]
    centers = [truth]
    if len(sides) == 2:
        middle = (parts[0][0] + parts[1][0] - truth) / 2
        centers = [middle + truth, middle]
    n = sides[0].n
    of_variances, of_stages = _draws(n, tuple(stage.seeds for stage in below), len(sides))
    variances = [squares / chi for (_, squares), chi in zip(parts, of_variances, strict=True)]
    bounds = []
    for low, high, drawn in zip(below, above, of_stages, strict=True):
        total, more = low.seeds, low.seeds - n
        for i, ((mean, squares), (z, chi)) in enumerate(zip(parts, drawn, strict=True)):
            new = centers[i] + np.sqrt(variances[i] / more) * z
            squares = squares + variances[i] * chi + (new - mean) ** 2 * n * more / total
            parts[i] = ((n * mean + more * new) / total, squares)
        n = total
        bounds.append(_interval(parts, n, low.level, high.level))
    return bounds


def _interval(parts: Sequence[Bounds], n: int, below: float, above: float) -> Bounds:
    errors = [squares / (n - 1) / n for _, squares in parts]
    error = np.sqrt(sum(errors))
    if len(parts) == 1:
        center = parts[0][0]
        return center - student(n - 1, below) * error, center + student(n - 1, above) * error
    center = parts[0][0] - parts[1][0]
    inverse = sum(each**2 for each in errors) / np.maximum(error**4, 1e-300) / (n - 1)
    low, high = (np.interp(inverse, *_quantiles(n, level)) for level in (below, above))
    return center - low * error, center + high * error


@lru_cache(maxsize=256)
def _quantiles(n: int, level: float) -> tuple[Floats, Floats]:
    """Return Student's quantiles over 1 / degrees of freedom, from n - 1 to 2 (n - 1)."""
    inverse = np.linspace(1 / (2 * n - 2), 1 / (n - 1), 9)
    return inverse, np.array([student(1 / each, level) for each in inverse])


Draws = tuple[list[Floats], list[list[tuple[Floats, Floats]]]]


@lru_cache(maxsize=256)
def _draws(n: int, seeds: tuple[int, ...], sides: int) -> Draws:
    """Draw χ²[n-1] per side, and a normal and a χ² number per stage and side, with a fixed seed."""
    random = np.random.default_rng([n, *seeds, sides])
    variances = [random.chisquare(n - 1, PATHS) for _ in range(sides)]
    stages = []
    for before, total in zip((n, *seeds), seeds, strict=False):
        freedom = total - before - 1
        stages.append(
            [
                (
                    random.standard_normal(PATHS),
                    random.chisquare(freedom, PATHS) if freedom else np.zeros(PATHS),
                )
                for _ in range(sides)
            ]
        )
    return variances, stages

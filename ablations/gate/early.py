"""Early ends of a gate: the chance that a later stage passes a change that is worth it.

The chance is computed at a stated truth (conditional power), over the σ that the runs so far leave
open: σ² = squares / χ²[n-1]. Of k further runs the mean is N(truth, σ²/k) and the sum of squares
σ² χ²[k-1]; together with the existing runs they give the later stage's t interval (paired, or
Welch's).

Ending a gate where that chance is small passes nothing, so no rate of false passes or false alarms
grows. It costs power: a test that misses with a chance of β, and ends where its conditional power
is below γ, misses at most β / (1 - γ) (Lan, Simon and Halperin 1982).
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
Bounds = tuple[Floats, Floats]  # the ends of the intervals of a later stage, `[..., paths]`


@dataclass(frozen=True)
class Sample:
    """A sample: n numbers, their mean and the sum of squares around it, `[...]`."""

    n: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, values: ArrayLike) -> Sample:
        """Summarize `[..., n]` numbers."""
        numbers = np.asarray(values, np.float64)
        mean = numbers.mean(axis=-1)
        return cls(numbers.shape[-1], mean, ((numbers - mean[..., None]) ** 2).sum(axis=-1))


def chance_to_pass(
    sides: Sequence[Sample],
    margin: ArrayLike,
    below: Sequence[Stage],
    above: Sequence[Stage],
    *,
    better: bool,
) -> Floats:
    """Return the chance `[...]` that a later stage decides for a change that is worth it.

    Where only gains pass: that a gain of the margin passes. Else the larger of two: that a change
    of no effect passes, and that a difference as large as the one so far is called worse.

    Args:
        sides: the paired differences; or the change and the baseline, as many runs of each.
        margin: in units of the metric `[...]`.
        below: later stages, with the levels of the lower ends.
        above: the same stages, with the levels of the upper ends.
        better: whether only gains pass.
    """
    size = np.asarray(margin, np.float64)[..., None]
    stages = (below, above)
    if better:
        return _share([low > 0 for low, _ in _drawn(sides, size, *stages)])
    passed = _share([low > -size for low, _ in _drawn(sides, 0 * size, *stages)])
    so_far = sides[0].mean - (sides[1].mean if len(sides) == 2 else 0.0)
    highs = [high for _, high in _drawn(sides, np.asarray(so_far)[..., None], *stages)]
    return np.maximum(passed, _share([*[high < -size for high in highs], highs[-1] < 0]))


def _share(decided: Sequence[NDArray[np.bool_]]) -> Floats:
    return np.asarray(np.any(decided, axis=0).mean(axis=-1), np.float64)


def _drawn(
    sides: Sequence[Sample], truth: Floats, below: Sequence[Stage], above: Sequence[Stage]
) -> list[Bounds]:
    """Draw the intervals of later stages, were the difference `truth` `[..., 1]`."""
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
    """Draw χ²[n-1] per side, and a normal and χ² per stage and side; the same for equal stages."""
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

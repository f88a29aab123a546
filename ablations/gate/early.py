"""Early ends of a gate: the chance that a later look still passes a change that is worth it.

The chance is computed at a stated truth (conditional power; Lan, Simon and Halperin 1982), over the
σ that the runs so far leave open: σ² = squares / χ²[n-1]. Of the runs that a later look adds, k of
them, the mean is N(truth, σ²/k) and the sum of squares σ² χ²[k-1]; together with those that are
there they give the later look's own t interval (paired, or Welch's).

Ending a gate where that chance is small passes nothing, so that no rate of false passes or false
alarms grows: the bound is not binding and costs no level. What it costs is power: a test that would
miss with a chance of β, and ends where its conditional power is below γ, misses at most
β / (1 - γ) (Lan, Simon and Halperin 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.distributions import student_quantile
from ablations.looks import Look

Floats = NDArray[np.float64]
PATHS = 1000


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


class Bounds(NamedTuple):
    """The ends of the intervals of a later look, `[..., paths]`."""

    low: Floats
    high: Floats


def later_looks(
    sides: Sequence[Sample], truth: ArrayLike, below: Sequence[Look], above: Sequence[Look]
) -> list[Bounds]:
    """Draw the intervals of later looks, were the difference a stated one.

    Args:
        sides: the paired differences; or the change and the baseline, as many runs of each.
        truth: the difference `[...]`.
        below: later looks, with the levels of the lower ends.
        above: the same looks, with the levels of the upper ends.
    """
    goal = np.asarray(truth, np.float64)[..., None]
    parts = [(side.mean[..., None], side.squares[..., None]) for side in sides]
    centers = [goal]
    if len(sides) == 2:
        middle = (parts[0][0] + parts[1][0] - goal) / 2
        centers = [middle + goal, middle]
    n = sides[0].n
    draws = _draws(n, tuple(look.seeds for look in below), len(sides))
    variances = [squares / chi for (_, squares), chi in zip(parts, draws.of_variances, strict=True)]
    drawn = []
    for number, (low, high) in enumerate(zip(below, above, strict=True)):
        more = low.seeds - n
        for i, (mean, squares) in enumerate(parts):
            z, chi = draws.of_looks[number][i]
            new = centers[i] + np.sqrt(variances[i] / more) * z
            squares = squares + variances[i] * chi + (new - mean) ** 2 * n * more / low.seeds
            parts[i] = ((n * mean + more * new) / low.seeds, squares)
        n = low.seeds
        drawn.append(_interval(parts, n, low.level, high.level))
    return drawn


def _interval(parts: Sequence[tuple[Floats, Floats]], n: int, below: float, above: float) -> Bounds:
    errors = [squares / (n - 1) / n for _, squares in parts]
    error = np.sqrt(sum(errors))
    center = parts[0][0] - (parts[1][0] if len(parts) == 2 else 0.0)
    if len(parts) == 1:
        reaches = [-student_quantile(n - 1, level / 2) for level in (below, above)]
        return Bounds(center - reaches[0] * error, center + reaches[1] * error)
    inverse = sum(each**2 for each in errors) / np.maximum(error**4, 1e-300) / (n - 1)
    low, high = (np.interp(inverse, *_quantiles(n, level)) for level in (below, above))
    return Bounds(center - low * error, center + high * error)


@lru_cache(maxsize=256)
def _quantiles(n: int, level: float) -> tuple[Floats, Floats]:
    """Return Student quantiles over 1 / degrees of freedom, from n - 1 to 2 (n - 1)."""
    inverse = np.linspace(1 / (2 * n - 2), 1 / (n - 1), 9)
    return inverse, np.array([-student_quantile(1 / each, level / 2) for each in inverse])


class _Draws(NamedTuple):
    """of_variances: side -> χ²[n-1]. of_looks: look -> side -> (normal, χ²); each `[paths]`."""

    of_variances: list[Floats]
    of_looks: list[list[tuple[Floats, Floats]]]


@lru_cache(maxsize=256)
def _draws(n: int, seeds: tuple[int, ...], sides: int) -> _Draws:
    """Draw the same numbers for equal looks: a second call says the same."""
    random = np.random.default_rng([n, *seeds, sides])
    of_looks, before = [], n
    variances = [random.chisquare(n - 1, PATHS) for _ in range(sides)]
    for total in seeds:
        freedom = total - before - 1
        of_looks.append(
            [
                (
                    random.standard_normal(PATHS),
                    random.chisquare(freedom, PATHS) if freedom else np.zeros(PATHS),
                )
                for _ in range(sides)
            ]
        )
        before = total
    return _Draws(variances, of_looks)


def chance_to_pass(
    sides: Sequence[Sample],
    margin: ArrayLike,
    below: Sequence[Look],
    above: Sequence[Look],
    *,
    better: bool,
) -> Floats:
    """Return the chance `[...]` that a later look decides for what would be worth it.

    Where only gains pass: that a gain of the margin passes. Else the larger of two: that a change
    of no effect passes, and that a difference as large as the one so far is called worse.

    Args:
        sides: see `later_looks`.
        margin: in units of the metric `[...]`.
        below: later looks, with the levels of the lower ends.
        above: the same looks, with the levels of the upper ends.
        better: whether only gains pass.
    """
    size = np.asarray(margin, np.float64)[..., None]
    if better:
        passes = later_looks(sides, margin, below, above)
        return _share(np.any([look.low > 0 for look in passes], axis=0))
    passes = later_looks(sides, 0.0 * size[..., 0], below, above)
    passed = _share(np.any([look.low > -size for look in passes], axis=0))
    so_far = sides[0].mean - (sides[1].mean if len(sides) == 2 else 0.0)
    losses = later_looks(sides, so_far, below, above)
    shown = [look.high < -size for look in losses] + [losses[-1].high < 0]
    return np.maximum(passed, _share(np.any(shown, axis=0)))


def _share(hits: NDArray[np.bool_]) -> Floats:
    return np.asarray(hits.mean(axis=-1), np.float64)

"""Planned looks: seeds are added until something is decided, and the error rate is paid for it.

Looking again after more seeds gives chance another chance. So the looks are planned before the
first, of studies and of learning-curve checks alike, and share what a single look could spend.

For intervals of differences the level of each look is such that the intervals of all looks hold at
once with the level promised (repeated confidence intervals, Jennison and Turnbull 1989): a verdict
may be read at any of them, whatever made one stop, and freezes with the seeds it was read on. The
levels are those of a normal mean whose looks have independent increments, by a spending function of
Pocock's kind (Lan and DeMets 1983), each used for Student's t with the seeds of its look (Jennison
and Turnbull 2000, section 3.8). Exact tests, as those of checks, split their rate instead: the sum
bounds it whatever the returns look like.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ablations.distributions import normal_cdf, normal_quantile

Floats = NDArray[np.float64]
Found = TypeVar("Found")

_NODES = 160


@dataclass(frozen=True)
class Looks:
    """seeds: how many there are, in all, at each look. levels: of the interval at that look."""

    seeds: tuple[int, ...]
    levels: tuple[float, ...]


def planned(first: int, most: int, factor: float = 1.5) -> tuple[int, ...]:
    """Seeds at each look, each `factor` times as many as at the one before: 8, 12, 18, ..., 64."""
    if not 2 <= first <= most or not factor > 1:
        raise ValueError(f"looks need 2 <= first <= most and a factor above 1: {first}, {most}")
    seeds = [first]
    while (more := math.ceil(factor * seeds[-1])) < most:
        seeds.append(more)
    return (*seeds, most) if seeds[-1] < most else tuple(seeds)


def split(rate: float, looks: int) -> tuple[float, ...]:
    """An error rate over so many looks, half of it for the last."""
    if looks < 2:
        return (rate,) * looks
    return (*(rate / 2 / (looks - 1),) * (looks - 1), rate / 2)


def design(seeds: Sequence[int], level: float) -> Looks:
    """The levels at which the intervals of all looks hold at once with 1 - level."""
    return Looks(tuple(seeds), _levels(tuple(seeds), level))


def last_reached(looks: Looks, seeds: int) -> int | None:
    """The last look, from 0, that so many seeds reach; None before the first."""
    reached = sum(needed <= seeds for needed in looks.seeds)
    return reached - 1 if reached else None


def read(
    looks: Looks,
    seeds: int,
    at: Callable[[int, float], Found],
    decided: Callable[[Found], bool],
) -> Found | None:
    """What the first look that decides says, else the last of those that `seeds` reach.

    at: the seeds and the level of a look -> what it says. What came after the look that decided is
    not looked at. None before the first look.
    """
    found = None
    for needed, level in zip(looks.seeds, looks.levels, strict=True):
        if needed > seeds:
            break
        found = at(needed, level)
        if decided(found):
            break
    return found


@lru_cache(maxsize=256)
def _levels(seeds: tuple[int, ...], level: float) -> tuple[float, ...]:
    """Nominal two-sided levels. With B(t) = Z sqrt(t) a Brownian motion at the information t = n /
    n_last, the k-th bound c solves P(no bound crossed before, |Z_k| > c) = spent(t_k) -
    spent(t_(k-1)); the density of B where no bound was crossed is carried from look to look."""
    if not seeds or any(b <= a for a, b in itertools.pairwise(seeds)) or seeds[0] < 2:
        raise ValueError(f"looks need increasing numbers of at least 2 seeds: {seeds}")
    times = [n / seeds[-1] for n in seeds]
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    inside, density, spent, before = np.zeros(1), np.ones(1), 0.0, 0.0
    found = []
    for time in times:
        step, reach = math.sqrt(time - before), math.sqrt(time)
        due = level * math.log1p((math.e - 1) * time) - spent
        low, high = 0.0, 2 - normal_quantile(due / 2)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if _crossing(middle * reach, inside, density, step) > due
                else (low, middle)
            )
        found.append(2 * float(normal_cdf(-high)))
        nodes = high * reach * points
        kernel = np.exp(-(((nodes[:, None] - inside) / step) ** 2) / 2)
        density = high * reach * weights * (kernel @ density) / (step * math.sqrt(2 * math.pi))
        inside, spent, before = nodes, spent + due, time
    return tuple(found)


def _crossing(bound: float, inside: Floats, density: Floats, step: float) -> float:
    """Chance that a Brownian motion with this density on these nodes is beyond +-bound after a step
    of that deviation."""
    beyond = normal_cdf((inside - bound) / step) + normal_cdf((-bound - inside) / step)
    return float(np.sum(density * beyond))

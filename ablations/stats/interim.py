"""Interim analyses: runs are added at planned stages until a comparison is decided.

All stages are planned before the first one, and share the error rate of a single analysis. The
intervals of all stages are simultaneous (repeated confidence intervals, Jennison and Turnbull
1989), so a verdict is valid at any stage, for any reason to stop. Their levels are computed for a
normal mean with independent increments and Pocock's spending function (Lan and DeMets 1983), and
used for Student's t with the seeds of each stage (Jennison and Turnbull 2000, section 3.8). Exact
tests split their error rate instead; the sum bounds it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from scipy import special

from ablations.stats.summaries import Floats, bisect

_NODES = 160


@dataclass(frozen=True)
class Stage:
    """An interim analysis.

    Attributes:
        seeds: total number of seeds of each side up to this stage.
        level: of its interval, or its part of the rate of false alarms.
        miss: its part of the rate of misses, for tests that may stop early without a finding.
    """

    seeds: int
    level: float
    miss: float = 0.0


class Stages(tuple[Stage, ...]):
    """The stages of a test, in order."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of each stage."""
        return tuple(stage.seeds for stage in self)

    @property
    def levels(self) -> tuple[float, ...]:
        """The level of each stage."""
        return tuple(stage.level for stage in self)


Answer = TypeVar("Answer")


def read(
    stages: Stages,
    seeds: int,
    at: Callable[[int, float], Answer],
    decided: Callable[[Answer], bool],
) -> Answer | None:
    """Return the result `at(seeds, level)` of the first stage that decides, for existing runs.

    If none decides, it is the result of the last stage that `seeds` reach; None before the first.
    """
    result = None
    for stage in stages:
        if stage.seeds > seeds:
            break
        result = at(stage.seeds, stage.level)
        if decided(result):
            break
    return result


# Planning


def planned(first: int, most: int, factor: float = 1.5) -> tuple[int, ...]:
    """Return the seeds of each stage, each `factor` times the previous one: 8, 12, 18, ..., 64."""
    if not 2 <= first <= most or not factor > 1:
        raise ValueError(f"stages need 2 <= first <= most and a factor above 1: {first}, {most}")
    seeds = [first]
    while (more := math.ceil(factor * seeds[-1])) < most:
        seeds.append(more)
    return (*seeds, most) if seeds[-1] < most else tuple(seeds)


def split(rate: float, stages: int) -> tuple[float, ...]:
    """Return the share of each stage in an error rate; the last stage has half of it."""
    if stages < 2:
        return (rate,) * stages
    return (*(rate / 2 / (stages - 1),) * (stages - 1), rate / 2)


def design(seeds: Sequence[int], level: float) -> Stages:
    """Plan stages whose intervals are simultaneous with 1 - level. Raises ValueError."""
    if not seeds or any(b <= a for a, b in itertools.pairwise(seeds)) or seeds[0] < 2:
        raise ValueError(f"stages need increasing numbers of at least 2 seeds: {tuple(seeds)}")
    levels = nominal_levels(tuple(n / seeds[-1] for n in seeds), level)
    return Stages(itertools.starmap(Stage, zip(seeds, levels, strict=True)))


def pocock_spending(time: float, level: float) -> float:
    """Return the error spent at an information time in [0, 1]: level * log(1 + (e - 1) time).

    It gives nearly the same level to each of evenly spaced stages (Lan and DeMets 1983).
    """
    return level * math.log1p((math.e - 1) * time)


@lru_cache(maxsize=256)
def nominal_levels(times: tuple[float, ...], level: float) -> tuple[float, ...]:
    """Return the two-sided level of each stage, at increasing information times up to 1.

    B(t) = Z sqrt(t) is a Brownian motion at the information time t = n / n_last. The bound c of
    stage k solves P(no bound crossed before, |Z_k| > c) = spent(t_k) - spent(t_(k-1)). The density
    of B without a crossed bound is integrated from stage to stage (Armitage, McPherson and Rowe
    1969).
    """
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    inside, density, spent, before = np.zeros(1), np.ones(1), 0.0, 0.0
    levels = []
    for time in times:
        step, reach = math.sqrt(time - before), math.sqrt(time)
        due = pocock_spending(time, level) - spent
        end = _end(due, inside, density, step, reach * (2 - float(special.ndtri(due / 2))))
        levels.append(2 * float(special.ndtr(-end / reach)))
        kernel = np.exp(-(((end * points[:, None] - inside) / step) ** 2) / 2)
        density = end * weights * (kernel @ density) / (step * math.sqrt(2 * math.pi))
        inside, spent, before = end * points, spent + due, time
    return tuple(levels)


def _end(chance: float, inside: Floats, density: Floats, step: float, most: float) -> float:
    """Return the end that a motion of this symmetric density exceeds up or down with a chance."""

    def exceeds(end: float) -> bool:
        return bool(2 * np.sum(density * special.ndtr((inside - end) / step)) > chance)

    return bisect(exceeds, 0.0, most)[1]

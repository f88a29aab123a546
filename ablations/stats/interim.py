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
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic, Protocol, TypeVar

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


Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")
Need = TypeVar("Need")
Result = TypeVar("Result")  # of a stage; the test ends if its attribute `decided` is true


class SequentialTest(Protocol):
    """A test with planned stages. `before` has the results of earlier stages."""

    @property
    def stages(self) -> Stages:
        """The stages, planned before the first one."""

    def needs(self, stage: Stage, before: Any) -> Any:
        """Return the runs that a stage needs."""

    def decide(self, stage: Stage, runs: Any, before: Any) -> Any:
        """Return the result of a stage from its runs."""


@dataclass(frozen=True)
class Progress(Generic[Need, Result]):
    """The progress of a sequential test.

    Attributes:
        stage, needs: the next stage and its runs; the last stage if the test has ended.
        decisions: results of the stages so far.
    """

    stage: Stage
    needs: Need
    decisions: tuple[Result, ...] = ()
    ended: bool = False


def progress(test: SequentialTest, decisions: tuple[Any, ...] = ()) -> Progress[Any, Any]:
    """Return the progress of a test after the results of its first stages."""
    ended = bool(decisions) and (decisions[-1].decided or len(decisions) == len(test.stages))
    before = decisions[: len(decisions) - ended]
    stage = test.stages[len(before)]
    return Progress(stage, test.needs(stage, before), decisions, ended)


def play(
    tests: Mapping[Key, SequentialTest],
    collect: Callable[[Mapping[Key, Progress[Any, Any]]], Mapping[Key, Any]],
    reached: Mapping[Key, Progress[Any, Any]] | None = None,
) -> dict[Key, Progress[Any, Any]]:
    """Run tests in parallel until all have ended or `collect` returns no more runs.

    Args:
        tests: by name.
        collect: returns the runs of the tests' next stages, as far as possible; {} ends the loop.
            It may return stored runs, which continues an interrupted test.
        reached: progress to start from; default: before the first stage.
    """
    now = {key: progress(test) for key, test in tests.items()} | dict(reached or {})
    while due := {key: state for key, state in now.items() if not state.ended}:
        collected = collect(due)
        if not collected:
            break
        for key, runs in collected.items():
            before = due[key].decisions
            decision = tests[key].decide(due[key].stage, runs, before)
            now[key] = progress(tests[key], (*before, decision))
    return now


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
        too_low = partial(_spends_more, due, reach, inside, density, step)
        bound = bisect(too_low, 0.0, 2 - float(special.ndtri(due / 2)))[1]
        levels.append(2 * float(special.ndtr(-bound)))
        nodes = bound * reach * points
        kernel = np.exp(-(((nodes[:, None] - inside) / step) ** 2) / 2)
        density = bound * reach * weights * (kernel @ density) / (step * math.sqrt(2 * math.pi))
        inside, spent, before = nodes, spent + due, time
    return tuple(levels)


def _spends_more(
    due: float, reach: float, inside: Floats, density: Floats, step: float, bound: float
) -> bool:
    """Return whether a Brownian motion of this density exceeds ±bound sqrt(t) too often."""
    end = bound * reach
    beyond = special.ndtr((inside - end) / step) + special.ndtr((-end - inside) / step)
    return bool(np.sum(density * beyond) > due)

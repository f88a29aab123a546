"""Interim analyses: runs are added at planned stages until a comparison is decided.

All stages are planned before the first, and share the error rate of a single analysis. The
intervals of all stages hold at once (repeated confidence intervals, Jennison and Turnbull 1989): a
verdict may be read at any stage, whatever made the test stop. Their levels are those of a normal
mean whose stages have independent increments, by a spending function of Pocock's kind (Lan and
DeMets 1983), each used for Student's t with the seeds of its stage (Jennison and Turnbull 2000,
section 3.8). Exact tests split their rate instead: the sum bounds it.
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

    seeds: of each side, in all, up to here. level: of its interval, or rate of false alarms spent
    here. miss: rate of misses spent here, where a test may stop because nothing can be shown.
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
Result = TypeVar(
    "Result"
)  # of a stage; its attribute `decided` tells whether the test ends with it


class SequentialTest(Protocol):
    """A test that is analysed at planned stages. before: the decisions of earlier stages."""

    @property
    def stages(self) -> Stages:
        """The stages, planned before the first."""

    def needs(self, stage: Stage, before: Any) -> Any:
        """Return which runs a stage needs."""

    def decide(self, stage: Stage, runs: Any, before: Any) -> Any:
        """Judge these runs at the level of the stage."""


@dataclass(frozen=True)
class Progress(Generic[Need, Result]):
    """How far a sequential test has come.

    stage, needs: the stage that is due and its runs; the last stage where the test has ended.
    decisions: of the stages that have been analysed.
    """

    stage: Stage
    needs: Need
    decisions: tuple[Result, ...] = ()
    ended: bool = False


def progress(test: SequentialTest, decisions: tuple[Any, ...] = ()) -> Progress[Any, Any]:
    """Return the progress of a test after the decisions of its first stages."""
    ended = bool(decisions) and (decisions[-1].decided or len(decisions) == len(test.stages))
    before = decisions[: len(decisions) - ended]
    stage = test.stages[len(before)]
    return Progress(stage, test.needs(stage, before), decisions, ended)


def play(
    tests: Mapping[Key, SequentialTest],
    collect: Callable[[Mapping[Key, Progress[Any, Any]]], Mapping[Key, Any]],
    reached: Mapping[Key, Progress[Any, Any]] | None = None,
    tell: Callable[[Key, Progress[Any, Any]], None] = lambda key, now: None,
) -> dict[Key, Progress[Any, Any]]:
    """Play tests side by side until all have ended or `collect` brings no more runs.

    Args:
        tests: by a name of each.
        collect: brings the runs of those stages that can have them, for all tests at once; {} ends.
            Nothing else is stored: a collector that finds records continues an interrupted test.
        reached: where to go on; default: before the first stage.
        tell: is called after each stage that was analysed.
    """
    now = {key: progress(test) for key, test in tests.items()} | dict(reached or {})
    while due := {key: at for key, at in now.items() if not at.ended}:
        collected = collect(due)
        if not collected:
            break
        for key, runs in collected.items():
            before = due[key].decisions
            decision = tests[key].decide(due[key].stage, runs, before)
            now[key] = progress(tests[key], (*before, decision))
            tell(key, now[key])
    return now


def read(
    stages: Stages,
    seeds: int,
    at: Callable[[int, float], Answer],
    decided: Callable[[Answer], bool],
) -> Answer | None:
    """Return the result `at(seeds, level)` of the first stage that decides, of runs that are there.

    Later runs are not read. Where no stage decides it is the result of the last stage that `seeds`
    reach; None before the first.
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
    """Return the seeds of each stage, each `factor` times the last: 8, 12, 18, ..., 64."""
    if not 2 <= first <= most or not factor > 1:
        raise ValueError(f"stages need 2 <= first <= most and a factor above 1: {first}, {most}")
    seeds = [first]
    while (more := math.ceil(factor * seeds[-1])) < most:
        seeds.append(more)
    return (*seeds, most) if seeds[-1] < most else tuple(seeds)


def split(rate: float, stages: int) -> tuple[float, ...]:
    """Return the share of each stage in an error rate, half of it for the last."""
    if stages < 2:
        return (rate,) * stages
    return (*(rate / 2 / (stages - 1),) * (stages - 1), rate / 2)


def design(seeds: Sequence[int], level: float) -> Stages:
    """Plan stages whose intervals hold at once with 1 - level. Raises ValueError."""
    if not seeds or any(b <= a for a, b in itertools.pairwise(seeds)) or seeds[0] < 2:
        raise ValueError(f"stages need increasing numbers of at least 2 seeds: {tuple(seeds)}")
    levels = nominal_levels(tuple(n / seeds[-1] for n in seeds), level)
    return Stages(itertools.starmap(Stage, zip(seeds, levels, strict=True)))


def last_reached(stages: Stages, seeds: int) -> int | None:
    """Return the index of the last stage that so many seeds reach; None before the first."""
    reached = sum(needed <= seeds for needed in stages.seeds)
    return reached - 1 if reached else None


def pocock_spending(time: float, level: float) -> float:
    """Return the error spent at an information time in [0, 1]: level * log(1 + (e - 1) time).

    Of Pocock's kind (Lan and DeMets 1983): nearly the same level at each of evenly spaced stages.
    """
    return level * math.log1p((math.e - 1) * time)


@lru_cache(maxsize=256)
def nominal_levels(times: tuple[float, ...], level: float) -> tuple[float, ...]:
    """Return the two-sided level of each stage, at increasing information times up to 1.

    With B(t) = Z sqrt(t) a Brownian motion at the information t = n / n_last, the k-th bound c
    solves P(no bound crossed before, |Z_k| > c) = spent(t_k) - spent(t_(k-1)); the density of B
    where no bound was crossed is carried from stage to stage (Armitage, McPherson and Rowe 1969).
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
    """Tell whether a Brownian motion of this density exceeds ±bound sqrt(t) too often."""
    end = bound * reach
    beyond = special.ndtr((inside - end) / step) + special.ndtr((-end - inside) / step)
    return bool(np.sum(density * beyond) > due)

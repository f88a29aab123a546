"""Sequential tests: runs are added at planned looks until something is decided.

Repeated looks inflate the error rate, so all of them are planned before the first, and share what
one look alone could spend. There is one engine, under `run --until decided`, `gate` and `check`: a
`SequentialTest` says which runs a look needs and what they decide, a collector brings the runs, and
`play` goes from look to look. Nothing else is stored: the looks follow from the records alone, so a
collector that finds them continues an interrupted test where it was.

Intervals: the level of each look is such that the intervals of all looks hold at once with the
level promised (repeated confidence intervals, Jennison and Turnbull 1989): a verdict may be read at
any of them, whatever made one stop, and freezes with the seeds it was read on. The levels are those
of a normal mean whose looks have independent increments, by a spending function of Pocock's kind
(Lan and DeMets 1983), each used for Student's t with the seeds of its look (Jennison and Turnbull
2000, section 3.8). Exact tests, as those of checks, split their rate instead: the sum bounds it
whatever the returns look like.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ablations.distributions import normal_cdf, normal_quantile

Floats = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")

_NODES = 160


@dataclass(frozen=True)
class Look:
    """An interim analysis.

    seeds: of each side, in all, up to here. level: of its interval, or of false alarms spent here.
    miss: rate of misses spent here, where a test may stop because nothing can be shown.
    """

    seeds: int
    level: float
    miss: float = 0.0


class Looks(tuple[Look, ...]):
    """The looks of a test, in order."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of each look."""
        return tuple(look.seeds for look in self)

    @property
    def levels(self) -> tuple[float, ...]:
        """The level of each look."""
        return tuple(look.level for look in self)


# The engine


class Decision(Protocol):
    """The result of a look. decided: whether the test ends with it."""

    @property
    def decided(self) -> bool:
        """True where no further look is needed."""


Need = TypeVar("Need")
Runs = TypeVar("Runs")
Result = TypeVar("Result", bound=Decision)
Need_co = TypeVar("Need_co", covariant=True)
Runs_contra = TypeVar("Runs_contra", contravariant=True)


class SequentialTest(Protocol[Need_co, Runs_contra, Result]):
    """A test that is read at planned looks, whatever it compares; it never asks whence runs come.

    before: the decisions of the looks before.
    """

    @property
    def looks(self) -> Looks:
        """The looks, planned before the first."""

    def needs(self, look: Look, before: Sequence[Result]) -> Need_co:
        """Return which runs a look needs."""

    def decide(self, look: Look, runs: Runs_contra, before: Sequence[Result]) -> Result:
        """Judge these runs at the level of the look."""


@dataclass(frozen=True)
class Stage(Generic[Need, Result]):
    """The state of a sequential test.

    look, needs: the look that is due and its runs; of the last look, where the test has ended.
    decisions: of the looks that have been read.
    """

    look: Look
    needs: Need
    decisions: tuple[Result, ...] = ()
    ended: bool = False


def stage(
    test: SequentialTest[Need, Runs, Result], decisions: tuple[Result, ...] = ()
) -> Stage[Need, Result]:
    """Return the stage of a test after the decisions of its first looks."""
    ended = bool(decisions) and (decisions[-1].decided or len(decisions) == len(test.looks))
    before = decisions[: len(decisions) - ended]
    look = test.looks[len(before)]
    return Stage(look, test.needs(look, before), decisions, ended)


def play(
    tests: Mapping[Key, SequentialTest[Need, Runs, Result]],
    collect: Callable[[Mapping[Key, Stage[Need, Result]]], Mapping[Key, Runs]],
    stages: Mapping[Key, Stage[Need, Result]] | None = None,
    tell: Callable[[Key, Stage[Need, Result]], None] = lambda key, stage: None,
) -> dict[Key, Stage[Need, Result]]:
    """Play tests side by side until all have ended or no more runs are to be had.

    Args:
        tests: by a name of each.
        collect: brings runs that the stages need, at once for all that can have them; {} ends it.
        stages: where to go on; default: before the first look.
        tell: is called after each look that was read.

    Returns:
        The stage that each test has reached.
    """
    reached = {key: stage(test) for key, test in tests.items()} | dict(stages or {})
    while due := {key: now for key, now in reached.items() if not now.ended}:
        collected = collect(due)
        if not collected:
            break
        for key, runs in collected.items():
            before = due[key].decisions
            decision = tests[key].decide(due[key].look, runs, before)
            reached[key] = stage(tests[key], (*before, decision))
            tell(key, reached[key])
    return reached


def read(
    looks: Looks,
    seeds: int,
    at: Callable[[int, float], Found],
    decided: Callable[[Found], bool],
) -> Found | None:
    """Return the result of the first look that decides, of runs that are all there.

    Runs after that look are not looked at.

    Args:
        looks: the planned looks.
        seeds: how many there are.
        at: the seeds and the level of a look -> its result.
        decided: whether a result ends the test.

    Returns:
        The result of the last look reached where none decides; None before the first look.
    """
    found = None
    for look in looks:
        if look.seeds > seeds:
            break
        found = at(look.seeds, look.level)
        if decided(found):
            break
    return found


# Planning


def planned(first: int, most: int, factor: float = 1.5) -> tuple[int, ...]:
    """Return the seeds of each look, each `factor` times the last: 8, 12, 18, ..., 64."""
    if not 2 <= first <= most or not factor > 1:
        raise ValueError(f"looks need 2 <= first <= most and a factor above 1: {first}, {most}")
    seeds = [first]
    while (more := math.ceil(factor * seeds[-1])) < most:
        seeds.append(more)
    return (*seeds, most) if seeds[-1] < most else tuple(seeds)


def split(rate: float, looks: int) -> tuple[float, ...]:
    """Return the share of each look in an error rate, half of it for the last."""
    if looks < 2:
        return (rate,) * looks
    return (*(rate / 2 / (looks - 1),) * (looks - 1), rate / 2)


def design(seeds: Sequence[int], level: float) -> Looks:
    """Plan looks whose intervals hold at once with 1 - level. Raises ValueError."""
    if not seeds or any(b <= a for a, b in itertools.pairwise(seeds)) or seeds[0] < 2:
        raise ValueError(f"looks need increasing numbers of at least 2 seeds: {tuple(seeds)}")
    levels = nominal_levels(tuple(n / seeds[-1] for n in seeds), level)
    return Looks(itertools.starmap(Look, zip(seeds, levels, strict=True)))


def last_reached(looks: Looks, seeds: int) -> int | None:
    """Return the last look, from 0, that so many seeds reach; None before the first."""
    reached = sum(needed <= seeds for needed in looks.seeds)
    return reached - 1 if reached else None


def pocock_spending(time: float, level: float) -> float:
    """Return the error spent at an information time in [0, 1]: level * log(1 + (e - 1) time).

    Of Pocock's kind (Lan and DeMets 1983): nearly the same level at each of evenly spaced looks.
    """
    return level * math.log1p((math.e - 1) * time)


@lru_cache(maxsize=256)
def nominal_levels(times: tuple[float, ...], level: float) -> tuple[float, ...]:
    """Return the two-sided level of each look, at increasing information times up to 1.

    With B(t) = Z sqrt(t) a Brownian motion at the information t, the k-th bound c solves P(no bound
    crossed before, |Z_k| > c) = spent(t_k) - spent(t_(k-1)); the density of B where no bound was
    crossed is carried from look to look (Armitage, McPherson and Rowe 1969). With equal sides t is
    n / n_last; where one side stays as it is, t is the ratio of variances.
    """
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    inside, density, spent, before = np.zeros(1), np.ones(1), 0.0, 0.0
    levels = []
    for time in times:
        step, reach = math.sqrt(time - before), math.sqrt(time)
        due = pocock_spending(time, level) - spent
        low, high = 0.0, 2 - normal_quantile(due / 2)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if _crossing(middle * reach, inside, density, step) > due
                else (low, middle)
            )
        levels.append(2 * float(normal_cdf(-high)))
        nodes = high * reach * points
        kernel = np.exp(-(((nodes[:, None] - inside) / step) ** 2) / 2)
        density = high * reach * weights * (kernel @ density) / (step * math.sqrt(2 * math.pi))
        inside, spent, before = nodes, spent + due, time
    return tuple(levels)


def _crossing(bound: float, inside: Floats, density: Floats, step: float) -> float:
    """Return the chance that a Brownian motion of this density is beyond +-bound after a step."""
    beyond = normal_cdf((inside - bound) / step) + normal_cdf((-bound - inside) / step)
    return float(np.sum(density * beyond))

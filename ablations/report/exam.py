"""The entrance exam of tasks: its rule and its table.

A task passes at a length and a learning rate where the baseline's score

    exceeds the better of doing nothing and random actions by `LEAD` standard deviations between
    seeds or more,
    is at least `PLACE` of the way from there to the best score that the exam has seen, and
    lies at a ceiling on at most `AT_CEILING` of the seeds.

The score is the mean of the last three of ten evaluations. The rule looks at baselines and at
policies that learn nothing, never at a difference between variants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, stdev
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablations.errors import count
from ablations.report.scores import LAST
from ablations.report.tables.entries import Column, Sheet, number, policy_text
from ablations.report.units import LEAD

Curve: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]  # steps, values

EVALUATIONS = 10  # of a run, of which the last `LAST` are its score
PLACE, AT_CEILING = 0.5, 0.2
NEAR_CEILING = 0.005  # of the unit
SLOPE = 0.05  # of the unit, over the last fifth: below, the baseline has levelled off


@dataclass(frozen=True)
class Candidate:
    """A baseline on a task, trained for `steps`.

    scores: of the seeds that ended well. failed: how many did not. rise: mean over seeds of the
    last evaluation minus the one at four fifths of the run.
    """

    task: str
    variant: str
    steps: int
    scores: tuple[float, ...]
    failed: int
    rise: float

    @property
    def mean(self) -> float:
        """Return the mean score, NaN without one."""
        return fmean(self.scores) if self.scores else math.nan

    @property
    def deviation(self) -> float:
        """Return the standard deviation between seeds, NaN for fewer than two."""
        return stdev(self.scores) if len(self.scores) > 1 else math.nan


@dataclass(frozen=True)
class Task:
    """A task of an exam: scores of policies that learn nothing, and of candidates.

    curves: variant -> steps and returns `[n]` of the evaluations of each seed that ended well.
    most: the highest score that the task's rules allow; None where none is known. metric: of them.
    """

    name: str
    trivial: Mapping[str, float]
    candidates: tuple[Candidate, ...]
    curves: Mapping[str, tuple[Curve, ...]] = field(default_factory=dict)
    most: float | None = None
    metric: str = "evaluation/return"

    @cached_property
    def floor(self) -> float:
        """Return the score of the better policy that learns nothing."""
        return max(self.trivial.values())

    @cached_property
    def best(self) -> float:
        """Return the highest return that the rules allow, else the highest mean of a candidate."""
        if self.most is not None:
            return self.most
        return max(
            (candidate.mean for candidate in self.candidates if candidate.scores), default=math.nan
        )

    @property
    def ceiling(self) -> float | None:
        """The highest return that the rules allow, else the highest score where runs share it."""
        scores = [score for candidate in self.candidates for score in candidate.scores]
        is_one = self.most is not None or len(self._near_highest(scores)) > 1
        return self._highest if is_one else None

    @cached_property
    def _highest(self) -> float:
        scores = (score for candidate in self.candidates for score in candidate.scores)
        return max(scores, default=math.nan) if self.most is None else self.most

    def _near_highest(self, scores: Sequence[float]) -> list[float]:
        near = NEAR_CEILING * abs(self._highest - self.floor)
        return [score for score in scores if self._highest - score <= near]

    def unit(self, candidate: Candidate) -> float:
        """Return what the candidate learned beyond doing nothing, the unit of effects."""
        return candidate.mean - self.floor

    def lead(self, candidate: Candidate) -> float:
        """Return the unit in standard deviations between seeds."""
        return self.unit(candidate) / candidate.deviation if candidate.deviation else math.inf

    def place(self, candidate: Candidate) -> float:
        """Return the share of the way from doing nothing to the best score."""
        return self.unit(candidate) / (self.best - self.floor)

    def at_ceiling(self, candidate: Candidate) -> float:
        """Return the share of seeds within `NEAR_CEILING` of the ceiling.

        0 where there is none: a single seed is the highest.
        """
        own = self._near_highest(candidate.scores)
        return len(own) / len(candidate.scores) if self.ceiling is not None else 0.0

    def slope(self, candidate: Candidate) -> float:
        """Return what the last fifth of training gained, as a share of the unit."""
        return candidate.rise / self.unit(candidate)

    def complaints(self, candidate: Candidate) -> list[str]:
        """Return what keeps the task from judging with this candidate; [] where it passes."""
        if candidate.failed:
            return [count(candidate.failed, "run") + " failed"]
        if len(candidate.scores) < 2:
            return ["fewer than two seeds"]
        failures = []
        if self.unit(candidate) <= 0:
            return ["no better than doing nothing"]
        if self.lead(candidate) < LEAD:
            failures.append(
                f"{self.lead(candidate):.1f} of {LEAD:g} deviations above doing nothing"
            )
        if self.place(candidate) < PLACE:
            failures.append(f"{100 * self.place(candidate):.0f}% of the way to the best")
        if self.at_ceiling(candidate) > AT_CEILING:
            failures.append(f"{100 * self.at_ceiling(candidate):.0f}% of seeds at a ceiling")
        return failures


def sheet(tasks: Sequence[Task]) -> Sheet:
    """Return the table of an exam: a row for each task, candidate and length."""
    rows = []
    for task in tasks:
        for policy, score in task.trivial.items():
            rows.append(
                (task.name, policy_text(policy), None, score, *[None] * 6, "learns nothing")
            )
        for candidate in task.candidates:
            complaints = task.complaints(candidate)
            rows.append(
                (
                    task.name,
                    candidate.variant,
                    candidate.steps,
                    number(candidate.mean),
                    number(candidate.deviation),
                    number(task.lead(candidate)),
                    number(100 * task.place(candidate)),
                    100 * task.at_ceiling(candidate),
                    number(100 * task.slope(candidate)),
                    len(candidate.scores),
                    "; ".join(complaints) or "passes",
                )
            )
    places = max((_places(abs(task.best - task.floor)) for task in tasks), default=0)
    columns = (
        *("task", "variant", "steps", "mean", "deviation", "lead", "place", "ceiling"),
        *("slope", "seeds", "verdict"),
    )
    shown = (
        Column("task", "text", ("task",)),
        Column("variant", "text", ("variant",)),
        Column("steps", "count", ("steps",)),
        Column("mean", "fixed", ("mean",), places=places),
        Column("SD", "fixed", ("deviation",), places=places),
        Column("SDs above trivial", "fixed", ("lead",), places=1),
        Column("% of the way", "fixed", ("place",)),
        Column("% at ceiling", "fixed", ("ceiling",)),
        Column("last fifth, %", "fixed", ("slope",), sign="+"),
        Column("seeds", "count", ("seeds",)),
        Column("verdict", "text", ("verdict",)),
    )
    return Sheet("exam", "exam", _CAPTION, columns, tuple(rows), shown)


def _places(unit: float) -> int:
    """Return the digits after the point that show a unit to three."""
    return max(0, 2 - math.floor(math.log10(unit))) if unit > 0 and math.isfinite(unit) else 0


_CAPTION = (
    f"mean of the last {LAST} of {EVALUATIONS} evaluations. A task passes where the baseline is "
    f"{LEAD:g} standard deviations between seeds or more above the best policy that learns nothing "
    f"(in brackets), at least {100 * PLACE:.0f}% of the way from there to the best "
    "score of this table, or to the most that the task's rules allow, and at a ceiling on at most "
    f"{100 * AT_CEILING:.0f}% of its seeds. Last fifth: what the mean "
    "gained over it, in % of the unit (mean minus the best policy that learns nothing); above "
    f"{100 * SLOPE:.0f}% answers say at how many steps they hold."
)

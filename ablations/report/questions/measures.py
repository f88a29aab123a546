"""From records to numbers: the effect that a question asks for, and what stands beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ablations.distributions import fisher_p
from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.questions.entries import Question, Task
from ablations.report.results import Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import LEVEL, Comparison, Design, compare, regress
from ablations.report.statistics.fractions import fraction_effects
from ablations.report.tables.factorial import factorial_scores
from ablations.report.tables.stability import FAILS

FEWEST = 2  # seeds, below which nothing is told
ANSWERING, REPLICATING = range(500), range(500, 1000)  # seeds; those from 1000 on tune


class Bound(NamedTuple):
    """An estimate and its interval; None where there is none."""

    value: float
    low: float | None
    high: float | None

    def over(self, unit: float) -> Bound:
        """Return it in shares of a unit."""
        low = None if self.low is None else self.low / unit
        return Bound(self.value / unit, low, None if self.high is None else self.high / unit)


class Estimate(NamedTuple):
    """An effect.

    sides: the mean scores without and with the change. useful: seeds on which the interval rests,
    None where more of them would not make it narrower.
    """

    comparison: Comparison
    sides: tuple[float, float] | None = None
    useful: int | None = None

    @property
    def bound(self) -> Bound | None:
        """The effect with its interval."""
        c = self.comparison
        return None if c.difference is None else Bound(c.difference, c.low, c.high)


NOTHING = Estimate(Comparison(0))


class Failures(NamedTuple):
    """Runs that failed, and all, of each side; p of Fisher's exact test, times the details."""

    without: tuple[int, int]
    changed: tuple[int, int]
    p: float


def answering(
    results: Results, tasks: Sequence[Task], seeds: range = ANSWERING, score: str | None = None
) -> Scores:
    """Return the scores of seeds, by default those that answer, with what diverged at its worst.

    Args:
        results: of a design.
        tasks: whose floors count.
        seeds: that are kept.
        score: as of `scores`.
    """
    floors = {task.name: task.exam.floor for task in tasks if task.exam is not None}
    counted = scores(results, score=score).with_diverged(floors)
    return counted.where(lambda cell: cell.seed in seeds)


class Measure:
    """The measurement of a question: an effect of a fraction, or a difference of two variants.

    design: None of a difference. details: of the design. sides: variants without and with the
    change.
    """

    def __init__(self, question: Question, plan: Plan, design: Design | None):
        """Raise UserError where the study has no such factor."""
        self.design, self.details = design, 1
        if question.statistic == "difference":
            self._pair = (question.variant, question.versus)
            self.sides: tuple[Sequence[str], ...] = ((question.versus,), (question.variant,))
            return
        if design is None:
            raise UserError(
                f"question '{question.id}': the variants of '{question.study}' are no factorial"
            )
        if question.factor not in design.factors:
            raise unknown(f"factor of question '{question.id}'", question.factor, design.factors)
        self.details = sum(levels - 1 for levels in design.shape)
        self._which = list(design.factors).index(question.factor)
        at = design.variants.items()
        self.sides = tuple([v for v, place in at if place[self._which] == k] for k in (0, 1))

    def estimate(
        self,
        found: Scores,
        tasks: Sequence[str],
        units: Mapping[str, float],
        level: float = LEVEL,
    ) -> Estimate:
        """Estimate the effect, a mean over tasks in units; {} of one task, in its metric."""
        if self.design is None:
            return difference(found, tasks, units, self._pair, level)
        return effect(found, tasks, units, self.design, self._which, level)

    def lead(self, found: Scores, task: Task) -> float | None:
        """Return the lead of the runs without the change; None of a fraction or of one seed."""
        assert task.exam is not None
        if self.design is not None:
            return None
        scores = [*found.by_seed(task.name, self.sides[0][0]).values()]
        if len(scores) < 2:
            return None
        above, spread = float(np.mean(scores)) - task.exam.floor, float(np.std(scores, ddof=1))
        return above / spread if spread else math.inf if above > 0 else 0.0

    def failures(self, found: Scores, task: Task) -> Failures | None:
        """Count the runs that failed; of a fraction on the seeds that all settings have."""
        assert task.exam is not None
        threshold = task.exam.floor + FAILS * (task.exam.score - task.exam.floor)
        sides = [[found.by_seed(task.name, v) for v in side] for side in self.sides]
        if self.design is not None:
            seeds = set.intersection(*(set(of) for side in sides for of in side))
            sides = [[{s: of[s] for s in seeds} for of in side] for side in sides]
        (without, changed) = ([value for of in side for value in of.values()] for side in sides)
        if not (without and changed):
            return None
        events = [sum(value < threshold for value in side) for side in (without, changed)]
        p = fisher_p((events[0], events[1]), (len(without), len(changed)))
        return Failures(
            (events[0], len(without)), (events[1], len(changed)), min(1.0, p * self.details)
        )


def bound_ends(bound: Bound) -> tuple[float, float, float]:
    """Return an estimate with its ends, itself where it has none."""
    low = bound.value if bound.low is None else bound.low
    return bound.value, low, bound.value if bound.high is None else bound.high


def effect(
    found: Scores,
    tasks: Sequence[str],
    units: Mapping[str, float],
    design: Design,
    which: int,
    level: float = LEVEL,
) -> Estimate:
    """Estimate a main effect of a fraction, a mean over tasks.

    Args:
        found: the scores.
        tasks: whose mean it is.
        units: task -> unit; {} of one task, in its metric.
        design: of the fraction.
        which: the place of the factor.
        level: of the interval.
    """
    sizes = {(task, v): unit for task, unit in units.items() for v in design.variants}
    y = factorial_scores(found, design, tasks, sizes)
    if not y.shape[1]:
        return NOTHING
    mains, _, residual = fraction_effects(y, design, level)
    comparison = next(one.comparison for one in mains if one.of == (which, 1))
    means = y.mean(axis=(0, 1))
    changed = np.array([place[which] == 1 for place in design.variants.values()])
    sides = (float(means[~changed].mean()), float(means[changed].mean()))
    return Estimate(comparison, sides, None if residual.lacks_fit else comparison.n)


def difference(
    found: Scores,
    tasks: Sequence[str],
    units: Mapping[str, float],
    pair: tuple[str, str],
    level: float = LEVEL,
) -> Estimate:
    """Estimate a difference of two variants by seed, a mean over tasks; see `regress`.

    Args:
        found: the scores.
        tasks: whose mean it is.
        units: task -> unit; {} of one task, in its metric.
        pair: the variant and what it is compared with.
        level: of the interval.
    """
    by_seed = [[found.by_seed(task, name) for task in tasks] for name in pair]
    every = sorted(set.intersection(*map(set, by_seed[1])))
    seeds = sorted(set(every).intersection(*by_seed[0]))
    if not seeds:
        return NOTHING
    ours, theirs, all_of_them = (
        np.array(
            [
                [of[s] / units.get(task, 1.0) for s in kept]
                for task, of in zip(tasks, side, strict=True)
            ]
        )
        for side, kept in ((by_seed[0], seeds), (by_seed[1], seeds), (by_seed[1], every))
    )
    more = len(every) > len(seeds)
    compared = (
        regress(ours, theirs, all_of_them, level=level)
        if more
        else compare(ours, theirs, level=level)
    )
    sides = (float(theirs.mean()), float(ours.mean()))
    return Estimate(compared, sides, compared.n)

"""From a question and the records to an answer: the mean effect over tasks in the unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ablations.core.verdict import Answer, answer
from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.questions.entries import Question, Task
from ablations.report.results import Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import LEVEL, Comparison, Design, compare, regress
from ablations.report.statistics.fractions import fraction_effects
from ablations.report.tables.factorial import factorial, factorial_scores

FEWEST = 2  # seeds, below which nothing is told
_MANY, _SOME = 100, 40  # seeds of the grades A and B


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


@dataclass(frozen=True)
class OnTask:
    """What was found on a task, in its metric.

    seeds: that are complete. missing: cells of the design that have not run. diverged: runs that
    did. estimate: of the effect.
    """

    task: Task
    seeds: int
    missing: int
    diverged: int = 0
    estimate: Estimate = NOTHING

    @property
    def share(self) -> Bound | None:
        """The effect in shares of the unit; None where the task did not pass, or nothing ran."""
        bound = self.estimate.bound
        return None if bound is None or self.task.unit is None else bound.over(self.task.unit)


@dataclass(frozen=True)
class Found:
    """A question with its answer.

    tasks: all that it names. over: those that the answer rests on. seeds: that all of these have.
    share: the mean effect over them, in shares of the unit. answer: None where nothing ran that can
    be judged. useful: as in `Estimate`. turned: leaving out one seed changes the answer. settings:
    in which every seed ran. details: whose intervals hold at once. changed: the level of the factor
    with the change, and of its reference.
    """

    question: Question
    tasks: tuple[OnTask, ...]
    over: tuple[str, ...] = ()
    seeds: int = 0
    share: Bound | None = None
    answer: Answer | None = None
    useful: int | None = None
    turned: bool = False
    settings: int = 2
    details: int = 1
    changed: tuple[str, str] | None = None

    @property
    def grade(self) -> str:
        """A, B or C by tasks and seeds; "" of a single seed, or of nothing."""
        if self.answer is None or self.seeds < FEWEST:
            return ""
        if len(self.over) >= 3 and self.seeds >= _MANY:
            return "A"
        return "B" if len(self.over) >= 2 or self.seeds >= _SOME else "C"

    @property
    def missing(self) -> Mapping[str, int]:
        """Cells of the design that have not run, by task."""
        return {on.task.name: on.missing for on in self.tasks}


# Of some scores, on some tasks in units (none: in the metric).
Estimator = Callable[[Scores, Sequence[str], Mapping[str, float]], Estimate]


def judged(
    question: Question, results: Results | None, tasks: Mapping[str, Task], planned: int
) -> Found:
    """Judge a question by what has run of its design.

    Tasks that pass the exam count, and of those that have `FEWEST` seeds; where none has, those of
    one, which tell nothing yet.

    Args:
        question: to be judged.
        results: of its design, None where nothing was planned.
        tasks: all tasks of the file.
        planned: cells of the design on each task.

    Raises:
        UserError: the question names what its study does not have.
    """
    named = [tasks[name] for name in question.tasks]
    if results is None:
        return Found(question, tuple(OnTask(task, 0, planned) for task in named))
    floors = {t.name: t.exam.floor for t in named if t.exam is not None}
    scored = scores(results).with_diverged(floors)
    if pair := {question.variant, question.versus} - {""}:
        scored = replace(scored, cells=tuple(cell for cell in scored.cells if cell.variant in pair))
    design = factorial(results.plan) if question.statistic == "effect" else None
    estimate = _estimator(question, results.plan, design)
    on = tuple(_on_task(task, results, scored, estimate, planned) for task in named)
    whole = Found(question, on)
    if design is not None:
        name = question.factor
        details = sum(levels - 1 for levels in design.shape)
        levels = design.factors[name]
        whole = replace(
            whole,
            settings=len(design.variants),
            details=details,
            changed=(levels[1], levels[0]),
        )
    return _answered(whole, scored, estimate)


def _answered(whole: Found, scored: Scores, estimate: Estimator) -> Found:
    """Return the answer over the tasks that passed and have seeds."""
    passed = [on for on in whole.tasks if on.task.unit is not None]
    kept = [on for on in passed if on.seeds >= FEWEST] or [on for on in passed if on.seeds]
    if not kept:
        return whole
    names = tuple(on.task.name for on in kept)
    units = {on.task.name: on.task.unit for on in kept if on.task.unit is not None}
    over = estimate(scored, names, units)
    ends = [_ends(on.share) for on in kept]

    def word(of: Estimate) -> Answer | None:
        bound = of.bound
        if bound is not None and of.comparison.n < FEWEST:
            return Answer.CANNOT_TELL
        if bound is None or bound.low is None or bound.high is None:
            return None
        bounds = [pair for pair in ends if pair is not None]
        return answer(*bound_ends(bound), stated=whole.question.stated, tasks=bounds)

    whole_answer = word(over)
    seeds = over.comparison.n
    return replace(
        whole,
        over=names,
        seeds=seeds,
        share=over.bound,
        answer=whole_answer,
        useful=over.useful,
        turned=seeds > FEWEST
        and any(word(estimate(rest, names, units)) != whole_answer for rest in _less_one(scored)),
    )


def bound_ends(bound: Bound) -> tuple[float, float, float]:
    """Return an estimate with its ends, itself where it has none."""
    low = bound.value if bound.low is None else bound.low
    return bound.value, low, bound.value if bound.high is None else bound.high


def _ends(bound: Bound | None) -> tuple[float, float] | None:
    if bound is None or bound.low is None or bound.high is None:
        return None
    return bound.low, bound.high


def _less_one(scored: Scores) -> Sequence[Scores]:
    """Return the scores without each seed in turn."""
    seeds = sorted({cell.seed for cell in scored.cells if cell.status == "done"})
    return [
        replace(scored, cells=tuple(cell for cell in scored.cells if cell.seed != seed))
        for seed in seeds
    ]


def _on_task(
    task: Task, results: Results, scored: Scores, estimate: Estimator, planned: int
) -> OnTask:
    cells = [cell for cell in scored.cells if cell.task == task.name]
    ended = sum(cell.status != "missing" for cell in cells)
    missing = max(planned - ended, 0)
    if not ended or task.name not in results.plan.tasks:
        return OnTask(task, 0, missing)
    effect = estimate(scored, [task.name], {})
    diverged = sum(cell.diverged for cell in cells)
    return OnTask(task, effect.comparison.n, missing, diverged, effect)


def _estimator(question: Question, plan: Plan, design: Design | None) -> Estimator:
    if question.statistic == "difference":
        return lambda found, tasks, units: difference(
            found, tasks, units, (question.variant, question.versus)
        )
    if design is None:
        raise UserError(
            f"question '{question.id}': the variants of '{question.study}' are no factorial"
        )
    if question.factor not in design.factors:
        raise unknown(f"factor of question '{question.id}'", question.factor, design.factors)
    which = list(design.factors).index(question.factor)
    return lambda found, tasks, units: effect(found, tasks, units, design, which)


def effect(
    scored: Scores,
    tasks: Sequence[str],
    units: Mapping[str, float],
    design: Design,
    which: int,
) -> Estimate:
    """Estimate a main effect of a fraction, a mean over tasks.

    Args:
        scored: the scores.
        tasks: whose mean it is.
        units: task -> unit; {} of one task, in its metric.
        design: of the fraction.
        which: the place of the factor.
    """
    sizes = {(task, v): unit for task, unit in units.items() for v in design.variants}
    y = factorial_scores(scored, design, tasks, sizes)
    if not y.shape[1]:
        return NOTHING
    mains, _, residual = fraction_effects(y, design, LEVEL)
    comparison = next(main.comparison for main in mains if main.of == (which, 1))
    means = y.mean(axis=(0, 1))
    changed = np.array([place[which] == 1 for place in design.variants.values()])
    sides = (float(means[~changed].mean()), float(means[changed].mean()))
    return Estimate(comparison, sides, None if residual.lacks_fit else comparison.n)


def difference(
    scored: Scores, tasks: Sequence[str], units: Mapping[str, float], pair: tuple[str, str]
) -> Estimate:
    """Estimate a difference of two variants by seed, a mean over tasks; see `regress`.

    Args:
        scored: the scores.
        tasks: whose mean it is.
        units: task -> unit; {} of one task, in its metric.
        pair: the variant and what it is compared with.
    """
    sizes = {(task, name): unit for task, unit in units.items() for name in pair}
    ours, theirs = np.moveaxis(scored.on_common_seeds(tasks, pair, sizes), 1, 0)
    if not ours.size:
        return NOTHING
    every = scored.on_common_seeds(tasks, pair[1:], sizes)[:, 0]
    more = every.shape[1] > ours.shape[1]
    compared = regress(ours, theirs, every) if more else compare(ours, theirs)
    sides = (float(theirs.mean()), float(ours.mean()))
    return Estimate(compared, sides, compared.n)

"""From a question and the records to an answer: the mean effect over tasks in the unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablations.core.verdict import Answer, answer
from ablations.report.questions.entries import Question, Task
from ablations.report.questions.measures import (
    ANSWERING,
    FEWEST,
    NOTHING,
    REPLICATING,
    Bound,
    Estimate,
    Failures,
    Measure,
    answering,
    bound_ends,
)
from ablations.report.results import Results
from ablations.report.scores import Scores
from ablations.report.statistics import LEVEL
from ablations.report.tables.factorial import factorial

_MANY, _SOME = 100, 40  # seeds of the grades A and B


@dataclass(frozen=True)
class OnTask:
    """The evidence of a question on a task, in its metric.

    seeds: that are complete. missing: cells of the design that have not run. diverged: runs that
    did. estimate: of the effect. lead: standard deviations between the seeds that answer from doing
    nothing to the runs without the change; None of a fraction, which has many settings. area: of
    the effect on the area under the evaluations, in shares of the unit. failures: runs below
    `FAILS` of the unit; None without a unit. joint: the ends of the interval that holds on all
    tasks of the answer at once, in the metric; None of one task alone.
    """

    task: Task
    seeds: int
    missing: int
    diverged: int = 0
    estimate: Estimate = NOTHING
    lead: float | None = None
    area: Bound | None = None
    failures: Failures | None = None
    joint: tuple[float, float] | None = None

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
    with the change, and of its reference. area: as of a task, the mean over those that count.
    again: the same on the seeds of `REPLICATING`, None where they have not run. together: on those
    and the seeds that answer. elsewhere: the same in the question's other design.
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
    area: Bound | None = None
    again: Found | None = None
    together: Found | None = None
    elsewhere: Found | None = None

    @property
    def contradicted(self) -> bool:
        """True where as many other seeds give another word."""
        if (again := self.again) is None or not again.seeds >= self.seeds >= FEWEST:
            return False
        return again.answer is not self.answer

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
    named = [tasks[name].as_run for name in question.tasks]
    if results is None:
        return Found(question, tuple(OnTask(task, 0, planned) for task in named))
    design = factorial(results.plan) if question.statistic == "effect" else None
    measure = Measure(question, results.plan, design)
    found = _judged(question, results, named, planned, measure, ANSWERING)
    again = _judged(question, results, named, planned, measure, REPLICATING)
    if again.answer is None:
        return found
    every = range(ANSWERING.start, REPLICATING.stop)
    together = _judged(question, results, named, planned, measure, every)
    return replace(found, again=again, together=together)


def _judged(
    question: Question,
    results: Results,
    named: Sequence[Task],
    planned: int,
    measure: Measure,
    seeds: range,
) -> Found:
    found = answering(results, named, seeds)
    areas = answering(results, named, seeds, "auc")
    if pair := {question.variant, question.versus} - {""}:
        found = found.where(lambda cell: cell.variant in pair)
    ran = set(results.plan.tasks)
    on = tuple(
        _on_task(task, found, areas, measure, planned)
        if task.name in ran
        else OnTask(task, 0, planned)
        for task in named
    )
    whole = Found(question, on)
    if (design := measure.design) is not None:
        levels = design.factors[question.factor]
        whole = replace(
            whole,
            settings=len(design.variants),
            details=measure.details,
            changed=(levels[1], levels[0]),
        )
    answered = _answered(whole, found, measure)
    units = {
        on.task.name: on.task.unit for on in on if on.task.unit and on.task.name in answered.over
    }
    return replace(
        answered, area=measure.estimate(areas, answered.over, units).bound if units else None
    )


def _answered(whole: Found, found: Scores, measure: Measure) -> Found:
    """Return the answer over the tasks that passed and have seeds."""
    passed = [on for on in whole.tasks if on.task.unit is not None]
    kept = [on for on in passed if on.seeds >= FEWEST] or [on for on in passed if on.seeds]
    if not kept:
        return whole
    names = tuple(on.task.name for on in kept)
    units = {on.task.name: on.task.unit for on in kept if on.task.unit is not None}
    over = measure.estimate(found, names, units)
    several = names if len(names) > 1 else ()  # one task disagrees with no other
    joint = {n: _ends(measure.estimate(found, [n], {}, LEVEL / len(names))) for n in several}

    def word(of: Estimate) -> Answer | None:
        bound = of.bound
        if bound is not None and of.comparison.n < FEWEST:
            return Answer.CANNOT_TELL
        if bound is None or bound.low is None or bound.high is None:
            return None
        ends = [pair for pair in joint.values() if pair is not None]
        return answer(*bound_ends(bound), stated=whole.question.stated, tasks=ends)

    told = word(over)
    seeds = over.comparison.n
    return replace(
        whole,
        tasks=tuple(replace(on, joint=joint.get(on.task.name)) for on in whole.tasks),
        over=names,
        seeds=seeds,
        share=over.bound,
        answer=told,
        useful=over.useful,
        turned=seeds > FEWEST
        and any(word(measure.estimate(rest, names, units)) != told for rest in _less_one(found)),
    )


def _ends(estimate: Estimate) -> tuple[float, float] | None:
    bound = estimate.bound
    if bound is None or bound.low is None or bound.high is None:
        return None
    return bound.low, bound.high


def _less_one(found: Scores) -> Sequence[Scores]:
    """Return the scores without each seed in turn."""
    seeds = sorted({cell.seed for cell in found.cells if cell.status == "done"})
    return [
        replace(found, cells=tuple(cell for cell in found.cells if cell.seed != seed))
        for seed in seeds
    ]


def _on_task(task: Task, found: Scores, areas: Scores, measure: Measure, planned: int) -> OnTask:
    cells = [cell for cell in found.cells if cell.task == task.name]
    ended = sum(cell.status != "missing" for cell in cells)
    missing = max(planned - ended, 0)
    if not ended:
        return OnTask(task, 0, missing)
    effect = measure.estimate(found, [task.name], {})
    diverged = sum(cell.diverged for cell in cells)
    on = OnTask(task, effect.comparison.n, missing, diverged, effect)
    if task.unit is None:
        return on
    area = measure.estimate(areas, [task.name], {task.name: task.unit}).bound
    lead = measure.lead(found, task)
    return replace(on, lead=lead, area=area, failures=measure.failures(found, task))

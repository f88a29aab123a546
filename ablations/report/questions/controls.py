"""Controls: what must come out, for the answers beside it to be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ablations.core.verdict import Answer, answer
from ablations.report.questions.entries import Control, Task, core_hours
from ablations.report.questions.judge import FEWEST, Bound, bound_ends, difference
from ablations.report.questions.words import hours_text, share_text
from ablations.report.results import Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import LEVEL
from ablations.report.statistics.fractions import fraction_effects
from ablations.report.statistics.unpaired import compare_unpaired
from ablations.report.tables.factorial import factorial, factorial_scores

PLANTED = 0.2  # of the unit, which has to be found


@dataclass(frozen=True)
class Outcome:
    """A control and what came out of it, in words.

    kept: whether that is what was wanted, None where it has not run.
    """

    control: Control
    text: str
    kept: bool | None


def outcome(
    control: Control, results: Results | None, tasks: Mapping[str, Task], planned: int
) -> Outcome:
    """Judge a control on each of its tasks that passed the exam.

    Args:
        control: to be judged.
        results: of its design, None where nothing was planned.
        tasks: all tasks of the file.
        planned: cells of the design on each task.
    """
    judges = {"disjoint": _disjoint, "difference": _different, "planted": _planted}
    named = [tasks[name] for name in control.tasks]
    parts = []
    if results is not None:
        scored = scores(results)
        with_tasks = [t for t in named if t.unit and t.name in results.plan.tasks]
        parts = [
            (task.name, *part)
            for task in with_tasks
            for part in judges[control.kind](control, results, scored, task)
        ]
    if parts:
        text = "; ".join(f"{task}: {text}" for task, text, _ in parts)
        return Outcome(control, text, all(kept for *_, kept in parts))
    if control.kind == "planted":
        return Outcome(control, "not run yet: two seeds of every setting on a task", None)
    cost = sum(core_hours(task, planned) for task in named)
    return Outcome(control, f"not run yet: costs about {hours_text(cost)} core-hours", None)


_Part = tuple[str, bool]  # in words, and whether it is what was wanted


def _disjoint(control: Control, results: Results, scored: Scores, task: Task) -> Iterator[_Part]:
    """Compare the first half of a variant's seeds with the second."""
    values = [value for _, value in sorted(scored.by_seed(task.name, control.variant).items())]
    half = len(values) // 2
    if half < FEWEST or task.unit is None:
        return
    compared = compare_unpaired(values[:half], values[half : 2 * half])
    if compared.difference is None or compared.low is None:
        return
    bound = Bound(compared.difference, compared.low, compared.high).over(task.unit)
    halves = answer(*bound_ends(bound))
    yield f"{share_text(bound)}, {half} seeds each", halves not in (Answer.YES, Answer.YES_SMALL)


def _different(control: Control, results: Results, scored: Scores, task: Task) -> Iterator[_Part]:
    """Compare two variants, which must not come out as equal."""
    pair = (control.variant, control.versus)
    bound = difference(scored, [task.name], {task.name: task.unit or 1.0}, pair).bound
    if bound is None or bound.low is None:
        return
    yield share_text(bound), answer(*bound_ends(bound)) is not Answer.NO


def _planted(control: Control, results: Results, scored: Scores, task: Task) -> Iterator[_Part]:
    """Count the details of a fraction of which a loss of `PLANTED` would be found.

    A loss that is taken off the scores with a detail moves the estimate and neither error, so that
    the interval around it excludes 0 where it reaches less far than the loss.
    """
    design = factorial(results.plan)
    if design is None or task.unit is None:
        return
    floors = {task.name: task.exam.floor} if task.exam else {}
    y = factorial_scores(scored.with_diverged(floors), design, [task.name], {})
    if y.shape[1] < FEWEST:
        return
    mains, _, _ = fraction_effects(y, design, LEVEL)
    reaches = np.array(
        [
            (main.comparison.high - main.comparison.low) / 2 / task.unit
            for main in mains
            if main.comparison.low is not None and main.comparison.high is not None
        ]
    )
    caught = int(np.sum(reaches < PLANTED))
    widest = f"intervals reach \u00b1{100 * reaches.max():.0f}% at most, {y.shape[1]} seeds"
    yield f"found of {caught} of {len(mains)} details; {widest}", caught == len(mains)

"""Answers in words: the line of a question, what it rests on, and the sentence to paste."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ablations.core.verdict import MARGIN, Answer
from ablations.errors import count
from ablations.report.formats.numbers import answer_text, decimals, fixed
from ablations.report.questions.entries import Task, core_hours
from ablations.report.questions.judge import FEWEST, Bound, Found, OnTask, bound_ends

_SIDES = {1: ("raises", "lowers"), -1: ("lowers", "raises"), 0: ("changes", "")}


def answer_line(answered: Found) -> str:
    """Write the answer with its bound, as "No: any effect is below 4%"."""
    if answered.answer is None or answered.share is None:
        if not any(on.seeds for on in answered.tasks):
            return f"Not run yet: costs about {hours_text(hours(answered))} core-hours"
        if answered.share is None:
            return "Cannot tell: no task with results has passed the exam"
        return "No answer: every seed says the same number"
    if answered.seeds < FEWEST:
        return f"{Answer.CANNOT_TELL}: one seed on {listed(answered.over)}"
    if answered.answer is Answer.DEPENDS:
        return f"{answered.answer}: {_sides(answered)}"
    value, low, high = bound_ends(answered.share)
    if answered.answer is not Answer.NOT_SEEN or (high - low) / 2 > MARGIN:
        return answer_text(answered.answer, value, low, high, answered.useful)
    answer = answer_text(answered.answer, value, low, high)
    return (
        f"{answer}; about {seeds_to_tell(answered):,} seeds would tell"
        if answered.useful
        else answer
    )


def seeds_to_tell(answered: Found) -> int:
    """Return the seeds that exclude 0, or what is larger than the margin, if all is as it looks."""
    assert answered.share is not None
    value, low, high = bound_ends(answered.share)
    away = max(abs(value), MARGIN - abs(value))
    return math.ceil((answered.useful or 0) * ((high - low) / 2 / away) ** 2)


def _sides(answered: Found) -> str:
    sides: dict[str, list[str]] = {"+": [], "\u2212": []}
    for on in answered.tasks:
        bound = on.share
        if on.task.name in answered.over and bound is not None and bound.low is not None:
            _, low, high = bound_ends(bound)
            if low > 0 or high < 0:
                sides["+" if low > 0 else "\u2212"].append(on.task.name)
    return ", ".join(f"{sign} on {listed(names)}" for sign, names in sides.items())


def share_text(bound: Bound | None) -> str:
    """Write an effect in % of the unit, as "+12% [6, 18]"; "" of none."""
    if bound is None:
        return ""
    percent = [None if x is None else 100 * x for x in bound]
    value, low, high = percent
    assert value is not None
    places = decimals(value, low, high)
    if low is None or high is None:
        return f"{fixed(value, places, '+')}%"
    return f"{fixed(value, places, '+')}% [{fixed(low, places)}, {fixed(high, places)}]"


def rests_on(answered: Found) -> str:
    """Write on which tasks and seeds an answer rests."""
    if not answered.over:
        return ""
    seeds = {on.task.name: on.seeds for on in answered.tasks}
    return ", ".join(f"{name} ({count(seeds[name], 'seed')})" for name in answered.over)


def grade_text(answered: Found) -> str:
    """Write the grade; a dagger where one seed turns the answer."""
    return answered.grade + ("\u2020" if answered.turned else "") if answered.answer else ""


def hours(answered: Found) -> float:
    """Return the core-hours that the design of a question still takes."""
    return sum(core_hours(on.task, on.missing) for on in answered.tasks)


def hours_text(value: float) -> str:
    """Write core-hours to two digits."""
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}"


def listed(names: Sequence[str]) -> str:
    """Write "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def meanings(answered: Found) -> list[tuple[str, str]]:
    """Return what each answer would say of the question's sentence."""
    question = answered.question
    change = question.change
    yes, reverse = _SIDES[question.stated]
    margin = f"{100 * MARGIN:g}%"
    rows = [(str(Answer.YES), f"{change} {yes} the score, and by {margin} of the unit or more.")]
    rows.append((str(Answer.YES_SMALL), f"It {yes} the score, by less than {margin}."))
    if reverse:
        rows.append((str(Answer.REVERSE), f"It {reverse} the score."))
    rows.append((str(Answer.NO), f"It moves the score by less than {margin}, for sure."))
    return rows


def takes(answered: Found) -> str:
    """Write what would tell more, where the answer is open; "" where it is not."""
    left = hours(answered)
    rest = (
        f"All seeds of the design take about {hours_text(left)} more core-hours on "
        f"{listed([on.task.name for on in answered.tasks if on.missing])}."
        if left
        else ""
    )
    if answered.answer is None:
        return rest
    if answered.seeds < FEWEST:
        return (
            "A second seed on the same tasks, and then as many as the interval asks for: with one, "
            f"nothing tells how far seeds differ. {rest}"
        ).strip()
    if answered.answer not in (Answer.CANNOT_TELL, Answer.NOT_SEEN):
        return ""
    assert answered.share is not None
    _, low, high = bound_ends(answered.share)
    if answered.useful is None:
        return (
            "More seeds alone would not do: the interval rests on what interactions of three "
            f"details add to the settings' means, which other settings would average out. {rest}"
        ).strip()
    needed = math.ceil(answered.useful * ((high - low) / 2 / MARGIN) ** 2)
    where = listed(answered.over)
    return (
        f"About {seeds_to_tell(answered):,} seeds on {where} if the effect is as it looks, and "
        f"{needed:,} seeds for an interval of \u00b15%, at this spread. {rest}"
    ).strip()


def paste(answered: Found) -> str:
    """Write the paragraph that stands alone in a thread; "" where nothing ran."""
    if answered.answer is None or answered.share is None:
        return ""
    question = answered.question
    answer = answer_line(answered)
    if answered.answer in (Answer.NO, Answer.DEPENDS) or answered.seeds < FEWEST:
        answer += f" ({share_text(answered.share)})"
    across = (
        f"averaged over {answered.settings} settings of {answered.details} details of PPO, with "
        "the 95% intervals of all details at once"
        if question.statistic == "effect"
        else "as a single change of the baseline, with its 95% interval"
    )
    where = listed([_run_text(on) for on in answered.tasks if on.task.name in answered.over])
    first = answered.seeds < FEWEST
    return (
        f"{question.question} {answer}. Measured: {question.change}, {across}, in % of what the "
        f"baseline learned beyond doing nothing, on {where}"
        + ("; one seed does not tell." if first else ".")
    )


def _run_text(on: OnTask) -> str:
    return f"{on.task.name} ({on.task.about}; {count(on.seeds, 'seed')})"


def exam_text(task: Task) -> str:
    """Write what the exam said of a task."""
    if task.exam is None:
        return "not examined"
    if task.exam.passes:
        return "passes"
    return "does not pass"

"""Answers in words: the line of a question, what it rests on, and the sentence to paste."""

from __future__ import annotations

import math

from ablations.core.verdict import MARGIN, Answer
from ablations.distributions import student_quantile
from ablations.errors import count, listed
from ablations.report.formats.numbers import answer_text, decimals, fixed
from ablations.report.questions.entries import Task, core_hours
from ablations.report.questions.judge import Found
from ablations.report.questions.measures import FEWEST, Bound, bound_ends
from ablations.report.statistics import LEVEL

_SIDES = {1: ("raises", "lowers"), -1: ("lowers", "raises"), 0: ("changes", "")}


def answer_line(found: Found) -> str:
    """Write the answer with its bound, as "No: any effect is below 4%"."""
    if found.answer is None or found.share is None:
        if not any(on.seeds for on in found.tasks):
            return f"Not run yet: costs about {hours_text(hours(found))} core-hours"
        if found.share is None:
            return "Cannot tell: no task with results has passed the exam"
        return "No answer: every seed says the same number"
    if found.seeds < FEWEST:
        return f"{Answer.CANNOT_TELL}: one seed on {listed(found.over)}"
    if found.answer is Answer.DEPENDS:
        return f"{found.answer}: {_sides(found)}"
    value, low, high = bound_ends(found.share)
    if found.answer is not Answer.NOT_SEEN or (high - low) / 2 > MARGIN:
        return answer_text(found.answer, value, low, high, found.useful)
    told = answer_text(found.answer, value, low, high)
    return f"{told}; about {seeds_to_tell(found):,} seeds would tell" if found.useful else told


def seeds_to_tell(found: Found) -> int:
    """Return the seeds that exclude 0, or what is larger than the margin, if all is as it looks."""
    assert found.share is not None
    value, low, high = bound_ends(found.share)
    away = max(abs(value), MARGIN - abs(value))
    return math.ceil((found.useful or 0) * ((high - low) / 2 / away) ** 2)


def _sides(found: Found) -> str:
    sides: dict[str, list[str]] = {"+": [], "\u2212": []}
    for on in found.tasks:
        low, high = on.joint or (0.0, 0.0)
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


def effect_text(found: Found) -> str:
    """Write the effect with its interval, or the one that is expected of the whole design."""
    if found.answer is not None:
        return share_text(found.share)
    reach = expected(found)
    return "" if reach is None else f"\u00b1{100 * reach:.0f}% expected"


def expected(found: Found) -> float | None:
    """Return how far a difference's interval will reach, in shares of the unit.

    Where the variant's seeds differ as the baseline's did in the exam, and pairs gain nothing. None
    where something has run, and of a task without an exam that it passes.
    """
    exams = [on.task.exam for on in found.tasks if on.task.exam and on.task.unit]
    n = min((on.missing // 2 for on in found.tasks), default=0)
    if found.question.statistic == "effect" or any(on.seeds for on in found.tasks):
        return None
    if len(exams) < len(found.tasks) or n < FEWEST:
        return None
    error = math.sqrt(sum(2 / n / exam.lead**2 for exam in exams)) / len(exams)
    return -student_quantile(n - 1, LEVEL / 2) * error


def failures_text(failed: tuple[int, int]) -> str:
    """Write "3 of 64"."""
    return f"{failed[0]} of {failed[1]}"


def again_text(found: Found, again: Found | None) -> str:
    """Write what a replication of an answer says."""
    if again is None or again.answer is None:
        return "not yet run"
    if again.seeds < FEWEST:
        return f"one seed so far, on {listed(again.over)}"
    same = "the same word" if again.answer is found.answer else "another word"
    text = f"{same}, on {rests_on(again)}: {_with_share(again)}"
    if again is not found.again or found.together is None:
        return text
    return f"{text}. All seeds together: {_with_share(found.together)}"


def _with_share(found: Found) -> str:
    """Write the answer, and the effect where it does not say it."""
    said = answer_line(found)
    if found.answer in (Answer.YES, Answer.YES_SMALL, Answer.REVERSE):
        return said
    return f"{said} ({share_text(found.share)})"


def rests_on(found: Found) -> str:
    """Write on which tasks and seeds an answer rests."""
    if not found.over:
        return ""
    seeds = {on.task.name: on.seeds for on in found.tasks}
    return ", ".join(f"{name} ({count(seeds[name], 'seed')})" for name in found.over)


def grade_text(found: Found) -> str:
    """Write the grade; daggers where one seed turns the answer, and where other seeds do."""
    if found.answer is None:
        return ""
    return found.grade + "\u2020" * found.turned + "\u2021" * found.contradicted


def hours(found: Found) -> float:
    """Return the core-hours that the design of a question still takes."""
    return sum(core_hours(on.task, on.missing) for on in found.tasks)


def hours_text(value: float) -> str:
    """Write core-hours to two digits."""
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}"


def meanings(found: Found) -> list[tuple[str, str]]:
    """Return what each answer would say of the question's sentence."""
    question = found.question
    change = question.change
    yes, reverse = _SIDES[question.stated]
    margin = f"{100 * MARGIN:g}%"
    rows = [(str(Answer.YES), f"{change} {yes} the score, and by {margin} of the unit or more.")]
    rows.append((str(Answer.YES_SMALL), f"It {yes} the score, by less than {margin}."))
    if reverse:
        rows.append((str(Answer.REVERSE), f"It {reverse} the score."))
    rows.append((str(Answer.NO), f"It moves the score by less than {margin}, for sure."))
    return rows


def direction(found: Found) -> str:
    """Write which way the change moves the score; "" where the answer does not say."""
    told = found.answer in (Answer.YES, Answer.YES_SMALL, Answer.REVERSE)
    if not told or found.share is None:
        return ""
    return f"{found.question.change} {'raises' if found.share.value > 0 else 'lowers'} the score."


def takes(found: Found) -> str:
    """Write what would tell more, where the answer is open; "" where it is not."""
    left = hours(found)
    rest = (
        f"All seeds of the design take about {hours_text(left)} more core-hours on "
        f"{listed([on.task.name for on in found.tasks if on.missing])}."
        if left
        else ""
    )
    if found.answer is None:
        reach = expected(found)
        told = (
            "" if reach is None else f"That would tell an effect to about \u00b1{100 * reach:.0f}%."
        )
        return f"{rest} {told}".strip()
    if found.seeds < FEWEST:
        return (
            "A second seed on the same tasks, and then as many as the interval asks for: with one, "
            f"nothing tells how far seeds differ. {rest}"
        ).strip()
    if found.answer not in (Answer.CANNOT_TELL, Answer.NOT_SEEN):
        return ""
    assert found.share is not None
    _, low, high = bound_ends(found.share)
    if found.useful is None:
        return (
            "More seeds alone would not do: the interval rests on what interactions of three "
            f"details add to the settings' means, which other settings would average out. {rest}"
        ).strip()
    needed = math.ceil(found.useful * ((high - low) / 2 / MARGIN) ** 2)
    where = listed(found.over)
    return (
        f"About {seeds_to_tell(found):,} seeds on {where} if the effect is as it looks, and "
        f"{needed:,} seeds for an interval of \u00b15%, at this spread. {rest}"
    ).strip()


def paste(found: Found) -> str:
    """Write the paragraph that stands alone in a thread; "" where nothing ran."""
    if found.answer is None or found.share is None:
        return ""
    question = found.question
    said = answer_line(found)
    if found.answer in (Answer.NO, Answer.DEPENDS) or found.seeds < FEWEST:
        said = _with_share(found)
    across = (
        f"averaged over {found.settings} settings of {found.details} details of PPO, with the 95% "
        "intervals of all details at once"
        if question.statistic == "effect"
        else "as a single change of the baseline, with its 95% interval"
    )
    judged = [on for on in found.tasks if on.task.name in found.over]
    where = listed(
        [f"{on.task.name} ({on.task.about}; {count(on.seeds, 'seed')})" for on in judged]
    )
    first = found.seeds < FEWEST
    return (
        f"{question.question} {said}. Measured: {question.change}, {across}, in % of what the "
        f"baseline learned, on {where}" + ("; one seed does not tell." if first else ".")
    )


def exam_text(task: Task) -> str:
    """Write what the exam said of a task."""
    if task.exam is None:
        return "not examined"
    if task.exam.passes:
        return "passes"
    return "does not pass"

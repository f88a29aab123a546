"""The tables that `ablations questions` prints."""

from __future__ import annotations

from collections.abc import Sequence

from ablations.report.questions import words
from ablations.report.questions.controls import Outcome
from ablations.report.questions.judge import Found
from ablations.report.tables.entries import Sheet, Values, text_columns


def questions_sheet(found: Sequence[Found]) -> Sheet:
    """List each question with its answer, effect, grade, and what that rests on."""
    rows = []
    for one in found:
        share = (None, None, None) if one.share is None else one.share
        rows.append(
            (
                *(one.question.id, one.question.group, one.question.question),
                *(words.answer_line(one), words.share_text(one.share), *share),
                *(words.grade_text(one), words.rests_on(one), one.seeds),
            )
        )
    return Sheet(
        "questions",
        "questions",
        "Each question's answer: the mean effect over tasks that passed the entrance exam, in "
        "shares of what the baseline learned beyond doing nothing, with intervals of 95%. Grades: "
        "A, three tasks and 100 seeds or more; B, two tasks or 40 seeds; C, less; none, one seed. "
        "\u2020: leaving out one seed changes the answer; \u2021: as many other seeds give "
        "another.",
        (
            *("question", "group", "text", "answer", "effect", "share", "share_low", "share_high"),
            *("grade", "tasks", "seeds"),
        ),
        tuple(rows),
        text_columns("question", "answer", "effect", "grade", "tasks"),
    )


def controls_sheet(controls: Sequence[Outcome]) -> Sheet:
    """List each control with what came out on each task; `kept` is None where nothing ran."""
    rows: list[Values] = []
    for one in controls:
        head = (one.control.id, one.control.title, one.control.wanted)
        rows += [(*head, place, part.text, part.kept) for place, part in one.parts.items()]
        if not one.parts:
            rows.append((*head, "", one.waiting, None))
    return Sheet(
        "questions",
        "controls",
        "What must come out of each control for the answers to be trusted, and what did. Effects "
        "are in % of what the baseline learned beyond doing nothing.",
        ("control", "title", "wanted", "task", "result", "kept"),
        tuple(rows),
        text_columns("control", "wanted", "task", "result", "kept"),
    )

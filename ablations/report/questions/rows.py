"""The table that `ablations questions` prints."""

from __future__ import annotations

from collections.abc import Sequence

from ablations.report.questions import words
from ablations.report.questions.judge import Found
from ablations.report.tables.entries import Sheet, text_columns


def questions_sheet(answered: Sequence[Found]) -> Sheet:
    """List each question with its answer, effect, grade, and what that rests on."""
    rows = []
    for question in answered:
        share = (None, None, None) if question.share is None else question.share
        rows.append(
            (
                *(question.question.id, question.question.group, question.question.question),
                *(words.answer_line(question), words.share_text(question.share), *share),
                *(words.grade_text(question), words.rests_on(question), question.seeds),
            )
        )
    return Sheet(
        "questions",
        "questions",
        "Each question's answer: the mean effect over tasks that passed the entrance exam, in "
        "shares of what the baseline learned beyond doing nothing, with intervals of 95%. Grades: "
        "A, three tasks and 100 seeds or more; B, two tasks or 40 seeds; C, less; none, one seed. "
        "\u2020: leaving out one seed changes the answer.",
        (
            *("question", "group", "text", "answer", "effect", "share", "share_low", "share_high"),
            *("grade", "tasks", "seeds"),
        ),
        tuple(rows),
        text_columns("question", "answer", "effect", "grade", "tasks"),
    )

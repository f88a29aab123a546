"""results/questions: the list of questions with their controls, a page for each, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ablations.core.plan import Flags
from ablations.core.verdict import MARGIN, SEEN, Answer
from ablations.report.formats.markdown import markdown_text, pipes
from ablations.report.formats.numbers import decimals, fixed
from ablations.report.formats.templates import templates
from ablations.report.questions import words
from ablations.report.questions.controls import Outcome
from ablations.report.questions.entries import GROUPS, Task
from ablations.report.questions.judge import Found, OnTask
from ablations.report.tables.entries import Sheet, text_columns
from ablations.request import Request

_HEADS = ("question", "answer", "effect", "grade", "tasks", "search words")


def index(answered: Sequence[Found], tasks: Sequence[Task], controls: Sequence[Outcome]) -> str:
    """Write the list: controls first, then the questions in groups, by index.md.j2."""
    ran = [question for question in answered if question.answer is not None]
    return (
        templates(Path(__file__).parent)
        .get_template("index.md.j2")
        .render(
            found=answered,
            ran=ran,
            answered=[
                question
                for question in ran
                if question.grade and question.answer is not Answer.CANNOT_TELL
            ],
            exam=_exam(tasks),
            controls=_controls(controls),
            groups=[
                (group, _listed(mine))
                for group in GROUPS
                if (mine := [question for question in answered if question.question.group == group])
            ],
            seen=f"{100 * SEEN:g}%",
            margin=f"{100 * MARGIN:g}%",
        )
    )


def one_page(answered: Found) -> str:
    """Write the page of a question, by question.md.j2."""
    return (
        templates(Path(__file__).parent)
        .get_template("question.md.j2")
        .render(
            found=answered,
            question=answered.question,
            answer=words.answer_line(answered),
            grade=words.grade_text(answered),
            rests_on=words.rests_on(answered),
            waiting=[on.task.name for on in answered.tasks if on.task.name not in answered.over],
            meanings=words.meanings(answered),
            numbers=_numbers(answered),
            takes=words.takes(answered),
            paste=words.paste(answered),
            commands=commands(answered),
            share=words.share_text(answered.share),
            several=len(answered.over) > 1,
        )
    )


def commands(answered: Found) -> list[str]:
    """Return what runs the next seed of each task that lacks cells, and what prints the answer."""
    question = answered.question
    lines = []
    for on in answered.tasks:
        if on.missing:
            run: Flags = {**question.run, "tasks": [on.task.name]}
            if question.statistic == "difference":
                run["variants"] = [question.versus, question.variant]
            else:
                run["seeds"] = f"{on.seeds}-{on.seeds}"
            lines.append(Request.of(question.study, run).command())
    return [*lines, f"ablations questions {question.id}"]


def _listed(answered: Sequence[Found]) -> str:
    lines = [
        [
            f"[{markdown_text(question.question.question)}]({question.question.id}.md)",
            markdown_text(words.answer_line(question)),
            words.share_text(question.share),
            words.grade_text(question),
            words.rests_on(question),
            markdown_text(", ".join(question.question.terms)),
        ]
        for question in answered
    ]
    return "\n".join(pipes(_HEADS, lines, set()))


def _exam(tasks: Sequence[Task]) -> str:
    heads = [
        "task",
        "learns nothing",
        "baseline",
        "SDs above",
        "% of the way",
        "% at ceiling",
        "exam",
    ]
    lines = []
    for task in tasks:
        exam = task.exam
        numbers = (
            ["", "", "", "", ""]
            if exam is None
            else [f"{x:g}" for x in (exam.floor, exam.score, exam.lead, exam.way, exam.ceiling)]
        )
        note = f": {exam.note}" if exam is not None and exam.note else ""
        about = f"{task.name} ({task.about})"
        lines.append([markdown_text(about), *numbers, words.exam_text(task) + markdown_text(note)])
    return "\n".join(pipes(heads, lines, set(heads[1:6])))


def _controls(controls: Sequence[Outcome]) -> str:
    kept = {True: "as it must", False: "**not as it must**", None: ""}
    lines = [
        [
            markdown_text(outcome.control.title),
            markdown_text(outcome.control.wanted),
            markdown_text(outcome.text),
            kept[outcome.kept],
        ]
        for outcome in controls
    ]
    return "\n".join(pipes(["control", "must come out", "came out", ""], lines, set()))


def _numbers(answered: Found) -> str:
    heads = [
        "task",
        "without",
        "with",
        "effect",
        "[95%]",
        "% of the unit",
        "seeds",
        "diverged",
        "exam",
    ]
    lines = [_row(on) for on in answered.tasks]
    if len(answered.over) > 1:
        share = words.share_text(answered.share)
        lines.insert(0, ["mean over tasks", "", "", "", "", share, str(answered.seeds), "", ""])
    return "\n".join(pipes(heads, lines, set(heads[1:4]) | {"seeds", "diverged"}))


def _row(on: OnTask) -> list[str]:
    bound, sides = on.estimate.bound, on.estimate.sides
    if bound is None or sides is None:
        return [on.task.name, *[""] * 5, str(on.seeds), "", words.exam_text(on.task)]
    places = decimals(*bound)
    interval = ""
    if bound.low is not None and bound.high is not None:
        interval = f"[{fixed(bound.low, places, '+')}, {fixed(bound.high, places, '+')}]"
    return [
        on.task.name,
        *(fixed(side, places) for side in sides),
        fixed(bound.value, places, "+"),
        interval,
        words.share_text(on.share),
        str(on.seeds),
        str(on.diverged),
        words.exam_text(on.task),
    ]


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

"""results/README.md, the list of questions with their controls, and a page for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ablations.core.plan import Flags
from ablations.core.verdict import MARGIN, SEEN, Answer, answer
from ablations.records import write_atomically
from ablations.report.figures.questions import all_questions, one_question
from ablations.report.figures.style import write as write_figure
from ablations.report.formats.markdown import markdown_text, pipes
from ablations.report.formats.numbers import decimals, fixed, p_text
from ablations.report.formats.templates import templates
from ablations.report.questions import words
from ablations.report.questions.controls import Outcome
from ablations.report.questions.entries import GROUPS, Task
from ablations.report.questions.evidence import Spent
from ablations.report.questions.judge import Found, OnTask
from ablations.report.questions.measures import REPLICATING
from ablations.report.units import LEAD
from ablations.request import Request

_KEPT = {
    True: "as it must",
    False: "**not as it must**",
    None: "so far, of fewer seeds than planned",
}
_BOUNDED = (Answer.NO, Answer.NOT_SEEN)
_HEADS = ("question", "answer", "effect", "grade", "tasks", "search words")


def index(
    found: Sequence[Found], tasks: Sequence[Task], controls: Sequence[Outcome], took: Spent
) -> str:
    """Write the list: controls first, then the questions in groups, by index.md.j2."""
    ran = [one for one in found if one.answer is not None]
    on_tasks = _on_tasks(ran)
    return (
        templates(Path(__file__).parent)
        .get_template("index.md.j2")
        .render(
            found=found,
            ran=ran,
            answered=[one for one in ran if one.grade and one.answer is not Answer.CANNOT_TELL],
            took=took,
            short=_short(found),
            enough=LEAD,
            bounded=[one for one in ran if one.grade and one.answer in _BOUNDED],
            on_tasks=on_tasks,
            told=[one for one in on_tasks if one is not Answer.CANNOT_TELL],
            exam=_exam(tasks),
            controls=_controls(controls),
            control_commands=[one.control.command for one in controls if one.kept is None],
            groups=[
                (group, _listed(mine))
                for group in GROUPS
                if (mine := [one for one in found if one.question.group == group])
            ],
            seen=f"{100 * SEEN:g}%",
            margin=f"{100 * MARGIN:g}%",
        )
    )


def one_page(found: Found) -> str:
    """Write the page of a question, by question.md.j2."""
    return (
        templates(Path(__file__).parent)
        .get_template("question.md.j2")
        .render(
            found=found,
            question=found.question,
            answer=words.answer_line(found),
            grade=words.grade_text(found),
            rests_on=words.rests_on(found),
            waiting=[on.task.name for on in found.tasks if on.task.name not in found.over],
            direction=words.direction(found),
            meanings=words.meanings(found),
            numbers=_numbers(found),
            leads=[on for on in found.tasks if on.lead is not None and on.task.name in found.over],
            enough=LEAD,
            beside=_beside(found),
            again=words.again_text(found, found.again),
            elsewhere=words.again_text(found, found.elsewhere),
            replication=replication(found),
            takes=words.takes(found),
            paste=words.paste(found),
            commands=commands(found),
            share=words.effect_text(found),
            several=len(found.over) > 1,
            uneven=len({on.seeds for on in found.tasks if on.task.name in found.over}) > 1,
        )
    )


def commands(found: Found) -> list[str]:
    """Return what runs the next seed of each task that lacks cells, and what prints the answer."""
    question = found.question
    lines = []
    for on in found.tasks:
        if on.missing:
            run: Flags = {**question.run, "tasks": [on.task.name]}
            if question.statistic == "difference":
                run["variants"] = [question.versus, question.variant]
            else:
                run["seeds"] = f"{on.seeds}-{on.seeds}"
            lines.append(Request.of(question.study, run).command())
    return [*lines, f"ablations show {question.id}"]


def replication(found: Found) -> str:
    """Return what runs as many other seeds; "" where nothing has run."""
    question = found.question
    if not found.seeds:
        return ""
    first = REPLICATING.start
    run: Flags = {
        **question.run,
        "tasks": list(found.over),
        "seeds": f"{first}-{first + found.seeds - 1}",
    }
    if question.statistic == "difference":
        run["variants"] = [question.versus, question.variant]
    return Request.of(question.study, run).command()


def _listed(found: Sequence[Found]) -> str:
    lines = [
        [
            f"[{markdown_text(one.question.question)}](questions/{one.question.id}.md)",
            markdown_text(words.answer_line(one)),
            words.effect_text(one),
            words.grade_text(one),
            words.rests_on(one),
            markdown_text(", ".join(one.question.terms)),
        ]
        for one in found
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
        about = f"{task.runs or task.name} ({task.about})"
        lines.append([markdown_text(about), *numbers, words.exam_text(task) + markdown_text(note)])
    return "\n".join(pipes(heads, lines, set(heads[1:6])))


def _on_tasks(found: Sequence[Found]) -> list[Answer]:
    """Return what each task says by itself, of those that answers rest on."""
    judged = (on for one in found if one.grade for on in one.tasks if on.task.name in one.over)
    shares = [on.share for on in judged if on.share is not None]
    return [
        answer(value, low, high)
        for value, low, high in shares
        if low is not None and high is not None
    ]


def _short(found: Sequence[Found]) -> dict[str, tuple[int, int, float]]:
    """Tasks -> questions whose unchanged runs fall short of the exam, all of them, the least."""
    leads: dict[str, list[float]] = {}
    for one in found:
        for on in one.tasks:
            if on.lead is not None and on.task.name in one.over:
                leads.setdefault(on.task.name, []).append(on.lead)
    return {
        name: (sum(x < LEAD for x in of), len(of), min(of))
        for name, of in leads.items()
        if min(of) < LEAD
    }


def _controls(controls: Sequence[Outcome]) -> str:
    lines = []
    for one in controls:
        names = [markdown_text(one.control.title), markdown_text(one.control.wanted)]
        for place, part in one.parts.items():
            lines.append([*names, place, markdown_text(part.text), _KEPT[part.kept]])
            names = ["", ""]
        if not one.parts:
            lines.append([*names, "", one.waiting, ""])
    return "\n".join(pipes(["control", "must come out", "on", "came out", ""], lines, set()))


def _numbers(found: Found) -> str:
    heads = [
        "task",
        "unchanged",
        "changed",
        "effect",
        "[95%]",
        "% of the unit",
        "seeds",
        "SDs above",
        "diverged",
        "exam",
    ]
    lines = [_row(on) for on in found.tasks]
    if len(found.over) > 1:
        share = words.share_text(found.share)
        lines.insert(0, ["mean over tasks", "", "", "", "", share, str(found.seeds), "", "", ""])
    return "\n".join(pipes(heads, lines, set(heads[1:4]) | {"seeds", "SDs above", "diverged"}))


def _beside(found: Found) -> str:
    """List the effect on the area under the evaluations, and the runs that failed."""
    heads = ["task", "area, % of the unit", "failed unchanged", "failed changed", "p (adj.)"]
    lines = [
        [
            on.task.name,
            words.share_text(on.area),
            *(words.failures_text(side) for side in on.failures[:2]),
            p_text(on.failures.p),
        ]
        for on in found.tasks
        if on.failures is not None
    ]
    if len(found.over) > 1:
        lines.insert(0, ["mean over tasks", words.share_text(found.area), "", "", ""])
    return "\n".join(pipes(heads, lines, set(heads[2:]))) if lines else ""


def _row(on: OnTask) -> list[str]:
    bound, sides = on.estimate.bound, on.estimate.sides
    if bound is None or sides is None:
        return [on.task.name, *[""] * 5, str(on.seeds), "", "", words.exam_text(on.task)]
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
        "" if on.lead is None else f"{on.lead:.1f}",
        str(on.diverged),
        words.exam_text(on.task),
    ]


def write(
    answered: Sequence[Found],
    controls: Sequence[Outcome],
    tasks: Sequence[Task],
    took: Spent,
    folder: Path,
) -> Path:
    """Write README.md, and of each question a page and a figure; return the path of the list."""
    pages = {f"questions/{each.question.id}": one_page(each) for each in answered}
    for name, text in {"README": index(answered, tasks, controls, took), **pages}.items():
        write_atomically(folder / f"{name}.md", text)
    undecided = (None, Answer.CANNOT_TELL, Answer.NOT_SEEN)
    told = [each for each in answered if each.answer not in undecided]
    for name, some in {"all_questions": answered, "told": told}.items():
        if any(each.answer is not None for each in some):
            write_figure(all_questions(some), folder, f"questions/{name}", ["svg"])
    for each in answered:
        if each.share is not None:
            write_figure(one_question(each), folder, f"questions/{each.question.id}", ["svg"])
    return folder / "README.md"

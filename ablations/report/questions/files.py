"""The pages of questions with their figures, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ablations.core.verdict import Answer
from ablations.records import write_atomically
from ablations.report.figures.questions import all_questions, one_question
from ablations.report.figures.style import write as write_figure
from ablations.report.questions.controls import Outcome
from ablations.report.questions.entries import Task
from ablations.report.questions.evidence import Spent
from ablations.report.questions.judge import Found
from ablations.report.questions.page import index, one_page


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

"""The questions as one HTML file: searched and filtered without a network."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations.core.verdict import Answer
from ablations.report.figures.palette import COLORS
from ablations.report.formats.templates import templates
from ablations.report.questions import words
from ablations.report.questions.controls import Outcome
from ablations.report.questions.judge import Found
from ablations.report.questions.page import commands

LIBRARIES = ("Brax", "CleanRL", "SB3", "RSL-RL", "TorchRL", "skrl", "seed_rl", "OpenRLHF")
_NAMES = ("page", "raised", "text", "quiet", "line", "link", "focus")
_MEANINGS = ("better", "worse", "equivalent", "undecided")


@dataclass(frozen=True)
class Card:
    """A question as the site shows it.

    kind: its answer without numbers. color: a name of the palette, of what the answer means.
    figure: an SVG in base64, "" of none.
    """

    found: Found
    answer: str
    kind: str
    color: str
    effect: str
    grade: str
    rests_on: str
    paste: str
    takes: str
    again: str
    area: str
    failed: str
    commands: tuple[str, ...]
    libraries: tuple[str, ...]
    figure: str

    @property
    def searched(self) -> str:
        """All that the search looks through, in small letters."""
        question = self.found.question
        texts = (question.id, question.title, question.question, question.sentence, question.change)
        return " ".join((*texts, question.source, *question.terms, self.answer)).lower()


def card(found: Found, figure: bytes | None) -> Card:
    """Return a question with its texts.

    Args:
        found: the question with its answer.
        figure: its SVG, None where nothing ran.
    """
    question, answer = found.question, words.answer_line(found)
    text = " ".join((question.source, question.question, question.sentence, *question.terms))
    return Card(
        found=found,
        answer=answer,
        kind=str(found.answer) if found.answer is not None else answer.partition(":")[0],
        color=_color(found),
        effect=words.effect_text(found),
        grade=words.grade_text(found),
        rests_on=words.rests_on(found),
        paste=words.paste(found),
        takes=words.takes(found),
        again=words.again_text(found, found.again),
        area=words.share_text(found.area),
        failed="; ".join(
            f"{on.task.name} {words.failures_text(on.failures.without)} unchanged, "
            f"{words.failures_text(on.failures.changed)} changed"
            for on in found.tasks
            if on.failures is not None
        ),
        commands=tuple(commands(found)),
        libraries=tuple(name for name in LIBRARIES if name.lower() in text.lower()),
        figure="" if figure is None else base64.b64encode(figure).decode(),
    )


def _color(found: Found) -> str:
    """Return the colour of what an answer means: better, worse, no difference, or open."""
    if found.answer is None or found.share is None or not found.grade:
        return "undecided"
    if found.answer == "No":
        return "equivalent"
    if found.answer in ("Not seen", "Cannot tell", "It depends"):
        return "undecided"
    return "better" if found.share.value > 0 else "worse"


def site(cards: Sequence[Card], controls: Sequence[Outcome]) -> str:
    """Write the site, by site.html.j2: what is told first, and what has not run last."""
    last = {Answer.NOT_SEEN: 1, Answer.CANNOT_TELL: 2, None: 3}
    cards = sorted(cards, key=lambda card: last.get(card.found.answer, 0))
    tasks = dict.fromkeys(task for one in cards for task in one.found.question.tasks)
    filters: Mapping[str, Sequence[str]] = {
        "library": [name for name in LIBRARIES if any(name in one.libraries for one in cards)],
        "task": list(tasks),
        "answer": list(dict.fromkeys(one.kind for one in cards)),
    }
    colors = {name: COLORS[name] for name in (*_NAMES, *_MEANINGS)}
    template = templates(Path(__file__).parent, html=True).get_template("site.html.j2")
    kept = Counter(one.kept for one in controls)
    return template.render(
        cards=cards, controls=controls, kept=kept, filters=filters, colors=colors
    )

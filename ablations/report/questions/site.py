"""The questions as one HTML file: searched and filtered without a network."""

from __future__ import annotations

import base64
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
_OPEN = (Answer.NOT_SEEN, Answer.CANNOT_TELL, Answer.DEPENDS)
_MEANINGS = ("better", "worse", "equivalent", "undecided")


@dataclass(frozen=True)
class Card:
    """A question as the site shows it. figure: an SVG in base64, "" where nothing ran."""

    found: Found
    figure: str

    @property
    def kind(self) -> str:
        """Its answer without numbers."""
        answer = self.found.answer
        return words.answer_line(self.found).partition(":")[0] if answer is None else str(answer)

    @property
    def libraries(self) -> list[str]:
        """The libraries that it names."""
        question = self.found.question
        texts = (question.source, question.question, question.sentence, *question.terms)
        return [name for name in LIBRARIES if name.lower() in " ".join(texts).lower()]

    @property
    def searched(self) -> str:
        """All that the search looks through, in small letters."""
        question = self.found.question
        texts = (question.id, question.title, question.question, question.sentence, question.change)
        answer = words.answer_line(self.found)
        return " ".join((*texts, question.source, *question.terms, answer)).lower()

    @property
    def color(self) -> str:
        """The colour of what its answer means: better, worse, no difference, or open."""
        answer, share = self.found.answer, self.found.share
        if answer in (None, *_OPEN) or share is None or not self.found.grade:
            return "undecided"
        if answer is Answer.NO:
            return "equivalent"
        return "better" if share.value > 0 else "worse"


def site(
    answered: Sequence[Found], figures: Mapping[str, bytes], controls: Sequence[Outcome]
) -> str:
    """Write the site, by site.html.j2.

    Args:
        answered: the questions with their answers.
        figures: question -> its SVG, where something ran.
        controls: what came out of them.
    """
    cards = [
        Card(found, base64.b64encode(figures.get(found.question.id, b"")).decode())
        for found in answered
    ]
    tasks = dict.fromkeys(task for card in cards for task in card.found.question.tasks)
    filters: Mapping[str, Sequence[str]] = {
        "library": [name for name in LIBRARIES if any(name in card.libraries for card in cards)],
        "task": list(tasks),
        "answer": list(dict.fromkeys(card.kind for card in cards)),
    }
    colors = {name: COLORS[name] for name in (*_NAMES, *_MEANINGS)}
    template = templates(Path(__file__).parent, html=True).get_template("site.html.j2")
    return template.render(
        cards=cards,
        controls=controls,
        filters=filters,
        colors=colors,
        words=words,
        commands=commands,
    )

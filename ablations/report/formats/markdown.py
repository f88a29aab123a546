"""Markdown: long, one row per task and variant, so that it fits a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence

from ablations.report.formats.numbers import (
    Digits,
    lines_of,
    p_text,
    seeds_text,
    verdict_text,
    without_repeats,
)
from ablations.report.tables.entries import Entry, Sheet, Table

Text = Callable[[Entry, Digits], str]


def _score(row: Entry, digits: Digits) -> str:
    score, _ = digits.score(row)
    return f"**{score}**" if row.best else f"{score}†" if row.tied else score


def _chance(row: Entry, digits: Digits) -> str:
    chance = row.probability_of_improvement
    return "" if chance is None else f"{chance:.2f}"


def _head(row: Entry) -> str:
    return "learns nothing" if row.policy else "baseline"


# Of a comparison, a row per task and variant: head, whether aligned to the right, text.
_COMPARISON: tuple[tuple[str, bool, Text], ...] = (
    ("task", False, lambda row, digits: markdown_text(row.task)),
    ("variant", False, lambda row, digits: markdown_text(row.variant)),
    ("mean", True, _score),
    ("[95%]", True, lambda row, digits: digits.score(row)[1]),
    ("IQM", True, lambda row, digits: digits.iqm(row)),
    ("against", False, lambda row, digits: markdown_text(row.baseline or "")),
    ("difference", True, lambda row, digits: digits.difference(row)[0]),
    ("[95% joint]", True, lambda row, digits: digits.difference(row)[1]),
    ("p (adj.)", True, lambda row, digits: p_text(row.p_adjusted)),
    ("P(better)", True, _chance),
    ("verdict", False, lambda row, digits: markdown_text(verdict_text(row) or _head(row))),
    ("seeds", False, lambda row, digits: seeds_text(row)),
)


def markdown(made: Table | Sheet) -> str:
    """Write a pipe table that lines up in a terminal, with its caption and its notes."""
    if isinstance(made, Sheet):
        lines = [[markdown_text(cell) for cell in row] for row in lines_of(made)]
        heads = [column.head for column in made.shown]
        right = {column.head for column in made.shown if column.is_number}
        notes: Sequence[str] = ()
    else:
        columns = [c for c in _COMPARISON if c[0] != "against" or made.several_baselines]
        heads, right = [head for head, *_ in columns], {head for head, at, _ in columns if at}
        if made.answers:
            heads = ["answer" if head == "verdict" else head for head in heads]
        lines, notes = [], made.notes
        for task in made.places:
            rows = made.of(task)
            digits = Digits(rows)
            lines += [[text(row, digits) for *_, text in columns] for row in rows]
    caption = wrapped(f"{markdown_text(made.study)}: {markdown_text(made.caption)}")
    below = [line for note in notes for line in wrapped(f"- {markdown_text(note)}")]
    table = pipes(heads, without_repeats(lines), right)
    return "\n".join([*caption, "", *table, *([""] if below else []), *below])


def wrapped(text: str) -> list[str]:
    """Return lines of at most 100 characters; a list item hangs."""
    hanging = "  " * text.startswith("- ")
    return textwrap.wrap(
        text, 100, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def pipes(head: Sequence[str], lines: Sequence[Sequence[str]], right: set[str]) -> list[str]:
    """Write a pipe table, padded so that it lines up in a terminal."""
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]

    def joined(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(cells, widths, head, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [
        "-" * (width + 1) + ":" if name in right else "-" * (width + 2)
        for width, name in zip(widths, head, strict=True)
    ]
    return [joined(head), "|" + "|".join(rule) + "|", *map(joined, lines)]


def markdown_text(text: str) -> str:
    """Return a line with what Markdown would act on escaped."""
    text = " ".join(text.split())
    for special in "\\`*|":
        text = text.replace(special, "\\" + special)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)

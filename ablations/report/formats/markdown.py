"""Markdown: long, one row per task and variant, so that it fits a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from ablations.report.formats.numbers import (
    Column,
    lines_of,
    p_text,
    seeds_text,
    verdict_text,
    without_repeats,
)
from ablations.report.tables.entries import Sheet, Table

# Heads of columns that are words, not numbers.
WORDS = (
    *("task", "variant", "choice", "factor", "level", "detail", "change"),
    *("[95%]", "[95% joint]", "verdict", "claim", "study", "all at once", "agree"),
)


def markdown(table: Table) -> str:
    against = table.several_baselines
    head = ["task", "variant", "mean", "[95%]", "IQM", "difference", "[95% joint]", "p (adj.)"]
    head += ["P(better)", "verdict", "seeds"]
    if against:
        head.insert(5, "against")
    right = {"mean", "[95%]", "IQM", "difference", "[95% joint]", "p (adj.)", "P(better)"}
    lines: list[list[str]] = []
    for task in table.places:
        rows = table.of(task)
        numbers = Column(rows)
        for place, row in enumerate(rows):
            score, inside = numbers.score(row)
            difference, around = numbers.difference(row)
            chance = row.probability_of_improvement
            cells = [
                markdown_text(task) if place == 0 else "",
                markdown_text(row.variant),
                f"**{score}**" if row.best else f"{score}†" if row.tied else score,
                inside,
                numbers.iqm(row),
                difference,
                around,
                p_text(row.p_adjusted),
                "" if chance is None else f"{chance:.2f}",
                markdown_text(verdict_text(row) or "baseline"),
                seeds_text(row),
            ]
            if against:
                cells.insert(5, markdown_text(row.baseline or ""))
            lines.append(cells)
    caption = f"{markdown_text(table.study)}: {markdown_text(table.caption)}"
    text = [*wrapped(caption), "", *pipes(head, lines, right)]
    if table.notes:
        text.append("")
    for note in table.notes:
        text += wrapped(f"- {markdown_text(note)}")
    return "\n".join(text)


def wrapped(text: str) -> list[str]:
    """Lines of at most 100 characters; a list item hangs."""
    hanging = "  " * text.startswith("- ")
    return textwrap.wrap(
        text, 100, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def pipes(head: Sequence[str], lines: Sequence[Sequence[str]], right: set[str]) -> list[str]:
    """A pipe table, padded so that it lines up in a terminal."""
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
    """One line, with what markdown would act on escaped."""
    text = " ".join(text.split())
    for special in "\\`*|":
        text = text.replace(special, "\\" + special)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def markdown_sheet(made: Sheet) -> str:
    heads = [one.head for one in made.shown]
    lines = [[markdown_text(cell) for cell in row] for row in without_repeats(lines_of(made))]
    caption = wrapped(f"{markdown_text(made.study)}: {markdown_text(made.caption)}")
    return "\n".join([*caption, "", *pipes(heads, lines, set(heads) - set(WORDS))])

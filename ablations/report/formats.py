"""A table as text: markdown, LaTeX, HTML, CSV or JSON."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ablations.errors import unknown
from ablations.report.digits import (
    Column,
    p_text,
    rows_of,
    seeds_text,
    several_baselines,
    tasks_of,
    verdict_text,
)
from ablations.report.latex import latex
from ablations.report.tables import ALL_TASKS, Entry, Table


def render(table: Table, format: str) -> str:
    """A table as markdown, latex, csv, html or json. Raises UserError for another format."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    return FORMATS[format](table)


# Markdown: long, one row per task and variant, so that it fits a terminal


def markdown(table: Table) -> str:
    against = several_baselines(table)
    head = ["task", "variant", "IQM", "[95%]", "difference", "[95%]", "p (Holm)", "P(better)"]
    head += ["verdict", "seeds"]
    if against:
        head.insert(4, "against")
    right = {"IQM", "[95%]", "difference", "p (Holm)", "P(better)"}
    lines: list[list[str]] = []
    for task in tasks_of(table):
        rows = rows_of(table, task)
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
                difference,
                around,
                p_text(row.p_holm),
                "" if chance is None else f"{chance:.2f}",
                verdict_text(row) if row.baseline else "baseline",
                seeds_text(row),
            ]
            if against:
                cells.insert(4, markdown_text(row.baseline or ""))
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


# HTML: a fragment with the same layout as LaTeX


def html_(table: Table) -> str:
    """A <table> element; classes study-table, interval, difference, verdict to style it by."""
    tasks = tasks_of(table)
    numbers = {task: Column(rows_of(table, task)) for task in tasks}
    escape = html.escape
    lines = ['<table class="study-table">']
    if table.caption:
        lines.append(f"<caption>{escape(table.caption)}</caption>")
    heads = "".join(f'<th scope="col">{escape(task)}</th>' for task in tasks)
    lines.append(f'<thead><tr><th scope="col">variant</th>{heads}</tr></thead>')
    lines.append("<tbody>")
    for variant in table.variants:
        rows = [table.entry(task, variant) for task in tasks]
        baseline = next(row.baseline for row in rows if row is not None)
        versus = f'<br><span class="versus">vs {escape(baseline)}</span>' if baseline else ""
        cells = "".join(
            f"<td>{_html_cell(row, numbers[task])}</td>"
            for row, task in zip(rows, tasks, strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(variant)}{versus}</th>{cells}</tr>')
    lines.append("</tbody>")
    if table.notes:
        notes = "<br>".join(escape(note) for note in table.notes)
        lines.append(f'<tfoot><tr><td colspan="{len(tasks) + 1}">{notes}</td></tr></tfoot>')
    return "\n".join([*lines, "</table>"])


def _html_cell(row: Entry | None, numbers: Column) -> str:
    if row is None:
        return ""
    parts = []
    if row.task != ALL_TASKS or row.iqm is not None:
        score, inside = numbers.score(row)
        shown = (
            f"<strong>{score}</strong>" if row.best else f"{score}†" if row.tied else score or "n/a"
        )
        parts.append(f'{shown} <span class="interval">{inside}</span>' if inside else shown)
        if row.n < row.n_planned:
            parts[-1] += f' <span class="seeds">n={html.escape(seeds_text(row))}</span>'
    if row.verdict:
        difference, around = numbers.difference(row)
        name = row.verdict.replace(" ", "-")
        parts.append(
            f'<span class="difference">{difference} <span class="interval">{around}</span></span> '
            f'<span class="verdict {name}">{html.escape(verdict_text(row))}</span>'
        )
    return "<br>".join(parts)


# Files: every column, ten significant digits


def csv_(table: Table) -> str:
    """One line per row of the table, every column, empty where there is no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        values = _plain(row).values()
        writer.writerow("" if value is None else value for value in values)
    return text.getvalue().rstrip("\n")


def json_(table: Table) -> str:
    """The whole table; null where there is no value."""
    described = {k: v for k, v in asdict(table).items() if k != "rows"}
    whole = described | {"rows": [_plain(row) for row in table.rows]}
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)


def _plain(row: Entry) -> dict[str, Any]:
    return {
        name: float(f"{value:.10g}") if isinstance(value, float) else value
        for name, value in asdict(row).items()
    }


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "markdown": markdown,
    "latex": latex,
    "csv": csv_,
    "html": html_,
    "json": json_,
}

"""HTML: fragments, with the same layout as LaTeX."""

from __future__ import annotations

import re
from html import escape

from ablations.core.verdict import Verdict
from ablations.report.formats.numbers import (
    Digits,
    lines_of,
    seeds_text,
    verdict_class,
    verdict_text,
)
from ablations.report.tables.entries import ALL_TASKS, Entry, Sheet, Table


def html(table: Table) -> str:
    """Write a <table> element; classes study-table, interval, difference, verdict style it."""
    tasks = table.places
    numbers = {task: Digits(table.of(task)) for task in tasks}
    lines = ['<table class="study-table">']
    if table.caption:
        lines.append(f"<caption>{escape(table.caption)}</caption>")
    heads = "".join(f'<th scope="col">{escape(task)}</th>' for task in tasks)
    lines.append(f'<thead><tr><th scope="col">variant</th>{heads}</tr></thead>')
    lines.append("<tbody>")
    for variant in table.names:
        rows = [table.entry(task, variant) for task in tasks]
        baseline = next(row.baseline for row in rows if row is not None)
        versus = f'<br><span class="versus">vs {breakable(baseline)}</span>' if baseline else ""
        cells = "".join(
            f"<td>{_html_cell(row, numbers[task])}</td>"
            for row, task in zip(rows, tasks, strict=True)
        )
        lines.append(f'<tr><th scope="row">{breakable(variant)}{versus}</th>{cells}</tr>')
    lines.append("</tbody>")
    if table.notes:
        notes = "<br>".join(escape(note) for note in table.notes)
        lines.append(f'<tfoot><tr><td colspan="{len(tasks) + 1}">{notes}</td></tr></tfoot>')
    return "\n".join([*lines, "</table>"])


def breakable(name: str) -> str:
    """Escape a name that a narrow column may break after its signs."""
    return "<wbr>".join(escape(part) for part in re.split(r"(?<=[@=/_])(?=\w)", name))


def _html_cell(row: Entry | None, numbers: Digits) -> str:
    if row is None:
        return ""
    parts = []
    if row.task != ALL_TASKS or row.mean is not None:
        score, inside = numbers.score(row)
        shown = (
            f"<strong>{score}</strong>" if row.best else f"{score}†" if row.tied else score or "n/a"
        )
        parts.append(f'{shown} <span class="interval">{inside}</span>' if inside else shown)
        if row.n < row.n_planned:
            parts[-1] += f' <span class="seeds">n={escape(seeds_text(row))}</span>'
    if verdict := verdict_text(row):
        difference, around = numbers.difference(row)
        name = verdict_class(row.verdict or Verdict.IDENTICAL)
        parts.append(
            f'<span class="difference">{difference} <span class="interval">{around}</span></span> '
            f'<span class="verdict {name}">{escape(verdict)}</span>'
        )
    return "<br>".join(parts)


def html_sheet(sheet: Sheet) -> str:
    """Write a <table> element of class sheet."""
    heads = [column.head for column in sheet.shown]
    head_cells = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    lines = ['<table class="sheet">']
    if sheet.caption:
        lines.append(f"<caption>{escape(sheet.caption)}</caption>")
    lines.append(f"<thead><tr>{head_cells}</tr></thead><tbody>")
    for row in lines_of(sheet):
        cells = "".join(
            f'<td class="{"number" if column.is_number else "text"}">{escape(cell)}</td>'
            for column, cell in zip(sheet.shown, row, strict=True)
        )
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table>"])

"""Tables and sheets as text: markdown, LaTeX, CSV, HTML, JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ablations.errors import printable, unknown
from ablations.report.formats.files import csv_sheet, csv_table, json_sheet, json_table
from ablations.report.formats.html import html, html_sheet
from ablations.report.formats.latex import latex, latex_sheet
from ablations.report.formats.markdown import markdown, markdown_sheet
from ablations.report.tables.entries import Sheet, Table

__all__ = ["FORMATS", "render"]

_TABLES: Mapping[str, Callable[[Table], str]] = {
    "markdown": markdown,
    "latex": latex,
    "csv": csv_table,
    "html": html,
    "json": json_table,
}
_SHEETS: Mapping[str, Callable[[Sheet], str]] = {
    "markdown": markdown_sheet,
    "latex": latex_sheet,
    "csv": csv_sheet,
    "html": html_sheet,
    "json": json_sheet,
}
FORMATS = tuple(_TABLES)


def render(made: Table | Sheet, format: str) -> str:
    """A table or a sheet in one of `FORMATS`. Raises UserError for another format."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    text = _SHEETS[format](made) if isinstance(made, Sheet) else _TABLES[format](made)
    return printable(text) if format == "markdown" else text  # which a terminal is shown

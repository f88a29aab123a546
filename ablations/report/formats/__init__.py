"""Tables and sheets as text: markdown, LaTeX, CSV, HTML, JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ablations.errors import printable, unknown
from ablations.report.formats.files import to_csv, to_json
from ablations.report.formats.html import html, html_sheet
from ablations.report.formats.latex import latex, latex_sheet
from ablations.report.formats.markdown import markdown
from ablations.report.tables.entries import Sheet, Table

__all__ = ["FORMATS", "render"]

_WRITERS: Mapping[str, Callable[[Table | Sheet], str]] = {
    "markdown": markdown,
    "latex": lambda made: latex_sheet(made) if isinstance(made, Sheet) else latex(made),
    "csv": to_csv,
    "html": lambda made: html_sheet(made) if isinstance(made, Sheet) else html(made),
    "json": to_json,
}
FORMATS = tuple(_WRITERS)


def render(table: Table | Sheet, format: str) -> str:
    """Write a table or a sheet in one of `FORMATS`.

    Raises:
        UserError: another format.
    """
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    text = _WRITERS[format](table)
    return printable(text) if format == "markdown" else text  # which a terminal is shown

"""Tables and sheets as text: markdown, LaTeX, CSV, HTML, JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping

from ablations.core.decode import Json
from ablations.errors import printable, unknown
from ablations.report.formats.html import html, html_sheet
from ablations.report.formats.latex import latex, latex_sheet
from ablations.report.formats.markdown import markdown
from ablations.report.formats.spreadsheets import inert
from ablations.report.tables.entries import Sheet, Table

__all__ = ["FORMATS", "render"]


def _csv(table: Table | Sheet) -> str:
    """Write a line for each row, every column, empty where there is no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.records():
        values = map(_short, row.values())
        writer.writerow("" if value is None else inert(value) for value in values)
    return text.getvalue().rstrip("\n")


def _json(table: Table | Sheet) -> str:
    """Write all of it; null where there is no value."""
    rows = [{name: _short(value) for name, value in row.items()} for row in table.records()]
    about = {k: v for k, v in vars(table).items() if k not in ("columns", "rows", "shown")}
    return json.dumps(about | {"rows": rows}, indent=1, ensure_ascii=False, allow_nan=False)


def _short(value: Json) -> Json:
    """Return a value with ten digits; None for what is no finite number."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.10g}") if math.isfinite(value) else None


_WRITERS: Mapping[str, Callable[[Table | Sheet], str]] = {
    "markdown": markdown,
    "latex": lambda made: latex_sheet(made) if isinstance(made, Sheet) else latex(made),
    "csv": _csv,
    "html": lambda made: html_sheet(made) if isinstance(made, Sheet) else html(made),
    "json": _json,
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

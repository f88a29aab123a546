"""Tables and sheets as HTML for the page."""

from __future__ import annotations

from ablations.report.formats.html import html, html_sheet
from ablations.report.tables.entries import Sheet, Table

__all__ = ["render"]


def render(table: Table | Sheet) -> str:
    """Write a table or a sheet as HTML."""
    return html_sheet(table) if isinstance(table, Sheet) else html(table)

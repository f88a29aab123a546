"""A table of records with the same columns, and its text: markdown, LaTeX, HTML, CSV or JSON."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ablations.errors import unknown
from ablations.report.latex import latex_sheet

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Sheet:
    """A table of records, each with the same columns, and how to print them.

    rows: values by column, for files. shown: the cells as text, under the heads.
    """

    study: str
    kind: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    heads: tuple[str, ...]
    shown: tuple[tuple[str, ...], ...]

    def dataframe(self) -> pandas.DataFrame:
        """The values, one row per row; the caption is in `.attrs`."""
        import pandas

        frame = pandas.DataFrame(list(self.rows), columns=list(self.columns))
        frame.attrs = {"caption": self.caption}
        return frame


def render(made: Sheet, format: str) -> str:
    """A sheet as markdown, latex, csv, html or json. Raises UserError for another format."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    return FORMATS[format](made)


_LEFT = ("task", "variant", "choice", "factor", "level", "[95%]", "verdict")


def _markdown(made: Sheet) -> str:
    from ablations.report.formats import markdown_text, pipes, wrapped

    right = set(made.heads) - set(_LEFT)
    lines = [[markdown_text(cell) for cell in row] for row in without_repeats(made)]
    caption = wrapped(f"{markdown_text(made.study)}: {markdown_text(made.caption)}")
    return "\n".join([*caption, "", *pipes(made.heads, lines, right)])


def html_sheet(made: Sheet) -> str:
    """A <table> element of class sheet."""
    escape = html.escape
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in made.heads)
    lines = ['<table class="sheet">']
    if made.caption:
        lines.append(f"<caption>{escape(made.caption)}</caption>")
    lines.append(f"<thead><tr>{heads}</tr></thead><tbody>")
    for row in made.shown:
        cells = "".join(
            f'<td class="{"text" if head in _LEFT else "number"}">{escape(cell)}</td>'
            for head, cell in zip(made.heads, row, strict=True)
        )
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def _csv(made: Sheet) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(made.columns)
    for row in made.rows:
        writer.writerow("" if value is None else _plain(value) for value in row)
    return text.getvalue().rstrip("\n")


def _json(made: Sheet) -> str:
    rows = [
        dict(zip(made.columns, [_plain(value) for value in row], strict=True)) for row in made.rows
    ]
    whole = {"study": made.study, "kind": made.kind, "caption": made.caption, "rows": rows}
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)


FORMATS: Mapping[str, Callable[[Sheet], str]] = {
    "markdown": _markdown,
    "latex": lambda made: latex_sheet(
        made.study, made.kind, made.caption, made.heads, without_repeats(made)
    ),
    "csv": _csv,
    "html": html_sheet,
    "json": _json,
}


def without_repeats(made: Sheet) -> list[tuple[str, ...]]:
    """The cells as text, a task named only where it begins."""
    lines, last = [], None
    for task, *rest in made.shown:
        lines.append(("" if task == last else task, *rest))
        last = task
    return lines


def _plain(value: Any) -> Any:
    return float(f"{value:.10g}") if isinstance(value, float) else value

"""Files: every column, ten significant digits, nothing where there is no value."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from typing import Any

from ablations.report.formats.spreadsheets import inert
from ablations.report.tables.entries import Entry, Sheet, Table


def csv_table(table: Table) -> str:
    """One line per row of the table, every column, empty where there is no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        values = _plain(row).values()
        writer.writerow("" if value is None else inert(value) for value in values)
    return text.getvalue().rstrip("\n")


def json_table(table: Table) -> str:
    """The whole table; null where there is no value."""
    described = {k: v for k, v in asdict(table).items() if k != "rows"}
    whole = described | {"rows": [_plain(row) for row in table.rows]}
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)


def _plain(row: Entry) -> dict[str, Any]:
    return {name: _short(value) for name, value in asdict(row).items()}


def csv_sheet(made: Sheet) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(made.columns)
    for row in made.rows:
        writer.writerow("" if value is None else inert(value) for value in map(_short, row))
    return text.getvalue().rstrip("\n")


def json_sheet(made: Sheet) -> str:
    rows = [
        dict(zip(made.columns, [_short(value) for value in row], strict=True)) for row in made.rows
    ]
    whole = {"study": made.study, "kind": made.kind, "caption": made.caption, "rows": rows}
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.10g}") if math.isfinite(value) else None

"""Files: every column, ten significant digits, nothing where there is no value."""

from __future__ import annotations

import csv
import io
import json
import math

from ablations.core.decode import Json
from ablations.report.formats.spreadsheets import inert
from ablations.report.tables.entries import Sheet, Table


def to_csv(table: Table | Sheet) -> str:
    """Write a line for each row, every column, empty where there is no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.records():
        values = map(_short, row.values())
        writer.writerow("" if value is None else inert(value) for value in values)
    return text.getvalue().rstrip("\n")


def to_json(table: Table | Sheet) -> str:
    """Write all of it; null where there is no value."""
    rows = [{name: _short(value) for name, value in row.items()} for row in table.records()]
    about = {k: v for k, v in vars(table).items() if k not in ("columns", "rows", "shown")}
    return json.dumps(about | {"rows": rows}, indent=1, ensure_ascii=False, allow_nan=False)


def _short(value: Json) -> Json:
    """Return a value with ten digits; None for what is no finite number."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.10g}") if math.isfinite(value) else None

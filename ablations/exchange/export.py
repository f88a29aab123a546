"""A study's runs for other tools: long-format CSV and Parquet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ablations import parquet
from ablations.core.plan import CellEntry
from ablations.errors import unknown
from ablations.records import Plan, Record, read_runs, write_atomically
from ablations.spreadsheets import inert

if TYPE_CHECKING:
    import pandas

FORMATS = ("csv", "parquet")
COLUMNS = (
    *("study", "task", "variant", "seed", "status", "step", "metric", "value"),
    *("failure", "reason"),
)


def frame(plan: Plan, results: Path, metrics: Sequence[str] | None = None) -> pandas.DataFrame:
    """Return a row per cell, step and metric, without the points that have no value.

    A failed cell has one row, at the step where it failed, without metric and value, that says how
    it failed; a finished one without any value has one at its last step; one that has not run has
    one row of status "missing". metrics: the columns wanted, all by default. Raises
    UserError for one that no record has.
    """
    import pandas

    columns: parquet.Columns = {name: [] for name in COLUMNS}
    known: set[str] = set()

    def add(cell: CellEntry, record: Record | None, **own: Sequence[parquet.Value]) -> None:
        """Add rows of a cell; own: the columns in which they differ."""
        shared: dict[str, parquet.Value] = {
            "study": plan.study.name,
            "task": cell.task,
            "variant": cell.variant,
            "seed": cell.seed,
            "status": record.status if record else "missing",
        }
        if record is not None:
            shared |= {"failure": record.failure, "reason": record.reason}
        count = len(own["step"])
        for name, column in columns.items():
            column += own[name] if name in own else [shared.get(name)] * count

    for cell, record, curve in read_runs(results, plan):
        if record is None or record.status != "done":
            add(cell, record, step=[record.failed_step if record else None])
            continue
        curve = dict(curve)
        steps = curve.pop("step")
        known |= curve.keys()
        seen = 0
        for name in curve if metrics is None else [name for name in metrics if name in curve]:
            values = enumerate(curve[name])
            shown = [row for row, x in values if x is not None and not math.isnan(x)]
            seen += len(shown)
            add(
                cell,
                record,
                step=[steps[row] for row in shown],
                metric=[name] * len(shown),
                value=[curve[name][row] for row in shown],
            )
        if not seen:
            add(cell, record, step=steps[-1:] or [None])
    for name in metrics or ():
        if known and name not in known:
            raise unknown("metric", name, known)
    types = {"seed": "int64", "step": "Int64", "value": "float64"}
    return pandas.DataFrame(columns, dtype=object).astype(types)


def export(
    plans: Sequence[Plan],
    results: Path,
    path: Path,
    format: str,
    metrics: Sequence[str] | None = None,
) -> None:
    """Write plans to one file, whole or not at all: csv or parquet.

    Same records, same bytes. Raises UserError for another format or an unknown metric.
    """
    if format not in FORMATS:
        raise unknown("export format", format, FORMATS)
    import pandas

    table = pandas.concat([frame(plan, results, metrics) for plan in plans], ignore_index=True)
    if format == "csv":
        for name in ("study", "task", "variant", "metric", "reason"):
            table[name] = table[name].map({text: inert(text) for text in table[name].unique()})
        write_atomically(path, table.to_csv(index=False))
        return
    present = table.astype(object).where(table.notna(), None)
    write_atomically(path, parquet.encode({name: present[name] for name in COLUMNS}))

"""A study's runs for other tools: long-format CSV and Parquet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ablations import parquet
from ablations.errors import unknown
from ablations.records import Plan, read_runs, write_atomically
from ablations.spreadsheets import inert

FORMATS = ("csv", "parquet")
COLUMNS = (
    *("study", "task", "variant", "seed", "status", "step", "metric", "value"),
    *("failure", "reason"),
)


def frame(plan: Plan, results: Path, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one row per run, step and metric, without points that have no value.

    A failed run has one row: the step and the reason, without metric and value. A finished run
    without values has one row, at its last step; a missing run has one row. `metrics` selects
    columns (default: all). Raises UserError for a metric that no record has.
    """
    rows: list[tuple[object, ...]] = []
    known: set[str] = set()
    for cell, record, curve in read_runs(results, plan):
        about = (plan.study.name, *cell.place)
        if record is None:
            rows.append((*about, "missing", *[None] * 5))
        elif record.status != "done":
            failed = (record.failed_step, None, None, record.failure, record.reason)
            rows.append((*about, "failed", *failed))
        else:
            known |= curve.keys() - {"step"}
            wanted = [name for name in curve if name != "step"] if metrics is None else metrics
            points: list[tuple[object, ...]] = [
                (step, name, value)
                for name in wanted
                for step, value in zip(curve["step"], curve.get(name, []), strict=False)
                if value is not None and not math.isnan(value)
            ]
            last = curve["step"][-1] if curve["step"] else None
            rows += [(*about, "done", *p, None, None) for p in points or [(last, None, None)]]
    for name in metrics or ():
        if known and name not in known:
            raise unknown("metric", name, known)
    types = {"seed": "int64", "step": "Int64", "value": "float64"}
    return pd.DataFrame(rows, columns=COLUMNS, dtype=object).astype(types)


def export(
    plans: Sequence[Plan],
    results: Path,
    path: Path,
    format: str,
    metrics: Sequence[str] | None = None,
) -> None:
    """Write plans to one file, atomically: csv or parquet. The same records give the same bytes.

    Raises UserError for another format or an unknown metric.
    """
    if format not in FORMATS:
        raise unknown("export format", format, FORMATS)
    table = pd.concat([frame(plan, results, metrics) for plan in plans], ignore_index=True)
    if format == "csv":
        for name in ("study", "task", "variant", "metric", "reason"):
            table[name] = table[name].map({text: inert(text) for text in table[name].unique()})
        write_atomically(path, table.to_csv(index=False))
        return
    present = table.astype(object).where(table.notna(), None)
    write_atomically(path, parquet.encode({name: present[name] for name in COLUMNS}))

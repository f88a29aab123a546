"""A study's runs for other tools: long-format CSV and Parquet, and the JSON of marl-eval."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations import parquet
from ablations.errors import UserError, unknown
from ablations.records import Plan, read_runs, write_atomically
from ablations.report.formats.spreadsheets import inert
from ablations.report.scores import final

if TYPE_CHECKING:
    import pandas

FORMATS = ("csv", "parquet", "marl-eval")
COLUMNS = (
    *("study", "task", "variant", "seed", "status", "step", "metric", "value"),
    *("failure", "reason"),
)


def frame(plan: Plan, results: Path, metrics: Sequence[str] | None = None) -> pandas.DataFrame:
    """One row per cell, step and metric, without the points that have no value.

    A failed cell has one row, at the step where it failed, without metric and value, that says how
    it failed; a finished one without any value has one at its last step; one that has not run has
    one row of status "missing". metrics: the columns wanted, all by default. Raises
    UserError for one that no record has.
    """
    import pandas

    parts: list[pandas.DataFrame] = []
    known: set[str] = set()
    for cell, record, columns in read_runs(results, plan):
        place: dict[str, object] = {"study": plan.study.name}
        place |= {"task": cell.task, "variant": cell.variant, "seed": cell.seed}
        nothing = {"status": "missing", **dict.fromkeys(COLUMNS[-5:])}
        if record is None:
            parts.append(pandas.DataFrame([place | nothing]))
            continue
        nothing |= {"status": record.status, "step": record.failed_step}
        nothing |= {"failure": record.failure, "reason": record.reason}
        if record.status != "done":
            parts.append(pandas.DataFrame([place | nothing]))
            continue
        curve = pandas.DataFrame(columns)
        known |= set(curve.columns) - {"step"}
        wanted = [name for name in curve.columns if name != "step"]
        if metrics is not None:
            wanted = [name for name in metrics if name in wanted]
        long = curve.melt("step", wanted, "metric", "value").dropna(subset="value")
        if long.empty:
            last = curve["step"].max() if len(curve) else None
            parts.append(pandas.DataFrame([place | nothing | {"step": last}]))
            continue
        parts.append(long.assign(**place, status="done", failure=None, reason=None))
    for name in metrics or ():
        if known and name not in known:
            raise unknown("metric", name, known)
    empty = pandas.DataFrame(columns=list(COLUMNS), dtype=object)
    whole = pandas.concat([empty, *(part[list(COLUMNS)].astype(object) for part in parts)])
    types = {"seed": "int64", "step": "Int64", "value": "float64"}
    return whole.astype(types).reset_index(drop=True)


def marl_eval(plans: Sequence[Plan], results: Path, metric: str | None = None) -> dict[str, Any]:
    """environment (study) -> task -> algorithm (variant) -> seed -> steps, as marl-eval reads it.

    metric: a column of the curves, each study's own by default; it is called "return" where that is
    its last part. absolute_metrics hold the mean over the last 10% of training. Failed and missing
    cells have no place in that format and are left out; raises UserError where none is left.
    """
    whole: dict[str, Any] = {}
    for plan in plans:
        column = metric or plan.study.metric
        name = column.replace("/", "_")
        if column.rpartition("/")[2] == "return":
            name = "return"
        for cell, record, curve in read_runs(results, plan):
            if record is None or record.status != "done":
                continue
            if column not in curve:
                raise unknown("metric", column, (c for c in curve if c != "step"))
            shown = [
                (step, float(value))
                for step, value in zip(curve["step"], curve[column], strict=True)
                if value is not None and math.isfinite(value)
            ]
            if not shown:
                continue
            run: dict[str, Any] = {
                f"step_{place}": {"step_count": step, name: [value]}
                for place, (step, value) in enumerate(shown)
            }
            ends = final(*zip(*shown, strict=True))
            run["absolute_metrics"] = {name: [ends]}
            algorithms = whole.setdefault(plan.study.name, {}).setdefault(cell.task, {})
            algorithms.setdefault(cell.variant, {})[f"seed_{cell.seed}"] = run
    if not whole:
        raise UserError("nothing to export: no run is finished")
    return whole


def export(
    plans: Sequence[Plan],
    results: Path,
    path: Path,
    format: str,
    metrics: Sequence[str] | None = None,
) -> None:
    """Writes plans to one file, whole or not at all: csv, parquet or marl-eval.

    Same records, same bytes. Raises UserError for another format or an unknown metric.
    """
    if format not in FORMATS:
        raise unknown("export format", format, FORMATS)
    if format == "marl-eval":
        if metrics is not None and len(metrics) != 1:
            raise UserError("marl-eval files hold one metric: give --metric once")
        found = marl_eval(plans, results, metrics[0] if metrics else None)
        write_atomically(path, json.dumps(found, indent=1))
        return
    import pandas

    whole = pandas.concat([frame(plan, results, metrics) for plan in plans], ignore_index=True)
    if format == "csv":
        for name in ("study", "task", "variant", "metric", "reason"):
            whole[name] = whole[name].map({text: inert(text) for text in whole[name].unique()})
        write_atomically(path, whole.to_csv(index=False))
        return
    present = whole.astype(object).where(whole.notna(), None)
    write_atomically(path, parquet.encode({name: present[name] for name in COLUMNS}))

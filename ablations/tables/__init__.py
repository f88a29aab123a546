"""Tables: functions from runs to data frames, which `format_table` writes as text.

A new table is one function and one line in `TABLES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from ablations.comparison import compare
from ablations.errors import UserError, unknown
from ablations.runs import Runs
from ablations.tables import kinds
from ablations.tables.effects import default_kind, effects
from ablations.tables.formats import FORMATS, format_table
from ablations.tables.notes import explain, notes, summary
from ablations.tables.shares import shares

__all__ = ["FORMATS", "TABLES", "comparison", "format_table", "table_of"]


def comparison(runs: Runs, **options: Any) -> pd.DataFrame:
    """Return `compare(runs, **options)` with a caption, notes and a summary in `attrs`."""
    frame = compare(runs, **options)
    frame.attrs |= explain(runs, frame)
    frame.attrs |= {"notes": list(notes(runs, frame)), "summary": summary(frame)}
    return frame


TABLES: dict[str, Callable[[Runs], pd.DataFrame]] = {
    "comparison": comparison,
    "aggregates": kinds.aggregates,
    "diagnostics": kinds.diagnostics,
    "effects": effects,
    "efficiency": kinds.efficiency,
    "improvement": kinds.improvement,
    "power": kinds.power,
    "shares": shares,
    "stability": kinds.stability,
}


def table_of(runs: Runs, kind: str | None = None) -> pd.DataFrame:
    """Return a table. The default kind depends on the study.

    Raises:
        UserError: an unknown kind, or a kind that the study does not have.
    """
    kind = kind or (default_kind(runs.plan) if runs.plan else "comparison")
    if kind not in TABLES:
        raise unknown("table", kind, TABLES)
    frame = TABLES[kind](runs)
    if frame.empty:
        raise UserError("no run has finished yet, so the table would be empty")
    about: dict[str, Any] = {"study": "runs", "kind": kind}
    if runs.plan:
        study, profile = runs.plan.study, runs.plan.request.get("profile")
        about |= {"study": study.name, "title": study.title, "profile": profile}
    frame.attrs = {name: value for name, value in about.items() if value} | frame.attrs
    return frame

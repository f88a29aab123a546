"""Tables: what a study found, as data. `ablations.report.formats` writes them as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.scores import Scores, scores
from ablations.report.tables.comparison import table
from ablations.report.tables.efficiency import efficiency_sheet
from ablations.report.tables.entries import ALL_TASKS, Entry, Sheet, Table
from ablations.report.tables.explained import explained_in_words, shares_sheet
from ablations.report.tables.factorial import effects_in_words, effects_sheet, factorial
from ablations.report.tables.seeds_needed import power_sheet

__all__ = [
    "ALL_TASKS",
    "KINDS",
    "Entry",
    "Sheet",
    "Table",
    "asked",
    "default_kind",
    "effects_in_words",
    "explained_in_words",
    "sheet",
    "table",
]

KINDS: Mapping[str, Callable[[Plan, Path, Scores], Sheet | None]] = {
    "effects": effects_sheet,
    "efficiency": efficiency_sheet,
    "power": power_sheet,
    "shares": shares_sheet,
}
_ABSENT = {
    "effects": "is no factorial: its variants are not every combination of two or more settings",
    "efficiency": "has no finished run",
    "power": "compares nothing yet, or its metric has no margin",
    "shares": "explains no gap: `ablations explain A B` does",
}


def default_kind(plan: Plan) -> str:
    """What `table` shows of a plan where nothing is asked for: "shares" of an explanation,
    "effects" of a fraction of a factorial, else "comparison"."""
    if plan.study.explanation is not None:
        return "shares"
    found = factorial(plan)
    return "comparison" if found is None or found.full else "effects"


def asked(
    plan: Plan, results: Path, kind: str | None, metric: str | None, score: str
) -> Table | Sheet:
    """The table of a kind, or of the plan's default where that is None. Raises UserError where a
    study has none of that kind, or where any but a comparison is asked for another score."""
    wanted = kind or default_kind(plan)
    if wanted == "comparison":
        return table(plan, results, metric=metric, score=score)
    if score != "final":
        raise UserError(f"score '{score}': only a comparison has it, give --kind comparison")
    return sheet(wanted, plan, results, metric=metric)


def sheet(kind: str, plan: Plan, results: Path, *, metric: str | None = None) -> Sheet:
    """ "effects", "efficiency", "power" or "shares". Raises UserError where a study has none of
    that kind.
    """
    if kind not in KINDS:
        raise unknown("table", kind, ["comparison", *KINDS])
    found = scores(plan, results, metric=metric)
    made = KINDS[kind](plan, results, found)
    if made is None:
        raise UserError(f"study '{plan.study.name}' {_ABSENT[kind]}")
    return made

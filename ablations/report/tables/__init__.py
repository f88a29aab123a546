"""Tables: what a study found, as data. `ablations.report.formats` writes them as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.results import Results
from ablations.report.tables.comparison import table
from ablations.report.tables.efficiency import efficiency_sheet
from ablations.report.tables.entries import ALL_TASKS, Entry, Sheet, Table
from ablations.report.tables.explained import explained_in_words, shares_sheet
from ablations.report.tables.factorial import factorial
from ablations.report.tables.fractions import effects_in_words, effects_sheet
from ablations.report.tables.seeds import power_sheet
from ablations.report.tables.stability import stability_sheet

__all__ = [
    "ALL_TASKS",
    "KINDS",
    "Entry",
    "Sheet",
    "Table",
    "default_kind",
    "effects_in_words",
    "explained_in_words",
    "sheet",
    "table",
    "table_of",
]

KINDS: Mapping[str, Callable[[Results, str | None], Sheet | None]] = {
    "effects": effects_sheet,
    "efficiency": efficiency_sheet,
    "power": power_sheet,
    "shares": shares_sheet,
    "stability": stability_sheet,
}
_ABSENT = {
    "effects": "is no factorial: its variants are not every combination of two or more settings",
    "efficiency": "has no finished run",
    "power": "compares nothing yet, or its metric has no margin",
    "shares": "explains no gap: `ablations explain A B` does",
    "stability": "has no finished run",
}


def default_kind(plan: Plan) -> str:
    """Return the kind of table that a plan has where nothing is asked for.

    "shares" of an explanation, "effects" of a fraction of a factorial, else "comparison".
    """
    if plan.study.explanation is not None:
        return "shares"
    factorial_design = factorial(plan)
    return "comparison" if factorial_design is None or factorial_design.full else "effects"


def table_of(
    results: Results, kind: str | None, metric: str | None, score: str | None
) -> Table | Sheet:
    """Return the table of a kind, by default the plan's own.

    Raises:
        UserError: the study has none of that kind, or any but a comparison is asked for another
            score.
    """
    wanted = kind or default_kind(results.plan)
    if wanted == "comparison":
        return table(results, metric=metric, score=score)
    if score not in (None, "final"):
        raise UserError(f"score '{score}': only a comparison has it, give --kind comparison")
    return sheet(wanted, results, metric=metric)


def sheet(kind: str, results: Results, *, metric: str | None = None) -> Sheet:
    """Return the sheet of a kind, one of `KINDS`.

    Raises:
        UserError: the study has none of that kind.
    """
    if kind not in KINDS:
        raise unknown("table", kind, ["comparison", *KINDS])
    built = KINDS[kind](results, metric)
    if built is None:
        raise UserError(f"study '{results.plan.study.name}' {_ABSENT[kind]}")
    return built

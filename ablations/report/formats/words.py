"""Summaries of a table in words: at the head of a terminal's table and on the page's cards."""

from __future__ import annotations

from collections.abc import Sequence

from ablations.core.verdict import Verdict
from ablations.report.formats.numbers import estimate
from ablations.report.tables.entries import ALL_TASKS, Entry, Table

LISTED = 4  # findings that an answer names


def answer(table: Table) -> str:
    """Return what a table says, in a sentence or two: effects with intervals, or their bound."""
    rows = [row for row in table.rows if row.task != ALL_TASKS and row.baseline is not None]
    rows = [row for row in rows if row.verdict is not None and not row.verdict.too_few]
    unlearned = [row for row in rows if row.verdict is Verdict.NOTHING_LEARNED]
    rows = [row for row in rows if row not in unlearned]
    if not rows:
        return _unlearned(unlearned) if unlearned else "Nothing is compared yet."
    differing = [row for row in rows if row.verdict and row.verdict.sign]
    differing.sort(key=lambda row: -abs(row.difference or 0.0) / (row.unit or 1.0))
    same = [row for row in rows if row.verdict is not None and row.verdict.same]
    parts = _findings(differing[:LISTED], table)
    if len(differing) > LISTED:
        parts.append(f"and {len(differing) - LISTED} more differ")
    if len(same) == len(rows):
        parts.append(f"No difference that matters: any effect is below {_bound(same)}")
    elif same:
        make = "makes" if len(same) == 1 else "make"
        parts.append(f"{len(same)} of {len(rows)} {make} no difference that matters")
    if left := [row for row in rows if row not in differing and row not in same]:
        parts.append(_left_open(left, len(rows)))
    said = f"{'; '.join(parts)}."
    return f"{said} {_unlearned(unlearned)}" if unlearned else said


def _left_open(rows: Sequence[Entry], of: int) -> str:
    said = f"{len(rows)} of {of} {'is' if len(rows) == 1 else 'are'} not decided"
    has_intervals = all(row.difference_low is not None for row in rows)
    return f"{said}: any effect is below {_bound(rows)}" if has_intervals else said


def _unlearned(rows: Sequence[Entry]) -> str:
    """Name the baselines that learned nothing, of which nothing else is said."""
    places: dict[str | None, dict[str, None]] = {}
    for row in rows:
        places.setdefault(row.baseline, {})[row.task] = None
    clauses = [f"by {name} on {' and '.join(tasks)}" for name, tasks in places.items()]
    return f"Nothing was learned {', '.join(clauses)}."


def _findings(rows: Sequence[Entry], table: Table) -> list[str]:
    """Return a clause per variant and verdict, with all of its tasks."""
    places: dict[str, list[str]] = {}
    for row in rows:
        verdict = row.verdict.decided if row.verdict else ""
        place = f"on {row.task} " if len(table.tasks) > 1 else ""
        places.setdefault(f"{row.variant} is {verdict}", []).append(f"{place}({effect(row)})")
    return [f"{clause} {' and '.join(where)}" for clause, where in places.items()]


def _bound(rows: Sequence[Entry]) -> str:
    """Return the largest effect that the intervals leave open."""
    ends = [
        (max(abs(row.difference_low or 0.0), abs(row.difference_high or 0.0)), row.unit)
        for row in rows
    ]
    if all(unit for _, unit in ends):
        return f"{100 * max(end / (unit or 1.0) for end, unit in ends):.2g}% of what was learned"
    return f"{max(end for end, _ in ends):.3g}"


def open_tasks(row: Entry, table: Table) -> tuple[str, ...]:
    """Return the tasks by which a row over all tasks is undecided; none of another row."""
    if row.task != ALL_TASKS or row.verdict is not Verdict.UNDECIDED:
        return ()
    return tuple(
        each.task
        for each in table.rows
        if each.variant == row.variant
        and each.task != ALL_TASKS
        and each.verdict is Verdict.UNDECIDED
    )


def effect(row: Entry) -> str:
    """Return the effect in percent of what the baseline learned; in the metric without that."""
    if row.difference is None:
        return ""
    scale = 100 / row.unit if row.unit and row.task != ALL_TASKS else 1.0
    scale = 100.0 if row.task == ALL_TASKS else scale
    ends = (row.difference_low, row.difference_high)
    low, high = (None if end is None else end * scale for end in ends)
    text = estimate(row.difference * scale, low, high, "+")
    return text.replace(" [", "% [", 1) if scale != 1.0 and " [" in text else text

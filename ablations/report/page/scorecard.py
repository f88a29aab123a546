"""The scorecard: each comparison in a line, over all tasks where these can be averaged."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from ablations.core.verdict import Verdict
from ablations.report.formats.numbers import Digits, verdict_class, verdict_text
from ablations.report.formats.words import open_tasks
from ablations.report.tables import ALL_TASKS, Entry, Table


@dataclass(frozen=True)
class Score:
    """A line of the scorecard: a comparison, over all tasks where these can be averaged.

    task: where there are lines of several. open: the tasks by which it is undecided.
    """

    variant: str
    baseline: str
    task: str
    verdict: str
    text: str
    estimate: str
    seeds: str
    strip: Markup
    open: tuple[str, ...] = ()


def scorecard(table: Table) -> tuple[tuple[Score, ...], str]:
    """Return the lines of a table's comparisons, and the units of their differences.

    Tasks that cannot be averaged have lines of their own, but those where nothing was learned.
    """
    pooled = {row.variant for row in table.rows if row.task == ALL_TASKS}
    compared = [
        row
        for row in table.rows
        if row.baseline and (row.task == ALL_TASKS) == (row.variant in pooled)
    ]
    rows = [row for row in compared if row.verdict is not Verdict.NOTHING_LEARNED] or compared
    tasks = list(dict.fromkeys(row.task for row in rows))
    lines: list[Score] = []
    for task in tasks:
        of_task = [row for row in rows if row.task == task]
        place = task if len(tasks) > 1 and task != ALL_TASKS else ""
        reach = max([_reach(row) for row in of_task], default=1.0) or 1.0
        lines += [_line(row, table, place, Digits(of_task), reach) for row in of_task]
    units = ["what was learned, over all tasks"] if ALL_TASKS in tasks else []
    if alone := [task for task in tasks if task != ALL_TASKS]:
        units.append(f"{table.metric} on {' and '.join(alone)}")
    return tuple(lines), "; ".join(units)


def _line(row: Entry, table: Table, place: str, numbers: Digits, reach: float) -> Score:
    return Score(
        variant=row.variant,
        baseline=row.baseline or "",
        task=place,
        verdict=verdict_class(row.verdict),
        text=verdict_text(row),
        estimate=" ".join(numbers.difference(row)).strip(),
        seeds=f"{row.n_pairs} of {row.n_planned}"
        if (row.n_pairs or 0) < row.n_planned
        else str(row.n_pairs),
        strip=_strip(row, reach),
        open=open_tasks(row, table),
    )


def _reach(row: Entry) -> float:
    bounds = (row.difference_low, row.difference_high, row.difference)
    widest = max((abs(bound) for bound in bounds if bound is not None), default=0.0)
    return 1.08 * max(widest, 1.3 * (row.margin or 0.0))


def _strip(row: Entry, reach: float) -> Markup:
    """Draw a comparison small, as SVG: margin, zero, interval, estimate."""

    def x(value: float) -> str:
        return f"{70 + 68 * value / reach:.1f}"

    parts = []
    if row.margin:
        width = f"{2 * 68 * row.margin / reach:.1f}"
        parts.append(
            f'<rect class="margin" x="{x(-row.margin)}" y="1" width="{width}" height="16"/>'
        )
    parts.append('<path class="zero" d="M70 0V18"/>')
    if row.difference_low is not None and row.difference_high is not None:
        parts.append(
            f'<path class="reach" d="M{x(row.difference_low)} 9H{x(row.difference_high)}"/>'
        )
    if row.difference is not None:
        parts.append(f'<circle cx="{x(row.difference)}" cy="9" r="3.6"/>')
    name = verdict_class(row.verdict)
    return Markup(
        f'<svg class="strip {name}" viewBox="0 0 140 18" aria-hidden="true" focusable="false">'
        + "".join(parts)
        + "</svg>"
    )

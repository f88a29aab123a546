"""Paired differences against the margin, and probabilities of improvement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ablations.core.verdict import Verdict
from ablations.records import Plan
from ablations.report.figures.marks import (
    Axis,
    Figure,
    Interval,
    Mark,
    Panel,
    Points,
    Rule,
    Span,
    room,
    rows,
)
from ablations.report.figures.palette import verdict_style
from ablations.report.formats.numbers import Digits, estimate, verdict_text
from ablations.report.scores import Scores, baseline_of
from ablations.report.series import label, paired
from ablations.report.tables import ALL_TASKS, Entry, Table
from ablations.report.units import Units

_HALVES = tuple(zip((0, 0.25, 0.5, 0.75, 1), ("0", "¼", "½", "¾", "1"), strict=True))


def differences(plan: Plan, table: Table, scored: Scores, learned: Units) -> Figure | None:
    """Return every comparison's difference and interval, a dot per seed, and the margin, per task.

    None where a plan compares nothing.
    """
    compared = _compared(plan, table)
    if not compared:
        return None
    panels = []
    for task in table.places:
        shown = [table.entry(task, variant) for variant in compared]
        digits = Digits(table.of(task))
        margin = next((row.margin for row in shown if row is not None and row.margin), None)
        marks: list[Mark] = [] if margin is None else [Span(-margin, margin)]
        marks.append(Rule(0))
        for place, row in enumerate(shown):
            if row is None or row.difference is None:
                continue
            numbers = " ".join(digits.difference(row)).strip()
            bounds = (row.difference, row.difference_low, row.difference_high)
            name = verdict_style(row.verdict).label or row.verdict or ""
            marks.append(replace(_interval(row, place, bounds, numbers), label=name))
            if row.verdict is not Verdict.IDENTICAL:
                dots = paired(plan, scored, learned, task, row.variant)
                color = verdict_style(row.verdict).color
                marks.append(Points(dots, [place + 0.24] * len(dots), color))
        what = "in what was learned" if task == ALL_TASKS else f"final {label(table.metric)}"
        panels.append(_panel(plan, task, compared, Axis(what), marks, 2.75))
    baselines = {baseline_of(plan, variant) for variant in compared}
    to = f"Difference to {baselines.pop()}" if len(baselines) == 1 else "Differences"
    caption = (
        "Mean of the differences paired by seed; the intervals hold for all comparisons at once "
        "with 95%. Dots: one seed each."
    )
    if any(row.margin for row in table.rows):
        caption += (
            " Shaded: the margin within which a difference does not matter, of the first row where "
            "rows differ."
        )
    return _figure(plan, to, caption, panels, compared)


def improvement(plan: Plan, table: Table) -> Figure | None:
    """Return the probability that a run scores above one of the baseline, with its interval.

    None where a plan compares nothing, or nothing that has an interval.
    """
    compared = _compared(plan, table)
    panels = []
    for task in table.places:
        marks: list[Mark] = [Rule(0.5)]
        for place, variant in enumerate(compared):
            row = table.entry(task, variant)
            if row is not None and row.probability_of_improvement is not None:
                bounds = (row.probability_of_improvement, row.improvement_low, row.improvement_high)
                marks.append(_interval(row, place, bounds, estimate(*bounds)))
        axis = Axis("P(variant > baseline)", limits=(-0.04, 1.04), ticks=_HALVES)
        panels.append(_panel(plan, task, compared, axis, marks, 2.5))
    if not any(row.improvement_low is not None for row in table.rows):
        return None
    caption = (
        "Share of all pairs of runs in which the variant scores higher than its baseline, 95% "
        "score interval (Newcombe 2006). Colour: the verdict."
    )
    return _figure(plan, "Probability of improvement", caption, panels, compared)


def _interval(
    row: Entry, place: int, bounds: tuple[float, float | None, float | None], numbers: str
) -> Interval:
    style = verdict_style(row.verdict)
    text = f"{numbers}, {verdict_text(row)}, {row.n_pairs} pairs"
    return Interval(
        bounds[0],
        place,
        *bounds[1:],
        style.color,
        hollow=style.hollow,
        hover=f"{row.variant} vs {row.baseline}\n{text}",
    )


def _compared(plan: Plan, table: Table) -> list[str]:
    """Return the variants that have a baseline."""
    return [variant for variant in table.variants if baseline_of(plan, variant) is not None]


def _panel(
    plan: Plan,
    task: str,
    compared: Sequence[str],
    x: Axis,
    marks: Sequence[Mark],
    width: float,
) -> Panel:
    """Return a panel with a row for each variant, with its baseline where there are several."""
    baselines = {variant: baseline_of(plan, variant) for variant in compared}
    several = len(set(baselines.values())) > 1
    y = rows([f"{v}\nvs {versus}" if several else v for v, versus in baselines.items()])
    return Panel(task, x, y, tuple(marks), width, 0.42 * len(compared))


def _figure(
    plan: Plan, title: str, caption: str, panels: Sequence[Panel], compared: Sequence[str]
) -> Figure:
    return Figure(
        title=title,
        caption=caption,
        panels=tuple(panels),
        subject=plan.study.title,
        beside=0.8 + room(compared),
        around=1.45,
        share="all",
    )

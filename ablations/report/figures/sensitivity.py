"""Scores along a number that a study varies."""

from __future__ import annotations

from collections.abc import Iterator

from ablations.records import Plan
from ablations.report import sensitivity as along
from ablations.report.figures.marks import (
    Axis,
    Band,
    Entry,
    Figure,
    Interval,
    Legend,
    Line,
    Mark,
    Panel,
    Points,
    room,
)
from ablations.report.figures.palette import shade
from ablations.report.formats.numbers import Digits
from ablations.report.scores import Scores
from ablations.report.sensitivity import nearest, runs
from ablations.report.series import label
from ablations.report.tables import ALL_TASKS, Table
from ablations.report.units import Units

PLAIN = "no other change"  # of variants that set a number alone
_LINES_WITH_DOTS = 4
_ASIDE = 0.014  # of an axis, between intervals that stand at the same value


def sensitivity(plan: Plan, table: Table, scored: Scores, learned: Units) -> Figure | None:
    """Return mean scores with 95% intervals along each number, per task and environment.

    With a dot per seed, and the margin around what is compared with.
    None where no variants differ in a number alone.
    """
    shown = along.panels(plan, table)
    if not shown:
        return None
    numbers = list(dict.fromkeys(panel.number for panel in shown))
    names = list(dict.fromkeys(line.name for panel in shown for line in panel.lines))
    columns = max(sum(panel.number == number for panel in shown) for number in numbers)
    aligned = len(shown) == columns * len(numbers)
    caption = (
        "Mean score at each value, with its 95% interval; dots, where there is room: one seed each."
    )
    if any(panel.band for panel in shown):
        caption += " Shaded: the margin around the score of what the variants are compared with."
    entries = {
        panel.number: tuple(
            Entry(line.name or PLAIN, shade(place, len(panel.lines)))
            for place, line in enumerate(panel.lines)
        )
        for panel in reversed(shown)
    }
    several = len(numbers) > 1
    return Figure(
        title="Sensitivity to a number",
        caption=caption,
        panels=tuple(
            _panel(panel, plan, table, scored, learned, panel.number if several else "")
            for panel in shown
        ),
        subject=plan.study.title,
        columns=min(columns, 4) if aligned else 3,
        legend=Legend(
            {}
            if names == [""]
            else {number if several else "": entries[number] for number in numbers}
        ),
        beside=0.0 if names == [""] else room([*names, PLAIN]),
        variants=False,
    )


def _panel(
    panel: along.Panel,
    plan: Plan,
    table: Table,
    scored: Scores,
    learned: Units,
    group: str,
) -> Panel:
    places = panel.places
    marks: list[Mark] = []
    if panel.band is not None:
        values, low, high = panel.band
        marks.append(Band([places[value] for value in values], low, high, "margin", alpha=1.0))
    for place in range(len(panel.lines)):
        marks += _line(panel, place, plan, table, scored, learned)
    over = panel.task == ALL_TASKS
    ticks = tuple(zip(places.values(), panel.labels(0.02), strict=True))
    return Panel(
        title=panel.title,
        x=Axis(panel.number, ticks=ticks),
        y=Axis("normalised score" if over else f"final {label(table.metric)}"),
        marks=tuple(marks),
        width=3.0,
        height=2.5,
        group=group,
    )


def _line(
    panel: along.Panel,
    place: int,
    plan: Plan,
    table: Table,
    scored: Scores,
    learned: Units,
) -> Iterator[Mark]:
    """Yield means with their intervals, joined, and dots.

    Intervals of several lines stand beside each other, nearer than the values do.
    """
    line, count, places = panel.lines[place], len(panel.lines), list(panel.places.values())
    span = places[-1] - places[0]
    step = span * min(_ASIDE, 0.6 * nearest(places) / count)
    aside = step * (place - (count - 1) / 2)
    color, digits = shade(place, count), Digits(table.of(panel.task))
    seen = [
        (panel.places[value] + aside, row)
        for value, variant in zip(line.values, line.variants, strict=True)
        if (row := table.entry(panel.task, variant)) is not None and row.mean is not None
    ]
    name = line.name or (PLAIN if count > 1 else panel.number)
    if count <= _LINES_WITH_DOTS:
        for x, row in seen:
            each = runs(plan, scored, learned, panel.task, row.variant)
            yield Points([x] * len(each), each, color)
    for x, row in seen:
        y = row.mean or 0.0
        yield Interval(x, y, row.low, row.high, color, "y", 1.8, 0.55, symbol=None)
    yield Line(
        [x for x, _ in seen],
        [row.mean or 0.0 for _, row in seen],
        color,
        width=1.2,
        symbol="circle",
        hover=tuple(f"{name}: {' '.join(digits.score(row)).strip()}" for _, row in seen),
    )

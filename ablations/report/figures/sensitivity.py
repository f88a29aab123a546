"""Scores along a number that a study varies."""

from __future__ import annotations

from matplotlib.axes import Axes

from ablations.records import Plan
from ablations.report import sensitivity as along
from ablations.report.figures.style import (
    COLORS,
    Drawing,
    Style,
    broken,
    dots,
    finish,
    key,
    panels,
    shade,
    styled,
)
from ablations.report.scores import Scores
from ablations.report.sensitivity import nearest, runs
from ablations.report.series import label
from ablations.report.tables import ALL_TASKS, Table
from ablations.report.units import Units

PLAIN = "no other change"  # of variants that set a number alone
_LINES_WITH_DOTS = 4
_ASIDE = 0.014  # of an axis, between intervals that stand at the same value


@styled
def sensitivity(
    plan: Plan, table: Table, scored: Scores, learned: Units, width: float | str | None = None
) -> Drawing | None:
    """Draw mean scores with 95% intervals along each number, per task and environment.

    With a dot per seed, and the margin around what is compared with.
    None where no variants differ in a number alone.
    """
    shown = along.panels(plan, table)
    if not shown:
        return None
    numbers = list(dict.fromkeys(panel.number for panel in shown))
    several = len(numbers) > 1
    columns = max(sum(panel.number == number for panel in shown) for number in numbers)
    aligned = len(shown) == columns * len(numbers)
    drawing, axes = panels(len(shown), width, (2.6, 1.9), columns=min(columns, 4) if aligned else 3)
    for here, panel in zip(axes, shown, strict=True):
        _panel(here, panel, plan, table, scored, learned)
        number = broken(panel.number) if several else ""
        here.set(title=f"{panel.title}\n{number}" if number else panel.title, xlabel=panel.number)
        over = panel.task == ALL_TASKS
        here.set_ylabel("normalised score" if over else f"final {label(table.metric)}")
    named = any(line.name for panel in shown for line in panel.lines)
    caption = (
        "Mean score at each value, with its 95% interval; dots, where there is room: one seed each."
    )
    if any(panel.band for panel in shown):
        caption += " Shaded: the margin around the score of what the variants are compared with."
    return finish(
        drawing,
        "Sensitivity to a number",
        caption,
        subject=plan.study.title,
        legend={
            panel.number if several else "": [
                key(line.name or PLAIN, Style(shade(place, len(panel.lines))))
                for place, line in enumerate(panel.lines)
            ]
            for panel in (shown if named else ())
        },
        alone=width is None,
    )


def _panel(
    axes: Axes, panel: along.Panel, plan: Plan, table: Table, scored: Scores, learned: Units
) -> None:
    if panel.band is not None:
        values, low, high = panel.band
        at = [panel.places[value] for value in values]
        axes.fill_between(at, low, high, color=COLORS["margin"], linewidth=0)
    for place in range(len(panel.lines)):
        _line(axes, panel, place, plan, table, scored, learned)
    axes.set_xticks(list(panel.places.values()), panel.labels(0.02))


def _line(
    axes: Axes,
    panel: along.Panel,
    place: int,
    plan: Plan,
    table: Table,
    scored: Scores,
    learned: Units,
) -> None:
    """Draw means with their intervals, joined, and dots.

    Intervals of several lines stand beside each other, nearer than the values do.
    """
    line, count, places = panel.lines[place], len(panel.lines), list(panel.places.values())
    step = (places[-1] - places[0]) * min(_ASIDE, 0.6 * nearest(places) / count)
    aside, color = step * (place - (count - 1) / 2), shade(place, count)
    shown = [
        (panel.places[value] + aside, row)
        for value, variant in zip(line.values, line.variants, strict=True)
        if (row := table.entry(panel.task, variant)) is not None and row.mean is not None
    ]
    for x, row in shown:
        if count <= _LINES_WITH_DOTS:
            each = runs(plan, scored, learned, panel.task, row.variant)
            dots(axes, [x] * len(each), each, color)
        if row.low is not None and row.high is not None:
            axes.vlines(x, row.low, row.high, color=color, linewidth=1.8, alpha=0.55)
    axes.plot(
        [x for x, _ in shown],
        [row.mean or 0.0 for _, row in shown],
        "o-",
        color=color,
        linewidth=0.9,
        markersize=3.5,
        markeredgewidth=0,
        label=line.name,
        zorder=4,
    )

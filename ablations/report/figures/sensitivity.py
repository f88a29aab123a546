"""Scores along a number that a study varies, and what is lost where it is not tuned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from ablations.records import Plan
from ablations.report.figures.style import (
    COLORS,
    beside,
    dress,
    footnote,
    in_paper,
    legend,
    line,
    panels,
    room,
    title,
)
from ablations.report.scores import Scores
from ablations.report.sensitivity import Panel, Tuned, nearest, rows_of, runs
from ablations.report.sensitivity import panels as panels_of
from ablations.report.series import LINES_OF_A_PANEL, label
from ablations.report.tables import ALL_TASKS, Entry, Table
from ablations.report.units import Units

_LINES_WITH_DOTS = 4


def sensitivity(plan: Plan, made: Table, found: Scores, learned: Units | None) -> Figure | None:
    """One panel per number, task and environment: mean scores with 95% intervals, a dot per seed,
    and the margin around what is compared with. None where no variants differ in a number alone."""
    shown = panels_of(plan, made)
    if not shown:
        return None
    numbers = list(dict.fromkeys(panel.number for panel in shown))
    names = list(dict.fromkeys(one.name for panel in shown for one in panel.lines))
    columns = max(sum(panel.number == number for panel in shown) for number in numbers)
    aligned = len(shown) == columns * len(numbers)
    drawn, axes = panels(
        len(shown),
        (3.0, 1.7 if in_paper() else 2.5),
        beside=0.0 if in_paper() or names == [""] else room(names),
        around=0.65,
        columns=min(columns, 4) if aligned else 3,
    )
    legends: dict[str, list[Any]] = {}
    for axis, panel in zip(axes.flat, shown, strict=False):
        legends.setdefault(panel.number, _panel(axis, panel, plan, made, found, learned))
    if names != [""] and in_paper():
        legend(drawn, legends if len(numbers) > 1 else {"": legends[numbers[0]]})
    elif names != [""]:
        for number, handles in legends.items():
            row = [panel.number for panel in shown].index(number) // axes.shape[1]
            beside(axes[row][-1], handles, title=number if len(numbers) > 1 else None)
    title(drawn, f"{plan.study.title}: sensitivity")
    said = "mean over seeds with its 95% interval; dots, where there is room: one seed each"
    if any(panel.band for panel in shown):
        said += "; shaded: the margin around what the variants are compared with"
    footnote(drawn, said)
    return drawn


def _panel(
    axis: Any, panel: Panel, plan: Plan, made: Table, found: Scores, learned: Units | None
) -> list[Any]:
    """Draws a panel; returns its legend's entries."""
    dress(axis)
    places = panel.places
    gap = nearest(list(places.values())) * (80 if in_paper() else 150)  # in points, about
    if panel.band is not None:
        values, low, high = panel.band
        at = [places[value] for value in values]
        axis.fill_between(at, low, high, color="#0072B2", alpha=0.09, linewidth=0)
    handles = []
    for place, one in enumerate(panel.lines):
        color = _color(place, len(panel.lines))
        # Intervals stand beside each other, nearer than the values do.
        points = min(3.5, 0.6 * gap / len(panel.lines)) * (place - (len(panel.lines) - 1) / 2)
        aside = axis.transData + ScaledTranslation(points / 72, 0, axis.figure.dpi_scale_trans)
        seen = [
            (places[value], row)
            for value, row in zip(one.values, rows_of(made, panel, one), strict=True)
            if row is not None
        ]
        _line(axis, seen, {"color": color, "transform": aside})
        # What is moved aside does not count for the axes of its own accord.
        axis.update_datalim([(x, y) for x, row in seen for y in (row.mean, row.low, row.high) if y])
        if len(panel.lines) <= _LINES_WITH_DOTS:
            for x, row in seen:
                each = runs(plan, found, learned, panel.task, row.variant)
                look = {"color": color, "alpha": 0.45, "transform": aside}
                axis.plot([x] * len(each), each, ".", markersize=3.5, mew=0, zorder=4, **look)
                axis.update_datalim([(x, y) for y in each])
        handles.append(line(one.name, (color, "-")))
    axis.set_xticks(list(places.values()), panel.labels(0.03 if in_paper() else 0.02))
    axis.margins(x=0.08)
    axis.autoscale_view()
    axis.yaxis.set_major_locator(MaxNLocator(5))
    axis.set_title(panel.title)
    axis.set_xlabel(panel.number)
    over = panel.task == ALL_TASKS
    axis.set_ylabel("normalised score" if over else f"final {label(made.metric)}")
    return handles


def _line(axis: Any, seen: Sequence[tuple[float, Entry]], look: dict[str, Any]) -> None:
    """Means with their intervals, joined."""
    xs, means = [x for x, _ in seen], [row.mean for _, row in seen]
    size = 3.5 if in_paper() else 5
    axis.plot(xs, means, linewidth=1.2, marker="o", markersize=size, zorder=3, **look)
    for x, row in seen:
        if row.low is not None:
            axis.plot([x, x], [row.low, row.high], linewidth=1.8, alpha=0.55, zorder=2, **look)


def _color(place: int, count: int) -> str:
    """Of one of so many lines: the palette, or where that is too short shades in order."""
    if count <= LINES_OF_A_PANEL:
        return COLORS[place]
    return to_hex(colormaps["viridis"](0.95 * place / (count - 1)))


def plane(plan: Plan, points: list[Tuned]) -> Figure:
    """What is lost without tuning against the tuned score, a point per way to take other axes."""
    drawn, axes = panels(
        1, (4.2 + room(one.name for one in points), 2.6 if in_paper() else 3.4), around=0.4
    )
    axis = axes.flat[0]
    dress(axis)
    handles = []
    for place, one in enumerate(points):
        color = _color(place, len(points))
        axis.errorbar(
            [one.lost[0]],
            [one.score[0]],
            xerr=[[one.lost[0] - one.lost[1]], [one.lost[2] - one.lost[0]]],
            yerr=[[one.score[0] - one.score[1]], [one.score[2] - one.score[0]]],
            color=color,
            marker="o",
            markersize=5,
            linewidth=1.3,
        )
        handles.append(line(one.name, (color, "-")))
    axis.axvline(0, color="#444444", linewidth=0.8)
    axis.set_xlabel("lost with one setting for all environments")
    axis.set_ylabel("score, tuned for each")
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.yaxis.set_major_locator(MaxNLocator(5))
    if in_paper():
        legend(drawn, {"": handles})
    else:
        beside(axis, handles)
    title(drawn, f"{plan.study.title}: score and sensitivity")
    footnote(
        drawn,
        "in what was learned, mean over environments and seeds, 95% intervals; each seed is scored "
        "at the settings that the others choose (Adkins et al. 2024); best: up and left",
    )
    return drawn

"""The effects of a factorial study: a matrix, main effects on its diagonal and interactions off it;
of a fraction, which has no interactions, the main effects with their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ablations.records import Plan
from ablations.report.figures.style import (
    UNDECIDED,
    VERDICT_COLORS,
    dress,
    footnote,
    in_paper,
    names,
    panels,
    room,
    title,
)
from ablations.report.series import label
from ablations.report.tables import ALL_TASKS, Sheet

# Blue up, vermilion down: Okabe & Ito's, told apart by every colour vision.
_DIVERGING = LinearSegmentedColormap.from_list(
    "effects", ["#D55E00", "#F2B48C", "#FFFFFF", "#8FBFE0", "#0072B2"]
)


def main_effects(plan: Plan, sheet: Sheet, metric: str) -> Figure | None:
    """A row per main effect on a metric, one panel per task. None where none has an interval."""
    rows = [row for row in sheet.records() if row["low"] is not None]
    if not rows:
        return None
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    items = list(dict.fromkeys((row["factor"], row["level"]) for row in rows))
    drawn, axes = panels(
        len(tasks),
        (2.75, 0.3 * len(items)),
        beside=room([f"{factor} = {level}" for factor, level in items]),
        around=1.4,
        columns=4,
        sharey=True,
    )
    for panel, task in zip(axes.flat, tasks, strict=False):
        panel.axvline(0, color="#444444", linewidth=0.9)
        dress(panel)
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
        panel.set_title(task)
        of = "in what was learned" if task == ALL_TASKS else label(metric)
        panel.set_xlabel(f"effect, {of}")
        panel.xaxis.set_major_locator(MaxNLocator(3 if in_paper() else 5))
        for row in (one for one in rows if one["task"] == task):
            place = items.index((row["factor"], row["level"]))
            color = VERDICT_COLORS.get(row["verdict"], UNDECIDED)
            filled = row["verdict"] in VERDICT_COLORS and "undecided" not in row["verdict"]
            panel.plot([row["low"], row["high"]], [place, place], color=color, linewidth=2.2)
            panel.plot(
                row["effect"],
                place,
                marker="o",
                color=color,
                markerfacecolor=color if filled else "white",
            )
    axes.flat[0].set_ylim(len(items) - 0.5, -0.5)
    names(axes, [f"{factor} = {level}" for factor, level in items])
    title(drawn, f"{plan.study.title}: effects")
    footnote(
        drawn,
        "mean of the variants with a level minus mean of the others; all intervals hold at once "
        "with 95%, and leave out what three changes do together; green: better, vermilion: worse, "
        "filled beyond the margin; blue: equivalent; grey: undecided; pink: runs fail",
    )
    return drawn


def effect_matrix(plan: Plan, sheet: Sheet) -> Figure | None:
    """One panel per task. None where no interaction could be estimated."""
    rows = [row for row in sheet.records() if row["effect"] is not None]
    if not any(row["kind"] == "interaction" for row in rows):
        return None
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    items = [
        (row["factor"], row["level"])
        for row in rows
        if row["kind"] == "main" and row["task"] == tasks[0]
    ]
    side = (0.45 if in_paper() else 0.92 if len(items) < 7 else 0.55) * len(items)
    drawn, axes = panels(
        len(tasks),
        (side, side + (1.0 if in_paper() or side > 4 else 0.0)),
        beside=2.6,
        around=0.0 if in_paper() else 1.5,
        columns=2 if side > 4 else None,
        least=max(1.45, side),
        sharey=True,
    )
    labels = [f"{factor}\n= {level}" for factor, level in items]
    for panel, task in zip(axes.flat, tasks, strict=False):
        _matrix(panel, [row for row in rows if row["task"] == task], items)
        panel.set_title(task)
        panel.set_xticks(range(len(items)), labels, rotation=90)
        panel.tick_params(length=0)
        for edge in panel.spines.values():
            edge.set_visible(False)
    axes.flat[0].set_yticks(range(len(items)), labels)
    title(drawn, f"{plan.study.title}: effects")
    footnote(
        drawn,
        "diagonal: main effect of a level against the reference; below it: interaction; bold: "
        "simultaneous interval excludes 0; in brackets: equivalent, it lies within the margin",
    )
    return drawn


def _matrix(panel: Any, rows: list[dict[str, Any]], items: list[tuple[str, str]]) -> None:
    values = np.full((len(items), len(items)), np.nan)
    said = {}
    for row in rows:
        place = _place(row, items)
        values[place] = row["effect"]
        said[place] = row
    reach = float(np.nanmax(np.abs(values))) or 1.0
    norm = TwoSlopeNorm(0, -reach, reach)
    panel.imshow(np.ma.masked_invalid(values), cmap=_DIVERGING, norm=norm, aspect="equal")
    places = max(0, 1 - int(np.floor(np.log10(reach))))
    for (i, j), row in said.items():
        strong = abs(values[i, j]) > 0.8 * reach
        significant = row["p_adjusted"] is not None and row["p_adjusted"] < 0.05
        text = f"{values[i, j]:+.{places}f}"
        panel.text(
            j,
            i,
            f"({text})" if row["verdict"] == "equivalent" else text,
            ha="center",
            va="center",
            fontsize=6.5 if in_paper() or len(items) > 6 else 8,
            color="white" if strong else "black",
            fontweight="bold" if significant else "normal",
        )


def _place(row: dict[str, Any], items: list[tuple[str, str]]) -> tuple[int, int]:
    factors, levels = row["factor"].split(" \u00d7 "), row["level"].split(" \u00d7 ")
    where = sorted(items.index(item) for item in zip(factors, levels, strict=True))
    return where[-1], where[0]

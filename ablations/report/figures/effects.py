"""The effect matrix of a factorial study: main effects on the diagonal, interactions off it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure

from ablations.records import Plan
from ablations.report.figures.style import footnote, in_paper, panels, title
from ablations.report.tables import Sheet

# Blue up, vermilion down: Okabe & Ito's, told apart by every colour vision.
_DIVERGING = LinearSegmentedColormap.from_list(
    "effects", ["#D55E00", "#F2B48C", "#FFFFFF", "#8FBFE0", "#0072B2"]
)


def effect_matrix(plan: Plan, sheet: Sheet) -> Figure | None:
    """One panel per task. None where no effect could be estimated."""
    rows = sheet.records()
    rows = [row for row in rows if row["effect"] is not None]
    if not rows:
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
    names = [f"{factor}\n= {level}" for factor, level in items]
    for panel, task in zip(axes.flat, tasks, strict=False):
        _matrix(panel, [row for row in rows if row["task"] == task], items)
        panel.set_title(task)
        panel.set_xticks(range(len(items)), names, rotation=90)
        panel.tick_params(length=0)
        for edge in panel.spines.values():
            edge.set_visible(False)
    axes.flat[0].set_yticks(range(len(items)), names)
    title(drawn, f"{plan.study['title']}: effects")
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

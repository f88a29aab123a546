"""The effects of a factorial study.

A matrix, main effects on its diagonal and interactions off it; of a fraction, which has no
interactions, the main effects with their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ablations.core.verdict import Verdict
from ablations.records import Plan
from ablations.report.figures.style import (
    COLORS,
    Drawing,
    broken,
    finish,
    height,
    interval,
    panels,
    rows,
    styled,
    verdict_style,
)
from ablations.report.formats.numbers import fixed
from ablations.report.series import label
from ablations.report.statistics import LEVEL
from ablations.report.tables import ALL_TASKS, Sheet

_STRONG = 0.7  # of the strongest colour, from where texts are light


class Effect(NamedTuple):
    """An effect that was estimated.

    items: the factor and level of a main effect, of both of an interaction.
    """

    task: str
    items: tuple[tuple[str, str], ...]
    value: float
    low: float | None
    high: float | None
    p_adjusted: float | None
    verdict: Verdict


@styled
def effects(
    plan: Plan, sheet: Sheet, metric: str, width: float | str | None = None
) -> Drawing | None:
    """Draw the effects on a metric, a panel per task; None where none could be estimated."""
    estimated = [
        Effect(
            row["task"],
            tuple(
                zip(row["factor"].split(" \u00d7 "), row["level"].split(" \u00d7 "), strict=True)
            ),
            *(row[name] for name in ("effect", "low", "high", "p_adjusted", "verdict")),
        )
        for row in sheet.records()
        if row["effect"] is not None and row["kind"] != "aliased"
    ]
    if any(len(effect.items) > 1 for effect in estimated):
        return _matrices(plan, estimated, width)
    bars = [effect for effect in estimated if effect.low is not None]
    return _main_effects(plan, bars, metric, width) if bars else None


def _main_effects(
    plan: Plan, estimated: Sequence[Effect], metric: str, width: float | str | None
) -> Drawing:
    items = list(dict.fromkeys(effect.items for effect in estimated))
    names = [f"{factor} = {level}" for ((factor, level),) in items]
    tasks = list(dict.fromkeys(effect.task for effect in estimated))
    size = (2.5, height(names))
    drawing, axes = panels(len(tasks), width, size, columns=4, names=names, share="all")
    rows(axes[0], names)
    for here, task in zip(axes, tasks, strict=True):
        here.axvline(0, color=COLORS["quiet"], linewidth=0.9, zorder=1)
        for effect in (effect for effect in estimated if effect.task == task):
            color, hollow, _ = verdict_style(effect.verdict)
            bounds, row = (effect.low, effect.high), items.index(effect.items)
            interval(here, effect.value, row, bounds, color, hollow=hollow)
        what = "in what was learned" if task == ALL_TASKS else label(metric)
        here.set(title=task, xlabel=f"effect, {what}")
    return finish(
        drawing,
        "Effects of what the variants set",
        "Mean of the variants with a level minus mean of the others; all intervals of a "
        "panel hold at once with 95%. Green: better, vermilion: "
        "worse, filled beyond the margin; blue: equivalent; grey: undecided; pink: runs fail.",
        subject=plan.study.title,
        alone=width is None,
    )


def _matrices(plan: Plan, estimated: Sequence[Effect], width: float | str | None) -> Drawing:
    tasks = list(dict.fromkeys(effect.task for effect in estimated))
    items = list(
        dict.fromkeys(
            effect.items[0]
            for effect in estimated
            if len(effect.items) == 1 and effect.task == tasks[0]
        )
    )
    names = [broken(f"{factor}\n= {level}") for factor, level in items]
    lines = [name.split("\n") for name in names]
    side = max(0.45, 0.14 * max(map(len, lines))) * len(items)
    beside = 0.06 * max(len(line) for name in lines for line in name)
    drawing, axes = panels(
        len(tasks),
        width,
        (max(side, 1.45) + 0.2, side + beside + 0.4),
        columns=2 if len(items) > 4 else 4,
        least=max(1.45, side),
        names=names,
        share="all",
    )
    for here, task in zip(axes, tasks, strict=True):
        here.set_title(task)
        _matrix(here, [effect for effect in estimated if effect.task == task], items)
        here.set(xlim=(-0.5, len(items) - 0.5), ylim=(len(items) - 0.5, -0.5))
        here.set_xticks(range(len(items)), names, rotation=90)
        here.set_yticks(range(len(items)), names)
        here.tick_params(length=0)
        here.grid(visible=False)
        here.spines[:].set_visible(False)
    return finish(
        drawing,
        "Effects of what the variants set",
        "Diagonal: main effect of a level against the reference; below it: interaction. "
        "Bold: the simultaneous 95% interval excludes 0; in brackets: equivalent, it lies within "
        "the margin.",
        subject=plan.study.title,
        alone=width is None,
    )


def _matrix(axes: Axes, estimated: Sequence[Effect], items: Sequence[tuple[str, str]]) -> None:
    reach = max(abs(effect.value) for effect in estimated) or 1.0
    digits = max(0, 1 - math.floor(math.log10(reach)))
    for effect in estimated:
        column, *_, row = sorted(items.index(item) for item in effect.items * 2)
        strength = abs(effect.value) / reach
        color = COLORS["up" if effect.value > 0 else "down"]
        corner = (column - 0.48, row - 0.45)
        axes.add_patch(Rectangle(corner, 0.96, 0.9, facecolor=color, alpha=strength, linewidth=0))
        text = fixed(effect.value, digits, "+")
        bold = effect.p_adjusted is not None and effect.p_adjusted < LEVEL
        axes.text(
            column,
            row,
            f"({text})" if effect.verdict is Verdict.EQUIVALENT else text,
            ha="center",
            va="center",
            fontsize=6.5,
            color="black" if strength < _STRONG else "white",
            fontweight="bold" if bold else "normal",
        )

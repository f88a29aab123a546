"""The effects of a factorial study.

A matrix, main effects on its diagonal and interactions off it; of a fraction, which has no
interactions, the main effects with their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ablations.core.verdict import Verdict
from ablations.records import Plan
from ablations.report.figures.marks import (
    Axis,
    Cell,
    Figure,
    Interval,
    Matrix,
    Panel,
    Rule,
    room,
    rows,
)
from ablations.report.figures.palette import verdict_style
from ablations.report.formats.numbers import estimate, fixed
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
    n: int
    value: float
    low: float | None
    high: float | None
    p_adjusted: float | None
    verdict: Verdict

    @property
    def hover(self) -> str:
        """The numbers as the table prints them."""
        names = " and ".join(f"{factor} = {level}" for factor, level in self.items)
        kind = "main" if len(self.items) == 1 else "interaction"
        numbers = estimate(self.value, self.low, self.high, "+")
        return f"{names}\n{kind}: {numbers}, {self.verdict}, {self.n} seeds"


def effects(plan: Plan, sheet: Sheet, metric: str) -> Figure | None:
    """Return the effects on a metric, a panel per task; None where none could be estimated."""
    estimated = [
        Effect(
            row["task"],
            tuple(
                zip(row["factor"].split(" \u00d7 "), row["level"].split(" \u00d7 "), strict=True)
            ),
            *(row[name] for name in ("n", "effect", "low", "high", "p_adjusted", "verdict")),
        )
        for row in sheet.records()
        if row["effect"] is not None and row["kind"] != "aliased"
    ]
    if any(len(effect.items) > 1 for effect in estimated):
        return _matrices(plan, estimated)
    return _main_effects(plan, [effect for effect in estimated if effect.low is not None], metric)


def _main_effects(plan: Plan, estimated: Sequence[Effect], metric: str) -> Figure | None:
    if not estimated:
        return None
    items = list(dict.fromkeys(effect.items for effect in estimated))
    names = [f"{factor} = {level}" for ((factor, level),) in items]
    panels = []
    for task in dict.fromkeys(effect.task for effect in estimated):
        what = "in what was learned" if task == ALL_TASKS else label(metric)
        bars = tuple(
            _bar(effect, items.index(effect.items)) for effect in estimated if effect.task == task
        )
        x, height = Axis(f"effect, {what}"), 0.3 * len(items)
        panels.append(Panel(task, x, rows(names), (Rule(0), *bars), 2.75, height))
    return Figure(
        title="Effects of what the variants set",
        caption="Mean of the variants with a level minus mean of the others; all intervals of a "
        "panel hold at once with 95%. Green: better, vermilion: "
        "worse, filled beyond the margin; blue: equivalent; grey: undecided; pink: runs fail.",
        panels=tuple(panels),
        subject=plan.study.title,
        columns=4,
        beside=room(names),
        around=1.4,
        share="all",
    )


def _bar(effect: Effect, row: int) -> Interval:
    color, hollow, _ = verdict_style(effect.verdict)
    bounds = (effect.low, effect.high)
    return Interval(effect.value, row, *bounds, color, hollow=hollow, hover=effect.hover)


def _matrices(plan: Plan, estimated: Sequence[Effect]) -> Figure:
    tasks = list(dict.fromkeys(effect.task for effect in estimated))
    items = list(
        dict.fromkeys(
            effect.items[0]
            for effect in estimated
            if len(effect.items) == 1 and effect.task == tasks[0]
        )
    )
    count = len(items)
    side = (0.92 if count < 7 else 0.55) * count
    ticks = tuple((k, f"{factor}\n= {level}") for k, (factor, level) in enumerate(items))
    panels = tuple(
        Panel(
            title=task,
            x=Axis(limits=(-0.5, count - 0.5), ticks=ticks, names=True, turned=True),
            y=Axis(limits=(count - 0.5, -0.5), ticks=ticks, names=True),
            marks=(_matrix([effect for effect in estimated if effect.task == task], items),),
            width=side,
            height=side + (1.0 if side > 4 else 0.0),
            frame=(),
            square=True,
        )
        for task in tasks
    )
    return Figure(
        title="Effects of what the variants set",
        caption="Diagonal: main effect of a level against the reference; below it: interaction. "
        "Bold: the simultaneous 95% interval excludes 0; in brackets: equivalent, it lies within "
        "the margin.",
        panels=panels,
        subject=plan.study.title,
        columns=2 if side > 4 else None,
        beside=2.6,
        around=1.5,
        share="all",
        narrowest=max(1.45, 0.45 * count),
    )


def _matrix(estimated: Sequence[Effect], items: Sequence[tuple[str, str]]) -> Matrix:
    reach = max(abs(effect.value) for effect in estimated) or 1.0
    digits = max(0, 1 - math.floor(math.log10(reach)))
    cells = []
    for effect in estimated:
        column, *_, row = sorted(items.index(item) for item in effect.items * 2)
        text = fixed(effect.value, digits, "+")
        fill, opacity = "up" if effect.value > 0 else "down", abs(effect.value) / reach
        cells.append(
            Cell(
                row,
                column,
                fill,
                f"({text})" if effect.verdict is Verdict.EQUIVALENT else text,
                opacity,
                "text" if opacity < _STRONG else f"on-{fill}",
                bold=effect.p_adjusted is not None and effect.p_adjusted < LEVEL,
                hover=effect.hover,
            )
        )
    return Matrix(tuple(cells), size=6.5 if len(items) > 6 else 8)

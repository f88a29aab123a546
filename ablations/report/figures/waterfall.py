"""The waterfall of an explanation: from one end's score to the other's, detail by detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ablations.core.plan import Explanation
from ablations.records import Plan
from ablations.report.figures.marks import (
    Axis,
    Bar,
    Figure,
    Interval,
    Line,
    Mark,
    Panel,
    Points,
    Rule,
    rows,
)
from ablations.report.formats.numbers import estimate
from ablations.report.scores import Scores
from ablations.report.series import label
from ablations.report.tables import Sheet
from ablations.report.tables.explained import INERT, paths

_ROW = 0.27  # inches


class Detail(NamedTuple):
    """A detail's share of the gap, and what it changes switched first and last, in the metric."""

    name: str
    share: float
    low: float | None
    high: float | None
    alone: float
    removed: float


def waterfall(plan: Plan, scored: Scores, sheet: Sheet) -> Figure | None:
    """Return the shares as steps from the start's mean score to the end's, per task.

    Beside them what each detail does alone and when it is removed. None where no seed is complete.
    """
    about = plan.study.explanation
    records = [row for row in sheet.records() if row["n"]]
    tasks = [task for task in plan.tasks if any(row["task"] == task for row in records)]
    if about is None or not tasks:
        return None
    panels: list[Panel] = []
    for task in tasks:
        details = [
            Detail(
                row["detail"],
                *(row[name] for name in ("share", "share_low", "share_high", "alone", "removed")),
            )
            for row in [row for row in records if row["task"] == task][1:]
            if row["verdict"] != INERT
        ]
        panels += _pair(plan, about, scored, task, details)
    inert = any(row["verdict"] == INERT for row in records)
    return Figure(
        title="Shares of the gap",
        caption=f"Shapley values over random orders, {records[0]['n']} seeds, 95% t intervals that "
        "hold at once. Right: what a detail changes switched first (open) and switched last "
        "(filled); the line between them is its interaction with the others."
        + (" Left out: details that do not act." if inert else ""),
        panels=tuple(panels),
        subject=plan.study.title,
        columns=2,
        beside=2.2,
        around=0.9,
        share="row",
        variants=False,
    )


def _pair(
    plan: Plan, about: Explanation, scored: Scores, task: str, details: Sequence[Detail]
) -> tuple[Panel, Panel]:
    scores = paths(plan, scored, task).along
    start, end = float(np.mean(scores[:, 0])), float(np.mean(scores[:, -1]))
    names = [_short(name) for name in (about.start, *(d.name for d in details), about.end)]
    height = _ROW * len(names) + 0.9
    left = Panel(
        title=f"{task}: shares of the gap",
        x=Axis(label(plan.study.metric)),
        y=rows(names),
        marks=tuple(_steps(details, start, end)),
        width=4.2,
        height=height,
    )
    right = Panel(
        title=f"{task}: alone and removed",
        x=Axis(f"change of {label(plan.study.metric)}"),
        y=rows(names),
        marks=tuple(_alone_and_removed(details)),
        width=2.8,
        height=height,
    )
    return left, right


def _steps(details: Sequence[Detail], start: float, end: float) -> list[Mark]:
    at = start
    marks: list[Mark] = [Line((at, at), (-0.35, 0.65), "faint", width=0.8)]
    for place, detail in enumerate(details, start=1):
        hover = f"{detail.name}: {estimate(detail.share, detail.low, detail.high, '+')}"
        after = at + detail.share
        color = "up" if detail.share > 0 else "down"
        marks.append(Bar(place, at, after, color, 0.62, hover=hover))
        if detail.low is not None and detail.high is not None:
            low, high = at + detail.low, at + detail.high
            marks.append(Interval(after, place, low, high, "text", width=1, symbol=None))
        marks.append(Line((after, after), (place - 0.31, place + 1.31), "faint", width=0.8))
        at = after
    for place, score in ((0, start), (len(details) + 1, end)):
        hover = f"mean score {estimate(score)}"
        marks.append(
            Interval(score, place, None, None, "quiet", symbol="diamond", size=5, hover=hover)
        )
    return marks


def _alone_and_removed(details: Sequence[Detail]) -> list[Mark]:
    marks: list[Mark] = [Rule(0, color="faint", width=0.8)]
    for place, detail in enumerate(details, start=1):
        marks.append(
            Line((detail.alone, detail.removed), (place, place), "faint", width=1.4, alpha=0.99)
        )
        marks.append(Points((detail.alone,), (place,), "quiet", size=4.7, alpha=1.0, hollow=True))
        marks.append(Points((detail.removed,), (place,), "quiet", size=4.7, alpha=1.0))
    return marks


def _short(name: str) -> str:
    parts = name.split(" + ")
    return name if len(parts) <= 2 else f"{' + '.join(parts[:2])} + {len(parts) - 2} more"

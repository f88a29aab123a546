"""The waterfall of an explanation: from one end's score to the other's, detail by detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from ablations.records import Plan
from ablations.report.figures.style import (
    COLORS,
    Drawing,
    dots,
    finish,
    height,
    panels,
    rows,
    styled,
)
from ablations.report.scores import Scores
from ablations.report.series import label
from ablations.report.tables import Sheet
from ablations.report.tables.explained import INERT, paths


class Detail(NamedTuple):
    """A detail's share of the gap, and what it changes switched first and last, in the metric."""

    name: str
    share: float
    low: float | None
    high: float | None
    alone: float
    removed: float


@styled
def waterfall(
    plan: Plan, scored: Scores, sheet: Sheet, width: float | str | None = None
) -> Drawing | None:
    """Draw the shares as steps from the start's mean score to the end's, per task.

    Beside them what each detail does alone and when it is removed. None where no seed is complete.
    """
    about = plan.study.explanation
    records = [row for row in sheet.records() if row["n"]]
    tasks = [task for task in plan.tasks if any(row["task"] == task for row in records)]
    if about is None or not tasks:
        return None
    details = {
        task: [
            Detail(
                row["detail"],
                *(row[name] for name in ("share", "share_low", "share_high", "alone", "removed")),
            )
            for row in [row for row in records if row["task"] == task][1:]
            if row["verdict"] != INERT
        ]
        for task in tasks
    }
    names = {
        task: [_short(name) for name in (about.start, *(d.name for d in some), about.end)]
        for task, some in details.items()
    }
    longest = max(names.values(), key=len)
    drawing, axes = panels(
        2 * len(tasks),
        width,
        (3.2, height(longest, 0.27)),
        columns=2,
        names=longest,
        share="row",
        ratios=(3, 2),
    )
    for left, right, task in zip(axes[::2], axes[1::2], tasks, strict=True):
        rows(left, names[task])
        scores = paths(plan, scored, task).along
        _steps(left, details[task], float(np.mean(scores[:, 0])), float(np.mean(scores[:, -1])))
        left.set(title=f"{task}\nshares of the gap", xlabel=label(plan.study.metric))
        _alone_and_removed(right, details[task])
        what = f"change of {label(plan.study.metric)}"
        right.set(title=f"{task}\nalone and removed", xlabel=what)
    inert = any(row["verdict"] == INERT for row in records)
    return finish(
        drawing,
        "Shares of the gap",
        f"Shapley values over random orders, {records[0]['n']} seeds, 95% t intervals that "
        "hold at once. Right: what a detail changes switched first (open) and switched last "
        "(filled); the line between them is its interaction with the others."
        + (" Left out: details that do not act." if inert else ""),
        subject=plan.study.title,
        alone=width is None,
    )


def _steps(axes: Axes, details: Sequence[Detail], start: float, end: float) -> None:
    axes.use_sticky_edges = False  # or the axis would end where a bar does
    axes.margins(x=0.06)
    faint, at = COLORS["faint"], start
    axes.plot((at, at), (-0.35, 0.65), color=faint, linewidth=0.6)
    for place, detail in enumerate(details, start=1):
        color = COLORS["up" if detail.share > 0 else "down"]
        axes.barh(place, detail.share, left=at, height=0.62, color=color, linewidth=0)
        after = at + detail.share
        if detail.low is not None and detail.high is not None:
            axes.hlines(place, at + detail.low, at + detail.high, color="black", linewidth=1)
        axes.plot((after, after), (place - 0.31, place + 1.31), color=faint, linewidth=0.6)
        at = after
    ends, quiet = (0, len(details) + 1), COLORS["quiet"]
    axes.plot((start, end), ends, "D", color=quiet, markersize=5, clip_on=False)


def _alone_and_removed(axes: Axes, details: Sequence[Detail]) -> None:
    axes.axvline(0, color=COLORS["faint"], linewidth=0.8, zorder=1)
    for place, detail in enumerate(details, start=1):
        ends = (detail.alone, detail.removed)
        axes.plot(ends, (place, place), color=COLORS["faint"], linewidth=1, zorder=2)
        for x, hollow in zip(ends, (True, False), strict=True):
            dots(axes, [x], [place], COLORS["quiet"], size=4.7, alpha=None, hollow=hollow)


def _short(name: str) -> str:
    parts = name.split(" + ")
    return name if len(parts) <= 2 else f"{' + '.join(parts[:2])} + {len(parts) - 2} more"

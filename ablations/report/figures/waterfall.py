"""The waterfall of an explanation: from one end's score to the other's, detail by detail."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ablations.records import Plan
from ablations.report.figures.style import COLORS, dress, footnote, title
from ablations.report.scores import Scores
from ablations.report.series import label
from ablations.report.tables import Sheet
from ablations.report.tables.explained import INERT, paths

UP, DOWN, ENDS, FAINT = COLORS[1], COLORS[2], "#444444", "#BBBBBB"


def waterfall(plan: Plan, found: Scores, sheet: Sheet) -> Figure | None:
    """One row of panels per task: the shares as steps from the start's mean score to the end's, and
    beside them what each detail does alone and when it is removed. None where no seed is complete.
    """
    about = plan.study.explanation
    assert about is not None
    rows = {task: [row for row in sheet.records() if row["task"] == task] for task in plan.tasks}
    rows = {task: of for task, of in rows.items() if of[0]["n"]}
    if not rows:
        return None
    acting = {task: [r for r in of[1:] if r["verdict"] != INERT] for task, of in rows.items()}
    height = sum(0.27 * (len(of) + 2) + 0.9 for of in acting.values())
    drawn = Figure(figsize=(9.2, height + 0.9), layout="constrained")
    panels = drawn.subplots(
        len(rows),
        2,
        squeeze=False,
        sharey="row",
        gridspec_kw={
            "width_ratios": (3, 2),
            "height_ratios": [len(of) + 4 for of in acting.values()],
        },
    )
    for (left, right), (task, of) in zip(panels, acting.items(), strict=True):
        scores = paths(plan, found, task).along
        _steps(left, of, about, (float(np.mean(scores[:, 0])), float(np.mean(scores[:, -1]))))
        _beside(right, of)
        left.set_title(f"{task}: shares of the gap")
        right.set_title("alone and removed")
        left.set_xlabel(label(plan.study.metric))
        right.set_xlabel("change of it")
    title(drawn, plan.study.title)
    inert = any(len(of) + 1 < len(rows[task]) for task, of in acting.items())
    footnote(
        drawn,
        f"shares: Shapley values over random orders, {rows[next(iter(rows))][0]['n']} seeds, 95% t "
        "intervals that hold at once. Right: what a detail changes switched first (open) and "
        "switched last (filled); the line between them is its interaction with the others."
        + (" Left out: details that do not act." if inert else ""),
    )
    return drawn


def _steps(panel: Any, rows: list[dict[str, Any]], about: Any, ends: tuple[float, float]) -> None:
    names = [about.start, *(row["detail"] for row in rows), about.end]
    panel.set_yticks(range(len(names)), [_short(name) for name in names])
    panel.set_ylim(len(names) - 0.4, -0.6)
    at = ends[0]
    panel.plot([at, at], [-0.35, 0.65], color=FAINT, linewidth=0.8)
    panel.plot(at, 0, marker="D", color=ENDS, markersize=5)
    for place, row in enumerate(rows, start=1):
        share = row["share"]
        panel.barh(place, share, left=at, height=0.62, color=UP if share > 0 else DOWN)
        if row["share_low"] is not None:
            low, high = at + row["share_low"], at + row["share_high"]
            panel.plot([low, high], [place, place], color="black", linewidth=1)
        at += share
        panel.plot([at, at], [place - 0.31, place + 1.31], color=FAINT, linewidth=0.8)
    panel.plot(ends[1], len(names) - 1, marker="D", color=ENDS, markersize=5)
    panel.use_sticky_edges = False  # or a bar's end would be the axis' and cut the marker there
    panel.autoscale_view(scaley=False)
    dress(panel)
    panel.grid(visible=False, axis="y")


def _beside(panel: Any, rows: list[dict[str, Any]]) -> None:
    panel.axvline(0, color=FAINT, linewidth=0.8)
    for place, row in enumerate(rows, start=1):
        both = row["alone"], row["removed"]
        panel.plot(both, [place, place], color=FAINT, linewidth=1.4, zorder=1)
        panel.scatter(both[0], place, s=22, facecolor="white", edgecolor=ENDS, zorder=2)
        panel.scatter(both[1], place, s=22, facecolor=ENDS, edgecolor=ENDS, zorder=2)
    dress(panel)
    panel.grid(visible=False, axis="y")
    panel.tick_params(labelleft=False)


def _short(name: str) -> str:
    parts = name.split(" + ")
    return name if len(parts) <= 2 else f"{' + '.join(parts[:2])} + {len(parts) - 2} more"

"""Paired differences against the margin, and probabilities of improvement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ablations.records import Plan
from ablations.report.figures.style import (
    UNDECIDED,
    VERDICT_COLORS,
    dots,
    dress,
    footnote,
    in_paper,
    names,
    panels,
    room,
    title,
)
from ablations.report.scores import Scores, baseline_of
from ablations.report.series import label, paired
from ablations.report.tables import ALL_TASKS, Entry, Table
from ablations.report.units import Units


def differences(plan: Plan, made: Table, found: Scores, learned: Units | None) -> Figure | None:
    """Forest plot: every comparison's difference and 95% interval, a dot per seed, the margin
    shaded, per task.

    None where a plan compares nothing.
    """
    tasks, compared = _compared(plan, made)
    if not compared:
        return None
    several = len({baseline_of(plan, v) for v in compared}) > 1
    drawn, axes = _panels(tasks, compared, 2.75, 0.42)
    for panel, task in zip(axes.flat, tasks, strict=False):
        _forest(panel, [made.entry(task, variant) for variant in compared])
        for place, variant in enumerate(compared):
            row = made.entry(task, variant)
            if row is not None and row.verdict != "identical":
                color = VERDICT_COLORS.get(row.verdict or "", UNDECIDED)
                dots(panel, list(paired(plan, found, learned, task, variant)), place + 0.2, color)
        panel.set_title(task)
        panel.set_xlabel(
            "in what was learned" if task == ALL_TASKS else f"final {label(made.metric)}"
        )
    _rows(axes, plan, compared)
    to = ": differences" if several else f": difference to {baseline_of(plan, compared[0])}"
    title(drawn, plan.study.title + to)
    said = "mean of the differences paired by seed; all intervals hold at once with 95%"
    said += "; dots: one seed each"
    if any(row.margin for row in made.rows):
        said += "; shaded: the margin within which a difference does not matter"
    footnote(drawn, said)
    return drawn


def _forest(panel: Any, rows: Sequence[Entry | None]) -> None:
    margin = next((row.margin for row in rows if row is not None and row.margin), None)
    if margin:
        panel.axvspan(-margin, margin, color="#0072B2", alpha=0.09, linewidth=0)
    panel.axvline(0, color="#444444", linewidth=0.9)
    dress(panel)
    panel.grid(axis="y", visible=False)
    panel.tick_params(axis="y", length=0)
    for place, row in enumerate(rows):
        if row is None or row.difference is None:
            continue
        color = VERDICT_COLORS.get(row.verdict or "", UNDECIDED)
        if row.difference_low is not None:
            panel.plot(
                [row.difference_low, row.difference_high],
                [place, place],
                color=color,
                linewidth=2.2,
                solid_capstyle="butt",
            )
        filled = row.verdict in VERDICT_COLORS and "undecided" not in row.verdict
        panel.plot(
            row.difference,
            place,
            marker="o",
            markersize=6,
            markerfacecolor=color if filled else "white",
            markeredgecolor=color,
            markeredgewidth=1.5,
        )
        panel.annotate(
            (row.verdict or "").replace(", by an undecided amount", " (amount undecided)"),
            (row.difference, place),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=6.5 if in_paper() else 7.5,
            color=color,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.6},
        )
    panel.xaxis.set_major_locator(MaxNLocator(3 if in_paper() else 5))


def improvement(plan: Plan, made: Table) -> Figure | None:
    """Probability that a run of the variant scores above one of the baseline, per task.

    None where a plan compares nothing, or nothing that has an interval.
    """
    tasks, compared = _compared(plan, made)
    rows = [made.entry(task, variant) for task in tasks for variant in compared]
    if not any(row is not None and row.improvement_low is not None for row in rows):
        return None
    drawn, axes = _panels(tasks, compared, 2.5, 0.36)
    for panel, task in zip(axes.flat, tasks, strict=False):
        panel.axvline(0.5, color="#444444", linewidth=0.9)
        dress(panel)
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
        for place, variant in enumerate(compared):
            row = made.entry(task, variant)
            if row is None or row.probability_of_improvement is None:
                continue
            color = VERDICT_COLORS.get(row.verdict or "", UNDECIDED)
            if row.improvement_low is not None and row.improvement_high is not None:
                panel.plot(
                    [row.improvement_low, row.improvement_high],
                    [place, place],
                    color=color,
                    linewidth=7,
                    alpha=0.35,
                    solid_capstyle="butt",
                )
            panel.plot(
                row.probability_of_improvement,
                place,
                marker="|",
                color=color,
                markersize=11,
                markeredgewidth=2.2,
            )
        panel.set_xlim(-0.02, 1.02)
        panel.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
        panel.set_title(task)
        panel.set_xlabel("P(variant > baseline)")
    _rows(axes, plan, compared)
    title(drawn, f"{plan.study.title}: probability of improvement")
    footnote(
        drawn,
        "share of all pairs of runs in which the variant scores higher, 95% score interval "
        "(Newcombe 2006); colour: the verdict",
    )
    return drawn


def _compared(plan: Plan, made: Table) -> tuple[list[str], list[str]]:
    """Tasks, "all tasks" where there are such rows, and the variants that have a baseline."""
    tasks = [task for task in (*made.tasks, ALL_TASKS) if any(r.task == task for r in made.rows)]
    return tasks, [v for v in made.variants if baseline_of(plan, v) is not None]


def _panels(
    tasks: Sequence[str], compared: Sequence[str], width: float, row: float
) -> tuple[Figure, Any]:
    """A panel per task, with rows of `row` inches."""
    height = row * len(compared) + (0.6 if in_paper() else 0.0)
    return panels(
        len(tasks),
        (width, height),
        beside=0.8 + room(compared),
        around=0.0 if in_paper() else 1.45,
        sharey=True,
    )


def _rows(axes: Any, plan: Plan, compared: Sequence[str]) -> None:
    """The variants as labels of the rows, with their baselines where there are several."""
    several = len({baseline_of(plan, v) for v in compared}) > 1
    names(axes, [f"{v}\nvs {baseline_of(plan, v)}" if several else v for v in compared])
    axes.flat[0].set_ylim(len(compared) - 0.45, -0.65)

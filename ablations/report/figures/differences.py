"""Paired differences against the margin, and probabilities of improvement."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from ablations.core.verdict import Verdict
from ablations.records import Plan
from ablations.report.figures.style import (
    COLORS,
    Drawing,
    dots,
    finish,
    height,
    interval,
    panels,
    rows,
    styled,
    verdict_style,
)
from ablations.report.scores import Scores, baseline_of
from ablations.report.series import label, paired
from ablations.report.tables import ALL_TASKS, Table
from ablations.report.units import Units


@styled
def differences(
    plan: Plan, table: Table, scored: Scores, learned: Units, width: float | str | None = None
) -> Drawing | None:
    """Draw every comparison's difference and interval, a dot per seed, and the margin, per task.

    None where a plan compares nothing.
    """
    compared = _compared(plan, table)
    if not compared:
        return None
    drawing, axes = _panels(table, list(compared.values()), width)
    for here, task in zip(axes, table.places, strict=True):
        shown = [table.entry(task, variant) for variant in compared]
        margin = next((row.margin for row in shown if row is not None and row.margin), None)
        if margin is not None:
            here.axvspan(-margin, margin, color=COLORS["margin"], zorder=0)
        _rule(here, 0)
        for place, row in enumerate(shown):
            if row is None or row.difference is None:
                continue
            color, hollow, name = verdict_style(row.verdict)
            bounds = (row.difference_low, row.difference_high)
            interval(here, row.difference, place, bounds, color, hollow=hollow)
            here.annotate(
                name or row.verdict or "",
                (row.difference, place),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6.5,
                color=color,
                bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.6},
            )
            if row.verdict is not Verdict.IDENTICAL:
                each = paired(plan, scored, learned, task, row.variant)
                dots(here, each, [place + 0.24] * len(each), color)
        what = "in what was learned" if task == ALL_TASKS else f"final {label(table.metric)}"
        here.set(title=task, xlabel=what)
    baselines = {baseline_of(plan, variant) for variant in compared}
    caption = (
        "Mean of the differences paired by seed; the intervals hold for all comparisons at once "
        "with 95%. Dots: one seed each."
    )
    if any(row.margin for row in table.rows):
        caption += (
            " Shaded: the margin within which a difference does not matter, of the first row where "
            "rows differ."
        )
    return finish(
        drawing,
        f"Difference to {baselines.pop()}" if len(baselines) == 1 else "Differences",
        caption,
        subject=plan.study.title,
        alone=width is None,
    )


@styled
def improvement(plan: Plan, table: Table, width: float | str | None = None) -> Drawing | None:
    """Draw the probability that a run scores above one of the baseline, with its interval.

    None where a plan compares nothing, or nothing that has an interval.
    """
    if not any(row.improvement_low is not None for row in table.rows):
        return None
    compared = _compared(plan, table)
    drawing, axes = _panels(table, list(compared.values()), width)
    for here, task in zip(axes, table.places, strict=True):
        _rule(here, 0.5)
        for place, variant in enumerate(compared):
            row = table.entry(task, variant)
            if row is not None and row.probability_of_improvement is not None:
                color, hollow, _ = verdict_style(row.verdict)
                bounds = (row.improvement_low, row.improvement_high)
                interval(here, row.probability_of_improvement, place, bounds, color, hollow=hollow)
        here.set(title=task, xlabel="P(variant > baseline)", xlim=(-0.04, 1.04))
        here.set_xticks((0, 0.25, 0.5, 0.75, 1), ("0", "¼", "½", "¾", "1"))
    return finish(
        drawing,
        "Probability of improvement",
        "Share of all pairs of runs in which the variant scores higher than its baseline, 95% "
        "score interval (Newcombe 2006). Colour: the verdict.",
        subject=plan.study.title,
        alone=width is None,
    )


def _compared(plan: Plan, table: Table) -> dict[str, str]:
    """Map variants that have a baseline to their names, with it where there are several."""
    baselines = {v: versus for v in table.variants if (versus := baseline_of(plan, v)) is not None}
    several = len(set(baselines.values())) > 1
    return {v: f"{v}\nvs {versus}" if several else v for v, versus in baselines.items()}


def _panels(
    table: Table, names: Sequence[str], width: float | str | None
) -> tuple[Drawing, list[Axes]]:
    """Return a figure with a panel for each task, with a row for each variant."""
    count, size = len(table.places), (2.5, height(names, 0.42))
    drawing, axes = panels(count, width, size, columns=4, names=names, share="all")
    rows(axes[0], names)
    return drawing, axes


def _rule(axes: Axes, at: float) -> None:
    axes.axvline(at, color=COLORS["quiet"], linewidth=0.9, zorder=1)

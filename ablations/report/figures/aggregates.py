"""Figures over tasks: intervals of aggregates, performance profiles, sample efficiency."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.artist import Artist
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from ablations.records import Plan
from ablations.report.figures.curves import curve
from ablations.report.figures.style import (
    Drawing,
    broken,
    dots,
    finish,
    height,
    key,
    panels,
    rows,
    styled,
    variant_styles,
)
from ablations.report.scores import Scores
from ablations.report.series import efficiency, families, normalised, ordered, shown, thresholds
from ablations.report.statistics import aggregate, aggregate_interval, performance_profile
from ablations.report.units import Units

_UNIT = "0 and 1 are where the learning of the baseline began and where it got to"


@styled
def intervals(
    plan: Plan, scored: Scores, learned: Units, width: float | str | None = None
) -> Drawing | None:
    """Draw aggregates of normalised scores with 95% intervals, a panel per statistic.

    With a dot per seed. None without normalised scores.
    """
    scores = normalised(plan, scored, learned)
    if not scores:
        return None
    styles, statistics = variant_styles(plan), shown(plan)
    order = [variant for variant in ordered(plan) if variant in scores]
    drawing, axes = panels(
        len(statistics),
        width,
        (2.0, height(order)),
        columns=len(statistics),
        least=1.2,
        names=order,
        share="all",
    )
    for here, (statistic, name) in zip(axes, statistics.items(), strict=True):
        here.use_sticky_edges = False  # or an axis would end where a bar does
        here.margins(x=0.06)
        for place, variant in enumerate(order):
            color, runs = styles[variant].color, scores[variant]
            value, (low, high) = aggregate(runs, statistic), aggregate_interval(runs, statistic)
            each = [aggregate([task[[s]] for task in runs], statistic) for s in range(len(runs[0]))]
            if np.isfinite(low):
                here.barh(place, high - low, 0.55, low, color=color, alpha=0.35, linewidth=0)
            dots(here, each, [place] * len(each), color)
            here.plot(value, place, "|", color=color, markersize=12, markeredgewidth=2, zorder=3)
        rows(here, order)
        better = "lower is better" if statistic == "optimality_gap" else "normalised score"
        here.set(title=name, xlabel=better)
    return finish(
        drawing,
        "Aggregates of normalised scores",
        f"{_UNIT}; 95% stratified bootstrap interval; dots: one seed each; "
        f"over {_tasks(plan)}, {_runs(scores)}.",
        subject=plan.study.title,
        alone=width is None,
    )


@styled
def profiles(
    plan: Plan, scored: Scores, learned: Units, width: float | str | None = None
) -> Drawing | None:
    """Draw the share of runs above each normalised score, a panel per family.

    With pointwise 95% bands. None without normalised scores.
    """
    scores = normalised(plan, scored, learned)
    if not scores:
        return None
    cuts = thresholds(scores)
    drawing, legend = _by_family(
        plan,
        {v: (cuts, *performance_profile(runs, cuts)) for v, runs in scores.items()},
        width,
        step=True,
    )
    for axes in drawing.axes:
        axes.set(xlim=(cuts[0], cuts[-1]), ylim=(-0.03, 1.04))
        axes.set(xlabel="normalised score τ", ylabel="share of runs above τ")
    return finish(
        drawing,
        "Performance profiles",
        "Share of runs above each normalised score, mean over tasks, pointwise 95% "
        f"interval; {_runs(scores)}.",
        subject=plan.study.title,
        legend=legend,
        alone=width is None,
    )


@styled
def sample_efficiency(
    plan: Plan, scored: Scores, learned: Units, width: float | str | None = None
) -> Drawing | None:
    """Draw normalised scores over training, a panel per family; None of a single task."""
    lines = efficiency(plan, scored, learned)
    if not lines:
        return None
    drawing, legend = _by_family(plan, lines, width)
    for axes in drawing.axes:
        axes.set(xlim=(0, 1), xlabel="share of training", ylabel="normalised score")
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return finish(
        drawing,
        "Sample efficiency over tasks",
        f"Interquartile mean of normalised scores per task, mean over {_tasks(plan)}, "
        f"pointwise 95% interval. {_UNIT}.",
        subject=plan.study.title,
        legend=legend,
        alone=width is None,
    )


def _by_family(
    plan: Plan,
    lines: Mapping[str, tuple[NDArray[np.float64], ...]],
    width: float | str | None,
    *,
    step: bool = False,
) -> tuple[Drawing, dict[str, list[Artist]]]:
    """Draw a panel for each family of variants that have a line; return it and its legend."""
    styles = variant_styles(plan)
    kept = {
        family.name: [v for v in family.variants if v in lines]
        for family in families(plan)
        if any(v in lines for v in family.variants)
    }
    drawing, axes = panels(len(kept), width, (3.6, 2.2), columns=2, least=2.0, share="all")
    for here, (name, few) in zip(axes, kept.items(), strict=True):
        here.set_title(broken(name))
        for variant in few:
            curve(here, lines[variant], variant, styles[variant], step=step)
    return drawing, {name: [key(v, styles[v]) for v in few] for name, few in kept.items()}


def _tasks(plan: Plan) -> str:
    return f"{len(plan.tasks)} tasks" if len(plan.tasks) > 1 else next(iter(plan.tasks))


def _runs(scores: Mapping[str, list[NDArray[np.float64]]]) -> str:
    counts = sorted({len(runs[0]) for runs in scores.values()})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{seeds} seeds that are complete on every task"

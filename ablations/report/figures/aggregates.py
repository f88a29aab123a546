"""Over tasks: intervals of aggregates of normalised scores, and performance profiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ablations.records import Plan
from ablations.report.figures.style import appearances, dress, footnote, title
from ablations.report.scores import Scores
from ablations.report.series import groups, normalised, shown, thresholds
from ablations.report.statistics import aggregate, aggregate_interval, performance_profile
from ablations.report.units import Units


def intervals(plan: Plan, found: Scores, learned: Units) -> Figure | None:
    """One panel per statistic, one row per variant: estimate and 95% interval. None without
    normalised scores."""
    scores = normalised(plan, found, learned)
    if not scores:
        return None
    looks = appearances(plan)
    order = [variant for group in groups(plan) for variant in group if variant in scores]
    statistics = shown(plan)
    size = (2.1 * len(statistics) + 1.8, 0.3 * len(order) + 1.35)
    drawn = Figure(figsize=size, layout="constrained")
    panels = drawn.subplots(1, len(statistics), squeeze=False, sharey=True)[0]
    for panel, (statistic, name) in zip(panels, statistics.items(), strict=True):
        dress(panel)
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
        for place, variant in enumerate(order):
            color, _ = looks[variant]
            low, high = aggregate_interval(scores[variant], statistic)
            if not np.isnan(low):
                panel.barh(
                    place, high - low, left=low, height=0.55, color=color, alpha=0.35, linewidth=0
                )
            panel.plot(
                aggregate(scores[variant], statistic),
                place,
                marker="|",
                color=color,
                markersize=12,
                markeredgewidth=2,
            )
        panel.set_title(name)
        panel.set_xlabel("lower is better" if statistic == "optimality_gap" else "normalised score")
        panel.xaxis.set_major_locator(MaxNLocator(4))
        panel.use_sticky_edges = False
        panel.margins(x=0.06)
    panels[0].set_yticks(range(len(order)), order)
    panels[0].set_ylim(len(order) - 0.4, -0.6)
    title(drawn, f"{plan.study['title']}: aggregates over {_tasks(plan)}")
    footnote(
        drawn,
        "0 and 1: where the learning of the baseline began and got to; 95% stratified bootstrap "
        "interval; " + _runs(scores),
    )
    return drawn


def profiles(plan: Plan, found: Scores, learned: Units) -> Figure | None:
    """Share of runs above each normalised score, with pointwise 95% bands, one panel per group."""
    scores = normalised(plan, found, learned)
    if not scores:
        return None
    looks = appearances(plan)
    families = [[v for v in group if v in scores] for group in groups(plan)]
    families = [group for group in families if group]
    cuts = thresholds(scores)
    drawn = Figure(figsize=(3.6 * len(families) + 1.6, 3.0), layout="constrained")
    panels = drawn.subplots(1, len(families), squeeze=False, sharey=True)[0]
    for panel, group in zip(panels, families, strict=True):
        for variant in group:
            color, dashes = looks[variant]
            share, low, high = performance_profile(scores[variant], cuts)
            panel.fill_between(cuts, low, high, color=color, alpha=0.12, linewidth=0, step="post")
            panel.step(
                cuts,
                share,
                where="post",
                color=color,
                linestyle=dashes,
                linewidth=1.8,
                label=variant,
            )
        dress(panel)
        panel.set_xlabel("normalised score τ")
        panel.set_ylim(-0.02, 1.03)
        panel.set_xlim(cuts[0], cuts[-1])
        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.legend(frameon=False, loc="lower left", handlelength=2.6)
    panels[0].set_ylabel("share of runs above τ")
    title(drawn, f"{plan.study['title']}: performance profiles")
    footnote(drawn, "mean over tasks, pointwise 95% interval; " + _runs(scores))
    return drawn


def _tasks(plan: Plan) -> str:
    return f"{len(plan.tasks)} tasks" if len(plan.tasks) > 1 else next(iter(plan.tasks))


def _runs(scores: Mapping[str, list[NDArray[np.float64]]]) -> str:
    counts = sorted({len(rows[0]) for rows in scores.values()})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{runs} seeds that are complete on every task"

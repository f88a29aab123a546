"""Over tasks: intervals of aggregates of normalised scores, performance profiles, efficiency."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from ablations.records import Plan
from ablations.report.figures.style import (
    appearances,
    beside,
    broken,
    dots,
    dress,
    footnote,
    in_paper,
    legend,
    line,
    names,
    panels,
    room,
    title,
)
from ablations.report.scores import Scores
from ablations.report.series import (
    efficiency,
    families,
    normalised,
    ordered,
    shown,
    thresholds,
)
from ablations.report.statistics import aggregate, aggregate_interval, performance_profile
from ablations.report.units import Units


def intervals(plan: Plan, found: Scores, learned: Units) -> Figure | None:
    """One panel per statistic, one row per variant: estimate, 95% interval, a dot per seed. None
    without normalised scores."""
    scores = normalised(plan, found, learned)
    if not scores:
        return None
    looks = appearances(plan)
    order = [variant for variant in ordered(plan) if variant in scores]
    statistics = shown(plan)
    lines = max(broken(variant).count("\n") for variant in order)
    row = 0.2 + 0.08 * lines if in_paper() else 0.3
    drawn, axes = panels(
        len(statistics),
        (2.1, row * len(order) + (0.6 if in_paper() else 0)),
        beside=0.8 + room(order),
        around=0.0 if in_paper() else 1.35,
        sharey=True,
        least=1.2,
    )
    for panel, (statistic, name) in zip(axes.flat, statistics.items(), strict=False):
        dress(panel)
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
        for place, variant in enumerate(order):
            color, _ = looks[variant]
            rows = scores[variant]
            low, high = aggregate_interval(rows, statistic)
            if not np.isnan(low):
                panel.barh(
                    place, high - low, left=low, height=0.55, color=color, alpha=0.35, linewidth=0
                )
            each = [aggregate([one[[seed]] for one in rows], statistic) for seed in _seeds(rows)]
            dots(panel, each, place, color)
            panel.plot(
                aggregate(rows, statistic),
                place,
                marker="|",
                color=color,
                markersize=12 * row / 0.3,
                markeredgewidth=2,
            )
        panel.set_title(name)
        panel.set_xlabel("lower is better" if statistic == "optimality_gap" else "normalised score")
        panel.xaxis.set_major_locator(MaxNLocator(3 if in_paper() else 4))
        panel.use_sticky_edges = False
        panel.margins(x=0.06)
    axes.flat[0].set_ylim(len(order) - 0.4, -0.6)
    names(axes, order)
    title(drawn, f"{plan.study.title}: aggregates over {_tasks(plan)}")
    footnote(
        drawn,
        "0 and 1: where the learning of the baseline began and got to; 95% stratified bootstrap "
        "interval; dots: one seed each; " + _runs(scores),
    )
    return drawn


def _seeds(rows: list[NDArray[np.float64]]) -> range:
    return range(len(rows[0]))


def profiles(plan: Plan, found: Scores, learned: Units) -> Figure | None:
    """Share of runs above each normalised score, with pointwise 95% bands, one panel per family."""
    scores = normalised(plan, found, learned)
    if not scores:
        return None
    cuts = thresholds(scores)
    lines = {v: (cuts, *performance_profile(rows, cuts)) for v, rows in scores.items()}
    drawn, axes = _by_family(plan, lines, "post")
    for panel in axes.flat:
        panel.set_xlabel("normalised score τ")
        panel.set_ylim(-0.02, 1.03)
        panel.set_xlim(cuts[0], cuts[-1])
        panel.xaxis.set_major_locator(MaxNLocator(5))
    for row in axes:
        row[0].set_ylabel("share of runs above τ")
    title(drawn, f"{plan.study.title}: performance profiles")
    footnote(drawn, "mean over tasks, pointwise 95% interval; " + _runs(scores))
    return drawn


def sample_efficiency(plan: Plan, found: Scores, learned: Units) -> Figure | None:
    """Normalised scores over training, one panel per family. None with fewer than two tasks."""
    lines = efficiency(plan, found, learned)
    if not lines:
        return None
    drawn, axes = _by_family(plan, lines, None)
    for panel in axes.flat:
        panel.set_xlabel("share of training")
        panel.set_xlim(0, 1)
        panel.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.yaxis.set_major_locator(MaxNLocator(5))
    for row in axes:
        row[0].set_ylabel("normalised score")
    title(drawn, f"{plan.study.title}: sample efficiency over {_tasks(plan)}")
    footnote(
        drawn,
        "IQM per task, mean over tasks, pointwise 95% interval; 0 and 1: where the learning of the "
        "baseline began and got to",
    )
    return drawn


def _by_family(
    plan: Plan, lines: Mapping[str, tuple[NDArray[np.float64], ...]], step: str | None
) -> tuple[Figure, NDArray]:
    """A panel per family of variants that have a line (x, middle, low, high), with its band."""
    looks = appearances(plan)
    kept = [
        (family.name, [v for v in family.variants if v in lines])
        for family in families(plan)
        if any(v in lines for v in family.variants)
    ]
    drawn, axes = panels(
        len(kept),
        (3.4 + room(v for _, few in kept for v in few), 1.9 if in_paper() else 2.7),
        around=0.5,
        columns=2,
        sharey=True,
        least=2.0,
    )
    for panel, (name, variants) in zip(axes.flat, kept, strict=False):
        for variant in variants:
            color, dashes = looks[variant]
            x, middle, low, high = lines[variant]
            panel.fill_between(x, low, high, color=color, alpha=0.12, linewidth=0, step=step)
            style = {} if step is None else {"drawstyle": f"steps-{step}"}
            width = 1.2 if in_paper() else 1.8
            panel.plot(x, middle, color=color, linestyle=dashes, linewidth=width, **style)
        dress(panel)
        panel.set_title(broken(name))
        if not in_paper():
            beside(panel, [line(variant, looks[variant]) for variant in variants])
    if in_paper():
        legend(drawn, {name: [line(v, looks[v]) for v in few] for name, few in kept})
    return drawn, axes


def _tasks(plan: Plan) -> str:
    return f"{len(plan.tasks)} tasks" if len(plan.tasks) > 1 else next(iter(plan.tasks))


def _runs(scores: Mapping[str, list[NDArray[np.float64]]]) -> str:
    counts = sorted({len(rows[0]) for rows in scores.values()})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{runs} seeds that are complete on every task"

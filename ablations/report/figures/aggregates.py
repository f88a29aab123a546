"""Figures over tasks: intervals of aggregates, performance profiles, sample efficiency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ablations.records import Plan
from ablations.report.figures.curves import curve
from ablations.report.figures.marks import (
    Axis,
    Bar,
    Entry,
    Figure,
    Interval,
    Legend,
    Mark,
    Panel,
    Points,
    room,
    rows,
)
from ablations.report.figures.palette import variant_styles
from ablations.report.formats.numbers import estimate
from ablations.report.scores import Scores
from ablations.report.series import efficiency, families, normalised, ordered, shown, thresholds
from ablations.report.statistics import aggregate, aggregate_interval, performance_profile
from ablations.report.units import Units

_UNIT = "0 and 1 are where the learning of the baseline began and where it got to"


def intervals(plan: Plan, scored: Scores, learned: Units) -> Figure | None:
    """Return aggregates of normalised scores with 95% intervals, a panel per statistic.

    With a dot per seed. None without normalised scores.
    """
    scores = normalised(plan, scored, learned)
    if not scores:
        return None
    styles = variant_styles(plan)
    order = [variant for variant in ordered(plan) if variant in scores]
    panels = []
    for statistic, name in shown(plan).items():
        marks: list[Mark] = []
        for place, variant in enumerate(order):
            color, runs = styles[variant].color, scores[variant]
            value, (low, high) = aggregate(runs, statistic), aggregate_interval(runs, statistic)
            seeds = range(len(runs[0]))
            each = [aggregate([task[[seed]] for task in runs], statistic) for seed in seeds]
            hover = f"{variant}: {estimate(value, low, high)}, {len(seeds)} seeds"
            if np.isfinite(low):
                marks.append(Bar(place, low, high, color, 0.55, 0.35, hover))
            marks.append(Points(each, [place] * len(each), color))
            marks.append(
                Interval(value, place, None, None, color, symbol="stroke", size=12, hover=hover)
            )
        better = "lower is better" if statistic == "optimality_gap" else "normalised score"
        panels.append(
            Panel(name, Axis(better, count=4), rows(order), tuple(marks), 2.1, 0.3 * len(order))
        )
    return Figure(
        title="Aggregates of normalised scores",
        caption=f"{_UNIT}; 95% stratified bootstrap interval; dots: one seed each; "
        f"over {_tasks(plan)}, {_runs(scores)}.",
        panels=tuple(panels),
        subject=plan.study.title,
        beside=0.8 + room(order),
        around=1.35,
        share="all",
        narrowest=1.2,
    )


def profiles(plan: Plan, scored: Scores, learned: Units) -> Figure | None:
    """Return the share of runs above each normalised score, a panel per family.

    With pointwise 95% bands. None without normalised scores.
    """
    scores = normalised(plan, scored, learned)
    if not scores:
        return None
    cuts = thresholds(scores)
    lines = {v: (cuts, *performance_profile(runs, cuts)) for v, runs in scores.items()}
    return replace(
        _by_family(
            plan,
            lines,
            Axis("normalised score τ", limits=(cuts[0], cuts[-1])),
            Axis("share of runs above τ", limits=(-0.03, 1.04)),
            step=True,
        ),
        title="Performance profiles",
        caption="Share of runs above each normalised score, mean over tasks, pointwise 95% "
        f"interval; {_runs(scores)}.",
    )


def sample_efficiency(plan: Plan, scored: Scores, learned: Units) -> Figure | None:
    """Return normalised scores over training, a panel per family; None of a single task."""
    lines = efficiency(plan, scored, learned)
    if not lines:
        return None
    return replace(
        _by_family(
            plan,
            lines,
            Axis("share of training", limits=(0, 1), format="share"),
            Axis("normalised score"),
        ),
        title="Sample efficiency over tasks",
        caption=f"Interquartile mean of normalised scores per task, mean over {_tasks(plan)}, "
        f"pointwise 95% interval. {_UNIT}.",
    )


def _by_family(
    plan: Plan,
    lines: Mapping[str, tuple[NDArray[np.float64], ...]],
    x: Axis,
    y: Axis,
    *,
    step: bool = False,
) -> Figure:
    """Return a figure with a panel for each family of variants that have a line."""
    styles = variant_styles(plan)
    kept = {
        family.name: [v for v in family.variants if v in lines]
        for family in families(plan)
        if any(v in lines for v in family.variants)
    }
    return Figure(
        title="",
        caption="",
        panels=tuple(
            Panel(
                "",
                x,
                y,
                tuple(m for v in few for m in curve(lines[v], v, styles[v], step=step)),
                3.4,
                2.7,
                group=name,
            )
            for name, few in kept.items()
        ),
        subject=plan.study.title,
        columns=2,
        legend=Legend(
            {name: tuple(Entry(v, *styles[v]) for v in few) for name, few in kept.items()}
        ),
        beside=room([variant for few in kept.values() for variant in few]),
        around=0.5,
        share="all",
        narrowest=2.0,
    )


def _tasks(plan: Plan) -> str:
    return f"{len(plan.tasks)} tasks" if len(plan.tasks) > 1 else next(iter(plan.tasks))


def _runs(scores: Mapping[str, list[NDArray[np.float64]]]) -> str:
    counts = sorted({len(runs[0]) for runs in scores.values()})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{seeds} seeds that are complete on every task"

"""Learning curves, and other metrics over training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from ablations.records import Plan
from ablations.report.figures.marks import (
    Axis,
    Band,
    Entry,
    Figure,
    Legend,
    Line,
    Mark,
    Panel,
    room,
)
from ablations.report.figures.palette import Style, variant_styles
from ablations.report.formats.numbers import estimate
from ablations.report.scores import Scores, moves, step_unit
from ablations.report.series import Family, families, label, points
from ablations.report.tables.entries import policy_text
from ablations.report.trivial import Trivial

_MARKED = 6  # points that are few enough to be marked
_LEVEL_DASHES = (2, 1)  # of policies that learn nothing
_SIDE_BY_SIDE = 6  # panels of diagnostics, where families stand beside each other


def curves(
    plan: Plan,
    scored: Scores,
    *,
    each_seed: bool = False,
    policies: Mapping[str, Trivial] | None = None,
) -> Figure:
    """Return learning curves: IQM and 95% band, a panel per task and family of variants.

    Args:
        plan: the study that ran.
        scored: its scores.
        each_seed: draw a faint line for every seed instead of the band.
        policies: task -> policies that learn nothing, a level line each.
    """
    trivial = policies or {}
    groups = families(plan)
    places = [(family, task) for family in groups for task in plan.tasks]
    seeds = len(plan.seeds)
    shown = "faint: each seed" if each_seed else "pointwise 95% interval"
    return Figure(
        title="Learning curves",
        caption=f"Interquartile mean over {seeds} seeds, {shown}." if seeds > 1 else "One seed.",
        panels=tuple(
            _panel(
                plan,
                scored,
                task,
                family,
                (3.5, 2.5),
                band=not each_seed,
                each_seed=each_seed,
                behind=levels(trivial.get(task), plan.tasks[task].steps),
            )
            for family, task in places
        ),
        subject=plan.study.title,
        columns=len(plan.tasks) if len(groups) > 1 else min(3, len(plan.tasks)),
        legend=_legend(plan, scored, groups, level_entries(trivial.values())),
        beside=room(list(plan.variants)),
        share="col" if len(groups) > 1 else "",
    )


def diagnostics(plan: Plan, by_metric: Mapping[str, Scores]) -> Figure | None:
    """Return curves of other metrics; None where none of them moves.

    Args:
        plan: the study that ran.
        by_metric: metric -> its scores.
    """
    shown = {name: scores for name, scores in by_metric.items() if moves(scores)}
    if not shown:
        return None
    groups, tasks = families(plan), list(plan.tasks)
    side_by_side = len(tasks) * len(groups) <= _SIDE_BY_SIDE
    places = [
        (name, task, family)
        for name in shown
        for task, family in (
            ((task, family) for task in tasks for family in groups)
            if side_by_side
            else ((task, family) for family in groups for task in tasks)
        )
    ]
    height = 1.55 if side_by_side else 2.1
    legend = _legend(plan, next(iter(shown.values())), groups)
    around = 0.7
    if side_by_side:  # the legend stands beside all rows
        entries = [entry.label for few in legend.groups.values() for entry in few]
        lines = sum(text.count("\n") + 1 for text in entries)
        lines += sum(bool(name) for name in legend.groups)
        around = max(around, 0.22 * lines + 0.85 - height * len(shown))
    return Figure(
        title="Diagnostics over training",
        caption="Interquartile mean over seeds of what the trainer records beside the score; "
        "metrics that stay the same everywhere are left out.",
        panels=tuple(
            _panel(plan, shown[name], task, family, (2.9, height), band=False)
            for name, task, family in places
        ),
        subject=plan.study.title,
        columns=len(tasks) * (len(groups) if side_by_side else 1),
        legend=legend,
        beside=room(list(plan.variants)),
        around=around,
        narrowest=1.2,
    )


def _panel(
    plan: Plan,
    scored: Scores,
    task: str,
    family: Family,
    size: tuple[float, float],
    *,
    band: bool,
    each_seed: bool = False,
    behind: Iterable[Mark] = (),
) -> Panel:
    styles = variant_styles(plan)
    marks = list(behind)
    for variant in family.variants:
        if each_seed:
            marks += (
                Line(seed.steps, seed.values, styles[variant].color, width=0.6, alpha=0.25)
                for seed in scored.curves(task, variant)
            )
        shown = points(scored, task, variant)
        if len(shown[0]):
            marks += curve(shown, variant, styles[variant], band=band)
    return Panel(
        title=task,
        x=Axis(step_unit(plan), limits=(0, None), format="steps"),
        y=Axis(label(scored.metric), count=7 if size[1] > 2 else 4),
        marks=tuple(marks),
        width=size[0],
        height=size[1],
        group=family.name,
    )


def levels(policies: Trivial | None, steps: float) -> Iterator[Mark]:
    """Yield a level line for each policy that learns nothing, over all of training."""
    for place, (_, values) in enumerate(policies.scores.items() if policies else ()):
        mean = fmean(values)
        hover = (estimate(mean),) * 2
        yield Line([0, steps], [mean, mean], "quiet", _LEVEL_DASHES[place], 1.1, hover=hover)


def level_entries(policies: Iterable[Trivial]) -> tuple[Entry, ...]:
    """Return the entries of a legend for those lines."""
    names = dict.fromkeys(name for of in policies for name in of.scores)
    return tuple(
        Entry(policy_text(name), "quiet", _LEVEL_DASHES[place], 1.1)
        for place, name in enumerate(names)
    )


def curve(
    points: Sequence[ArrayLike],
    variant: str,
    style: Style,
    *,
    band: bool = True,
    step: bool = False,
) -> Iterator[Mark]:
    """Yield a variant's band and its line, which says its numbers.

    Args:
        points: x, an estimate, and the ends of its interval, `[n]` each.
        variant: its name.
        style: its colour and dashes.
        band: draw the interval.
        step: constant from each point to the next.
    """
    x, middle, low, high = (np.asarray(column, dtype=np.float64) for column in points)
    if band:
        yield Band(x, low, high, style.color, step=step, variant=variant)
    bounds = (low, high) if band else ()
    yield Line(
        x,
        middle,
        *style,
        width=2.0 if style.color == "v0" else 1.6,
        symbol="circle" if len(x) <= _MARKED else None,
        step=step,
        variant=variant,
        hover=tuple(map(estimate, middle, *bounds)),
    )


def _legend(
    plan: Plan, scored: Scores, groups: Sequence[Family], further: tuple[Entry, ...] = ()
) -> Legend:
    """Name the variants of each family, with how many of their cells failed or are missing.

    further: entries of the first family.
    """
    styles = variant_styles(plan)
    return Legend(
        {
            family.name: tuple(
                Entry(_described(plan, scored, variant), *styles[variant])
                for variant in family.variants
            )
            + (further if family is groups[0] else ())
            for family in groups
        }
    )


def _described(plan: Plan, scored: Scores, variant: str) -> str:
    cells = [cell for task in plan.tasks for cell in scored.of(task, variant)]
    words = []
    for status in ("failed", "missing"):
        count = sum(cell.status == status for cell in cells)
        if count:
            words.append(f"{count} {status}")
    same = plan.variants[variant].same_as or variant
    if same != variant:
        words.append(f"identical to {same}")
    return variant + (f"\n({', '.join(words)})" if words else "")

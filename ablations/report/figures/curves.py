"""Learning curves, and other metrics over training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from ablations.records import Plan
from ablations.report.figures.style import (
    COLORS,
    DASHES,
    Drawing,
    Style,
    broken,
    finish,
    key,
    panels,
    steps,
    styled,
    variant_styles,
)
from ablations.report.scores import Scores, moves, step_unit
from ablations.report.series import Family, families, label, points
from ablations.report.tables.entries import policy_text
from ablations.report.trivial import Trivial

_MARKED = 6  # points that are few enough to be marked
# Of policies that learn nothing
_LEVELS = tuple(Style(COLORS["quiet"], DASHES[place]) for place in (2, 1))
_SIDE_BY_SIDE = 6  # panels of diagnostics, where families stand beside each other
_LINE = 1.1  # points, the width of a line


@styled
def curves(
    plan: Plan,
    scored: Scores,
    *,
    each_seed: bool = False,
    policies: Mapping[str, Trivial] | None = None,
    width: float | str | None = None,
) -> Drawing:
    """Draw learning curves: IQM and 95% band, a panel per task and family of variants.

    Args:
        plan: the study that ran.
        scored: its scores.
        each_seed: draw a faint line for every seed instead of the band.
        policies: task -> policies that learn nothing, a level line each.
        width: of the figure.
    """
    trivial = policies or {}
    groups = families(plan)
    places = [(family, task) for family in groups for task in plan.tasks]
    drawing, axes = panels(
        len(places),
        width,
        (2.9, 1.9),
        columns=len(plan.tasks) if len(groups) > 1 else 3,
        share="col" if len(groups) > 1 else "none",
    )
    for here, (family, task) in zip(axes, places, strict=True):
        for style, mean in zip(_LEVELS, _levels(trivial.get(task)), strict=False):
            ends = (0, plan.tasks[task].steps)
            here.plot(ends, (mean, mean), color=style.color, linestyle=style.dash, linewidth=0.8)
        _panel(here, plan, scored, task, family, band=not each_seed, each_seed=each_seed)
    names = dict.fromkeys(name for of in trivial.values() for name in of.scores)
    further = [
        key(policy_text(name), style, 0.8) for name, style in zip(names, _LEVELS, strict=False)
    ]
    shown = "faint: each seed" if each_seed else "pointwise 95% interval"
    seeds = len(plan.seeds)
    return finish(
        drawing,
        "Learning curves",
        f"Interquartile mean over {seeds} seeds, {shown}." if seeds > 1 else "One seed.",
        subject=plan.study.title,
        legend=_keys(plan, scored, groups, further),
        alone=width is None,
    )


@styled
def diagnostics(
    plan: Plan, by_metric: Mapping[str, Scores], width: float | str | None = None
) -> Drawing | None:
    """Draw curves of other metrics; None where none of them moves.

    Args:
        plan: the study that ran.
        by_metric: metric -> its scores.
        width: of the figure.
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
    columns = len(tasks) * (len(groups) if side_by_side else 1)
    drawing, axes = panels(len(places), width, (2.6, 1.5), columns=columns, least=1.2)
    for here, (name, task, family) in zip(axes, places, strict=True):
        _panel(here, plan, shown[name], task, family, band=False)
        here.set_ylabel(here.get_ylabel().replace(" (", "\n("))
    return finish(
        drawing,
        "Diagnostics over training",
        "Interquartile mean over seeds of what the trainer records beside the score; "
        "metrics that stay the same everywhere are left out.",
        subject=plan.study.title,
        legend=_keys(plan, next(iter(shown.values())), groups),
        alone=width is None,
    )


def _levels(policies: Trivial | None) -> Iterable[float]:
    return map(fmean, policies.scores.values()) if policies else ()


def _panel(
    axes: Axes,
    plan: Plan,
    scored: Scores,
    task: str,
    family: Family,
    *,
    band: bool,
    each_seed: bool = False,
) -> None:
    styles = variant_styles(plan)
    for variant in family.variants:
        for seed in scored.curves(task, variant) if each_seed else ():
            color = styles[variant].color
            axes.plot(seed.steps, seed.values, color=color, linewidth=0.4, alpha=0.25, zorder=2)
        curve(axes, points(scored, task, variant), variant, styles[variant], band=band)
    steps(axes)
    name = broken(family.name)
    axes.set(
        title=f"{task}\n{name}" if name else task,
        xlabel=step_unit(plan),
        ylabel=label(scored.metric),
    )


def curve(
    axes: Axes,
    points: Sequence[ArrayLike],
    variant: str,
    style: Style,
    *,
    band: bool = True,
    step: bool = False,
) -> None:
    """Draw a variant's line, and its band.

    Args:
        axes: the panel.
        points: x, an estimate, and the ends of its interval, `[n]` each.
        variant: its name, the label of the line.
        style: its colour and dashes.
        band: draw the interval.
        step: constant from each point to the next.
    """
    x, middle, low, high = (np.asarray(column, dtype=np.float64) for column in points)
    if not len(x):
        return
    if band:
        axes.fill_between(
            x,
            low,
            high,
            color=style.color,
            alpha=0.13,
            linewidth=0,
            step="post" if step else None,
        )
    first = style.color == COLORS["v0"]
    axes.plot(
        x,
        middle,
        color=style.color,
        linestyle=style.dash,
        linewidth=1.4 if first else _LINE,
        marker="o" if len(x) <= _MARKED else None,
        markersize=3.5,
        markeredgewidth=0,
        drawstyle="steps-post" if step else "default",
        label=variant,
        zorder=4 if first else 3,
    )


def _keys(
    plan: Plan, scored: Scores, groups: Sequence[Family], further: Sequence[Artist] = ()
) -> dict[str, list[Artist]]:
    """Name the variants of each family, with how many of their runs failed or are missing.

    further: entries of the first family.
    """
    styles = variant_styles(plan)
    legend: dict[str, list[Artist]] = {
        family.name: [key(_described(plan, scored, v), styles[v]) for v in family.variants]
        for family in groups
    }
    legend[groups[0].name] += further
    return legend


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

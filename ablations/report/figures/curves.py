"""Learning curves, and other metrics over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from ablations.records import Plan
from ablations.report.figures.style import (
    appearances,
    beside,
    broken,
    dress,
    footnote,
    headed,
    in_paper,
    legend,
    line,
    panels,
    room,
    title,
)
from ablations.report.scores import Scores, moves, step_unit
from ablations.report.series import Family, families, label, points


def curves(plan: Plan, found: Scores, *, each_seed: bool = False) -> Figure:
    """One panel per task and family of variants: IQM and 95% band.

    each_seed: with a faint line for every seed instead of the band.
    """
    groups = families(plan)
    tasks = list(plan.tasks)
    looks = appearances(plan)
    several = len(groups) > 1
    height = 1.7 if in_paper() else 2.5
    drawn, axes = panels(
        len(groups) * len(tasks),
        (3.5, height),
        beside=0.0 if in_paper() else room(plan.variants),
        around=0.65,
        columns=len(tasks) if several else 3,
        sharey="col" if several and not in_paper() else False,
    )
    columns = axes.shape[1]
    places = [(family, task) for family in groups for task in tasks]
    for place, (panel, (family, task)) in enumerate(zip(axes.flat, places, strict=False)):
        for which, variant in enumerate(family.variants):
            look = looks[variant]
            if each_seed:
                _seeds(panel, found, task, variant, look[0])
            _curve(panel, found, task, variant, look, first=which == 0, band=not each_seed)
        dress(panel)
        if in_paper() and several:
            panel.set_title(f"{task}\n{broken(family.name)}")
        elif not several or place < columns:
            panel.set_title(task)
        if place % columns == 0:
            panel.set_ylabel(label(found.metric))
        if place + columns >= len(places):
            panel.set_xlabel(step_unit(plan))
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_major_locator(MaxNLocator(4 if in_paper() else 5))
        panel.set_xlim(left=0)
    handles = _handles(plan, found, groups)
    if in_paper():
        legend(drawn, handles)
    else:
        for row, (name, of_family) in zip(axes, handles.items(), strict=False):
            beside(row[-1], of_family, title=name or None)
    title(drawn, plan.study.title)
    seeds = len(plan.seeds)
    what = "; faint: each seed" if each_seed else ", pointwise 95% interval"
    footnote(drawn, f"IQM over {seeds} seeds{what}" if seeds > 1 else "one seed")
    return drawn


def _curve(
    panel: Any,
    found: Scores,
    task: str,
    variant: str,
    look: tuple[str, Any],
    *,
    first: bool,
    band: bool = True,
) -> None:
    steps, middle, low, high = points(found, task, variant)
    if not len(steps):
        return
    color, dashes = look
    if band:
        panel.fill_between(steps, low, high, color=color, alpha=0.13, linewidth=0)
    panel.plot(
        steps,
        middle,
        color=color,
        linestyle=dashes,
        linewidth=(2.0 if first else 1.6) * (0.7 if in_paper() else 1),
        marker="o" if len(steps) <= 6 else None,
        markersize=4,
        markeredgewidth=0,
        zorder=4 if first else 3,
    )


def _seeds(panel: Any, found: Scores, task: str, variant: str, color: str) -> None:
    for one in found.curves(task, variant):
        panel.plot(one.steps, one.values, color=color, alpha=0.25, linewidth=0.6, zorder=2)


def _handles(plan: Plan, found: Scores, groups: Sequence[Family]) -> dict[str, list[Any]]:
    """The lines of each family, with how many cells of a variant failed or are missing, and which
    other variant it is."""
    looks = appearances(plan)
    return {
        family.name: [line(_told(plan, found, v), looks[v]) for v in family.variants]
        for family in groups
    }


def _told(plan: Plan, found: Scores, variant: str) -> str:
    cells = [cell for task in plan.tasks for cell in found.of(task, variant)]
    told = []
    for status in ("failed", "missing"):
        count = sum(cell.status == status for cell in cells)
        if count:
            told.append(f"{count} {status}")
    same = plan.variants[variant].same_as or variant
    if same != variant:
        told.append(f"identical to {same}")
    return variant + (f"\n({', '.join(told)})" if told else "")


# Other metrics

_SIDE_BY_SIDE = 6  # panels of diagnostics, where families stand beside each other


def diagnostics(plan: Plan, found: Mapping[str, Scores]) -> Figure | None:
    """Panels per metric, task and family of variants; None where there is no metric that moves."""
    shown = {name: scores for name, scores in found.items() if moves(scores)}
    if not shown:
        return None
    tasks = list(plan.tasks)
    looks = appearances(plan)
    groups = families(plan)
    side_by_side = len(tasks) * len(groups) <= _SIDE_BY_SIDE
    columns = len(tasks) * (len(groups) if side_by_side else 1)
    places = (
        [(name, task, family) for name in shown for task in tasks for family in groups]
        if side_by_side
        else [(name, task, family) for name in shown for family in groups for task in tasks]
    )
    handles = _handles(plan, next(iter(shown.values())), groups)
    height = 1.3 if in_paper() else 1.55 if side_by_side else 2.1
    around = 0.7
    if side_by_side and not in_paper():  # one legend, beside all rows
        entries = (str(one.get_label()).count("\n") + 1 for one in headed(handles))
        around = max(around, 0.22 * sum(entries) + 0.85 - height * len(shown))
    drawn, axes = panels(
        len(places),
        (2.9, height),
        beside=0.0 if in_paper() else room(plan.variants),
        around=around,
        columns=columns,
        least=1.2,
    )
    aligned = columns == axes.shape[1]  # a paper may be too narrow for a row per metric
    columns = axes.shape[1]
    for place, (panel, (name, task, family)) in enumerate(zip(axes.flat, places, strict=False)):
        for which, variant in enumerate(family.variants):
            first = which == 0
            _curve(panel, shown[name], task, variant, looks[variant], first=first, band=False)
        dress(panel)
        panel.yaxis.set_major_locator(MaxNLocator(4))
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_major_locator(MaxNLocator(4))
        panel.set_xlim(left=0)
        where = f"{task}\n{broken(family.name)}" if family.name else task
        if not aligned:
            panel.set_title(f"{label(name)}\n{where}")
        elif place < columns:
            panel.set_title(where if side_by_side else task)
        if aligned and place % columns == 0:
            panel.set_ylabel(label(name).replace(" (", "\n("))
        if place + columns >= len(places):
            panel.set_xlabel(step_unit(plan))
        else:
            panel.tick_params(labelbottom=False)
    if in_paper():
        legend(drawn, handles)
    elif side_by_side:
        beside(axes[0][-1], headed(handles))
    else:
        for row, (name, of_family) in zip(axes, handles.items(), strict=False):
            beside(row[-1], of_family, title=name or None)
    title(drawn, f"{plan.study.title}: diagnostics")
    footnote(drawn, "IQM over seeds; metrics that stay the same everywhere are left out")
    return drawn

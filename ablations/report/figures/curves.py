"""Learning curves, and other metrics over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from ablations.records import Plan
from ablations.report.figures.style import appearances, dress, footnote, title
from ablations.report.scores import Scores, moves, step_unit
from ablations.report.series import groups, label, points


def curves(plan: Plan, found: Scores) -> Figure:
    """One panel per task (and per group of variants that share a baseline): IQM and 95% band."""
    families = groups(plan)
    tasks = list(plan.tasks)
    looks = appearances(plan)
    several = len(families) > 1
    columns = len(tasks) if several else min(3, len(tasks))
    rows = len(families) if several else -(-len(tasks) // columns)
    drawn = Figure(figsize=(3.5 * columns + 1.9, 2.5 * rows + 0.65), layout="constrained")
    panels = drawn.subplots(rows, columns, squeeze=False, sharey="col" if several else False)
    places = [(g, t) for g in range(len(families)) for t in range(len(tasks))]
    for g, t in places:
        panel = panels[g][t] if several else panels[t // columns][t % columns]
        for place, variant in enumerate(families[g]):
            _curve(panel, found, tasks[t], variant, looks[variant], first=place == 0)
        dress(panel)
        if not several or g == 0:
            panel.set_title(tasks[t])
        if t % columns == 0:
            panel.set_ylabel(label(found.metric))
        last = g == len(families) - 1 if several else t + columns >= len(tasks)
        if last:
            panel.set_xlabel(step_unit(plan))
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.set_xlim(left=0)
    for empty in panels.flat[len(places) :]:
        empty.set_axis_off()
    for g, group in enumerate(families):
        handles = [_handle(found, tasks, variant, looks[variant]) for variant in group]
        panels[g][-1].legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.02, 1.02),
            frameon=False,
            borderaxespad=0,
            handlelength=2.6,
            title=f"vs {group[0]}" if several else None,
            alignment="left",
        )
    title(drawn, plan.study["title"])
    seeds = len(plan.seeds)
    band = f"IQM over {seeds} seeds, pointwise 95% interval" if seeds > 1 else "one seed"
    footnote(drawn, band)
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
    import seaborn

    steps, middle, low, high = points(found, task, variant)
    if not len(steps):
        return
    color, dashes = look
    if band:
        panel.fill_between(steps, low, high, color=color, alpha=0.13, linewidth=0)
    seaborn.lineplot(
        x=steps,
        y=middle,
        ax=panel,
        color=color,
        linestyle=dashes,
        linewidth=2.0 if first else 1.6,
        marker="o" if len(steps) <= 6 else None,
        markersize=4,
        markeredgewidth=0,
        errorbar=None,
        estimator=None,
        zorder=4 if first else 3,
    )


def _handle(found: Scores, tasks: Sequence[str], variant: str, look: tuple[str, Any]) -> Any:
    """A legend entry that says how many cells of a variant failed or are missing."""
    from matplotlib.lines import Line2D

    cells = [cell for task in tasks for cell in found.of(task, variant)]
    lacking = []
    for status in ("failed", "missing"):
        count = sum(cell.status == status for cell in cells)
        if count:
            lacking.append(f"{count} {status}")
    label = variant + (f"\n({', '.join(lacking)})" if lacking else "")
    return Line2D([], [], color=look[0], linestyle=look[1], linewidth=1.8, label=label)


# Other metrics


def diagnostics(plan: Plan, found: Mapping[str, Scores]) -> Figure | None:
    """One row per metric, one column per task and group of variants that share a baseline; None
    where there is no metric that moves."""
    from matplotlib.lines import Line2D

    shown = {name: scores for name, scores in found.items() if moves(scores)}
    if not shown:
        return None
    tasks = list(plan.tasks)
    looks = appearances(plan)
    families = groups(plan)
    columns = [(task, group) for task in tasks for group in families]
    size = (2.9 * len(columns) + 2.2, 1.55 * len(shown) + 0.7)
    drawn = Figure(figsize=size, layout="constrained")
    panels = drawn.subplots(len(shown), len(columns), squeeze=False, sharex="col")
    for row, (name, scores) in zip(panels, shown.items(), strict=True):
        for panel, (task, group) in zip(row, columns, strict=True):
            for place, variant in enumerate(group):
                first = place == 0
                _curve(panel, scores, task, variant, looks[variant], first=first, band=False)
            dress(panel)
            panel.yaxis.set_major_locator(MaxNLocator(4))
            panel.set_xlim(left=0)
        row[0].set_ylabel(label(name).replace(" (", "\n("))
    for panel, (task, group) in zip(panels[0], columns, strict=True):
        panel.set_title(f"{task}\nvs {group[0]}" if len(families) > 1 else task)
    for panel in panels[-1]:
        panel.set_xlabel(step_unit(plan))
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_major_locator(MaxNLocator(4))
    any_metric = next(iter(shown.values()))
    handles = []
    for group in families:
        if len(families) > 1:
            handles.append(Line2D([], [], linestyle="none", label=f"vs {group[0]}:"))
        handles += [_handle(any_metric, tasks, variant, looks[variant]) for variant in group]
    panels[0][-1].legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.02),
        frameon=False,
        borderaxespad=0,
        handlelength=2.6,
    )
    title(drawn, f"{plan.study['title']}: diagnostics")
    footnote(drawn, "IQM over seeds; metrics that stay the same everywhere are left out")
    return drawn

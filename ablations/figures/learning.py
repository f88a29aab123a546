"""Figures of learning over time: curves, diagnostics, sample efficiency."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from ablations import stats
from ablations.curve import on_common_steps
from ablations.errors import UserError
from ablations.figures import style
from ablations.figures.style import Drawing, Group, Look
from ablations.runs import Runs
from ablations.scoring import smoothed_together
from ablations.tables.kinds import logged, study_of

FEW = 6  # with fewer seeds, each has a line instead of a band
MOST_LINES = len(style.COLORS)  # in a panel, besides the baseline's line
MOST_POINTS = 200  # of a line
# Metrics of the trainers that show problems of training.
DIAGNOSTICS = (
    *("policy/clip_fraction", "value/clip_fraction", "policy/approximate_kl", "policy/entropy"),
    *("value/explained_variance", "gradient/norm", "advantage/std", "loss/value"),
    *("policy/kl_reference", "training/zero_variance_groups", "training/length"),
)


def groups_of(runs: Runs) -> list[list[str]]:
    """Return the variants of each group of panels: a baseline and the variants compared with it.

    If there are more variants than colours, they are split over several groups, each with the
    baseline.
    """
    heads: dict[str, list[str]] = {}
    for variant in runs.variants:
        members = heads.setdefault(runs.source(variant), [])
        if variant != runs.source(variant):
            members.append(variant)
    alone = {v for others in heads.values() for v in others}
    parts = {head: max(1, -(-len(others) // MOST_LINES)) for head, others in heads.items()}
    return [
        [head, *map(str, part)]
        for head, others in heads.items()
        if others or head not in alone
        for part in np.array_split(others, parts[head])
    ]


@style.applied()
def curves(
    runs: Runs,
    width: float | str = style.TEXT,
    *,
    levels: Mapping[str, Mapping[str, float]] | None = None,
    each_seed: bool = False,
    smooth: bool = False,
) -> Drawing:
    """Draw the learning curves of every variant, a panel per task.

    A line is the mean over seeds, with Student's 95% interval as a band. With fewer than `FEW`
    seeds, each seed has a thin line instead of a band. Variants with different baselines, or more
    variants than colours, are split over several rows of panels.

    Args:
        runs: of a study.
        width: in inches, or a name such as "icml-column".
        levels: task -> name -> value: horizontal lines, such as thresholds. Untrained policies that
            were evaluated have lines too.
        each_seed: draw a line per seed for any number of seeds.
        smooth: draw at each step the mean over the preceding tenth of training. The last point is
            then the score "final".
    """
    groups = groups_of(runs)
    looks = style.looks_of(groups)
    keys = [keys_of(runs, group, looks) for group in groups]
    marks = {task: dict(values) for task, values in (levels or {}).items()}
    for task, policies in runs.untrained.items():
        untrained = {f"untrained ({name})": float(np.mean(x)) for name, x in policies.items()}
        marks[task] = untrained | marks.get(task, {})
    dashed = itertools.product(("#a8a8a8", style.INK), style.DASHES[1:])
    marked = dict.fromkeys(name for values in marks.values() for name in values)
    lines = dict(zip(marked, dashed, strict=False))
    keys[0] += [style.line_key(name, Look(*look), 0.8) for name, look in lines.items()]
    labels = step_unit(runs), style.metric_label(runs.metric)
    panels = [Group(runs.tasks, entries, *labels) for entries in keys]
    figure, grids = style.panels(panels, width, 1.25)
    for group, axes in zip(groups, grids, strict=True):
        for ax, task in zip(axes, runs.tasks, strict=True):
            for name, value in marks.get(task, {}).items():
                color, dashes = lines[name]
                ax.axhline(value, color=color, dashes=dashes, linewidth=0.8, zorder=1)
            data = _points(runs, task, group, runs.metric, smooth=smooth)
            draw_lines(ax, data, looks, each_seed=each_seed)
            style.steps_axis(ax)
    seeds = runs.runs.seed.nunique()
    thin = each_seed or seeds < FEW
    shown = "thin: each seed" if thin else "with its pointwise 95% interval"
    return figure.about(
        "Learning curves",
        "Mean"
        + (f" over {seeds} seeds, {shown}." if seeds > 1 else ": one seed.")
        + (" Smoothed: mean over the preceding tenth of training." if smooth else ""),
    )


@style.applied()
def diagnostics(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw the mean curves of a trainer's other metrics, a panel per metric, task and baseline.

    Metrics that never change are omitted.
    """
    runs, found = logged(runs, DIAGNOSTICS)
    values = runs.curves[[n for n in found if n in runs.curves]].replace([np.inf, -np.inf], np.nan)
    names = [name for name in values if values[name].max() - values[name].min() > 1e-12]
    if not names:
        raise UserError(f"{study_of(runs)} logged no metric that changes, besides the score")
    groups, shown = groups_of(runs), list(itertools.product(names, runs.tasks))
    looks = style.looks_of(groups)
    titles = [f"{style.metric_label(str(name))}, {task}" for name, task in shown]
    figure, grids = style.panels(
        [Group(titles, keys_of(runs, group, looks), step_unit(runs)) for group in groups],
        width,
        1.0,
    )
    for group, axes in zip(groups, grids, strict=True):
        for ax, (name, task) in zip(axes, shown, strict=True):
            draw_lines(ax, _points(runs, task, group, str(name)), looks, band=False)
            style.steps_axis(ax)
    return figure.about(
        "Diagnostics over training",
        "Mean over seeds of the trainer's other metrics. Metrics that never change are omitted.",
    )


@style.applied()
def efficiency(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw mean normalised scores over training, averaged over tasks, with Student's interval.

    It uses the seeds that are complete on every task, and needs two or more tasks with a learned
    range. This is the sample-efficiency curve of Agarwal et al. (2021), with the mean.
    """
    data = {v: points for v in runs.variants if len(points := _efficiency(runs, v))}
    if not data:
        raise UserError(f"{study_of(runs)} has fewer than two tasks with a learned range")
    labels = ("share of training", "normalised score")
    groups, figure, grids, looks = large_panels(runs, data, labels, width)
    for group, (ax,) in zip(groups, grids, strict=True):
        draw_lines(ax, pd.concat([data[v] for v in group]), looks)
        ax.set_xlim(0, 1)
        ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure.about(
        "Sample efficiency",
        "Mean normalised score over training, averaged over tasks, with its pointwise 95% "
        "interval. 0 and 1 are the ends of the learned range.",
    )


def large_panels(
    runs: Runs, shown: Collection[str], labels: tuple[str, str], width: float | str
) -> tuple[list[list[str]], Drawing, list[list[Axes]], dict[str, Look]]:
    """Return the groups of the variants that are shown, and a figure with a panel per group."""
    groups = [[v for v in group if v in shown] for group in groups_of(runs)]
    groups = [group for group in groups if group]
    looks = style.looks_of(groups)
    panels = [Group([""], keys_of(runs, group, looks), *labels) for group in groups]
    figure, grids = style.panels(panels, width, max(0.36 * style.inches(width), 1.8))
    return groups, figure, grids, looks


# Data


def step_unit(runs: Runs) -> str:
    """Return the unit of steps, in the plural."""
    return f"{runs.plan.study.step_unit or 'environment step'}s" if runs.plan else "steps"


def _points(
    runs: Runs, task: str, variants: Iterable[str], metric: str, *, smooth: bool = False
) -> pd.DataFrame:
    """Return variant, seed, step and value, at steps that at least half of the seeds have."""
    align = smoothed_together if smooth else on_common_steps
    frames = [
        _long(variant, list(curves), *align([*curves.values()]))
        for variant in variants
        if (curves := runs.curves_of(task, variant, metric))
    ]
    none = pd.DataFrame(columns=["seed", "step", "value", "variant"])
    return pd.concat([frame for frame in frames if len(frame)] or [none])


def _long(variant: str, seeds: Sequence[int], steps: Any, values: Any) -> pd.DataFrame:
    kept = np.flatnonzero(2 * np.isfinite(values).sum(axis=0) >= max(1, len(seeds)))
    if len(kept) > MOST_POINTS:
        kept = kept[np.linspace(0, len(kept) - 1, MOST_POINTS).round().astype(int)]
    table = pd.DataFrame(values[:, kept], index=list(seeds), columns=steps[kept])
    long = table.rename_axis(index="seed", columns="step").stack().rename("value").reset_index()
    return long.dropna().assign(variant=variant)


def _efficiency(runs: Runs, variant: str) -> pd.DataFrame:
    tasks = runs.ranged(variant)
    curves = {task: runs.curves_of(task, variant) for task in tasks}
    seeds = sorted(set.intersection(*map(set, curves.values()))) if len(tasks) > 1 else []
    points = [len(curves[task][seed].steps) for task in tasks for seed in seeds]
    share = np.arange(1, min(40, *points) + 1) / min(40, *points) if seeds else np.zeros(0)
    normalised = []
    for task in tasks if seeds else ():
        values = [curves[task][seed].at(share * curves[task][seed].steps[-1]) for seed in seeds]
        low = runs.ranges[task, variant][0]
        normalised.append((np.array(values) - low) / runs.size(task, variant))
    mean = np.mean(normalised, axis=0) if seeds else np.zeros((0, 0))
    complete = np.isfinite(mean).all(axis=0)
    return _long(variant, seeds, share[complete], mean[:, complete])


# Lines


def student_interval(values: Any) -> tuple[float, float]:
    """Return the ends of Student's 95% interval of a mean."""
    estimate = stats.mean(values)
    return estimate.low, estimate.high


def draw_lines(
    ax: Axes,
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    *,
    each_seed: bool = False,
    band: bool = True,
) -> None:
    """Draw the average of each variant over seeds, with a band or a thin line per seed.

    `data` has the columns variant, seed, step and value.
    """
    few = data.groupby("variant").seed.nunique().max() < FEW
    table = data.groupby(["variant", "step"]).value.agg(["mean", "sem", "count"])
    factors = {n: stats.student(n - 1, stats.LEVEL) for n in set(table["count"]) if n > 1}
    table["reach"] = table["count"].map(factors) * table["sem"]
    for variant, points in data.groupby("variant", sort=False):
        color, dashes = looks[str(variant)]
        mean, reach = (table.loc[variant, name] for name in ("mean", "reach"))
        if each_seed or (few and band):
            for _, run in points.groupby("seed", sort=False):
                ax.plot(run.step, run.value, color=color, linewidth=0.4, alpha=0.3, zorder=1)
        elif band:
            low, high = mean - reach, mean + reach
            ax.fill_between(mean.index, low, high, color=color, alpha=0.14, linewidth=0)
        width = 1.7 if color == style.INK else None
        ax.plot(mean, color=color, dashes=dashes or (None, None), linewidth=width, zorder=3)


def keys_of(runs: Runs, variants: Sequence[str], looks: Mapping[str, Look]) -> list[Artist]:
    """Return an entry of the legend per variant, with its number of failed and missing runs."""
    counts = runs.counts.groupby(level="variant")[["failed", "missing"]].sum()
    keys: list[Artist] = []
    for variant in variants:
        about = counts.loc[variant] if variant in counts.index else {}
        notes = [f"{n} {status}" for status, n in about.items() if n]
        same = runs.same_as.get(variant, variant)
        notes += [f"identical to {same}"] if same != variant else []
        label = variant + (f" ({', '.join(notes)})" if notes else "")
        keys.append(
            style.line_key(label, looks[variant], 1.7 if looks[variant].color == style.INK else 1.2)
        )
    return keys

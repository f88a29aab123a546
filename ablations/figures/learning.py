"""Figures of learning over time: curves, diagnostics, sample efficiency, checks."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from ablations import stats
from ablations.curve import on_common_steps
from ablations.errors import UserError
from ablations.figures import style
from ablations.figures.style import Drawing, Look
from ablations.regression.check import Check
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
    variants than colours, are split over several panels.

    Args:
        runs: of a study.
        width: in inches, or a name such as "icml-column".
        levels: task -> name -> value: horizontal lines, such as thresholds. Untrained policies that
            were evaluated have lines too.
        each_seed: draw a line per seed for any number of seeds.
        smooth: draw at each step the mean over the preceding tenth of training. The last point is
            then the score "final".
    """
    marks = {task: dict(values) for task, values in (levels or {}).items()}
    for task, policies in runs.untrained.items():
        untrained = {f"untrained ({name})": float(np.mean(x)) for name, x in policies.items()}
        marks[task] = untrained | marks.get(task, {})
    dashed = itertools.product(("#a8a8a8", style.INK), style.DASHES[1:])
    marked = dict.fromkeys(name for values in marks.values() for name in values)
    lines = dict(zip(marked, itertools.starmap(Look, dashed), strict=False))
    keys = [style.line_key(name, look, 0.8) for name, look in lines.items()]
    labels = step_unit(runs), style.metric_label(runs.metric)
    figure, panels, looks = grid(runs, runs.tasks, labels, width, 1.25, keys=keys)
    for ax, group, task in panels:
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
def checks(results: Mapping[str, Check], metric: str, width: float | str = style.TEXT) -> Drawing:
    """Draw the old and the new curves of checks by name, a panel per check."""
    looks = style.looks_of([["baseline", "now"]])
    titles = [": ".join(filter(None, (name, check.verdict))) for name, check in results.items()]
    keys = [style.line_key(side, look) for side, look in looks.items()]
    labels = "steps", style.metric_label(metric)
    figure, axes = style.panels(titles, width, 1.25, labels=labels, keys=keys)
    for ax, check in zip(axes, results.values(), strict=True):
        points = [
            pd.DataFrame({"variant": side, "seed": seed, "step": run.steps, "value": run.values})
            for side, of in (("baseline", check.baseline), ("now", check.now))
            for seed, run in of.at(check.baseline.steps).runs.items()
        ]
        draw_lines(ax, pd.concat(points), looks, each_seed=True)
        style.steps_axis(ax)
    return figure.about("Check of learning curves", "Thin: seeds. Thick: their mean.")


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
    shown = {
        f"{style.metric_label(str(name))}, {task}": (task, str(name))
        for name, task in itertools.product(names, runs.tasks)
    }
    figure, panels, looks = grid(runs, list(shown), (step_unit(runs), ""), width, 1.0)
    for ax, group, title in panels:
        task, name = shown[title]
        draw_lines(ax, _points(runs, task, group, name), looks, band=False)
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
    figure, panels, looks = grid(runs, [""], labels, width, shown=data)
    for ax, group, _ in panels:
        draw_lines(ax, pd.concat([data[v] for v in group]), looks)
        ax.set_xlim(0, 1)
        ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure.about(
        "Sample efficiency",
        "Mean normalised score over training, averaged over tasks, with its pointwise 95% "
        "interval. 0 and 1 are the ends of the learned range.",
    )


# Panels


def groups_of(runs: Runs, shown: Collection[str] | None = None) -> list[list[str]]:
    """Return the variants of each group of panels: a baseline and the variants compared with it.

    If there are more variants than colours, they are split over several groups, each with the
    baseline. `shown` names the variants that have data; default: all.
    """
    heads: dict[str, list[str]] = {}
    for variant in runs.variants:
        head = runs.source(variant)
        heads.setdefault(head, []).extend([variant] * (variant != head))
    groups = [
        [head, *map(str, part)]
        for head, others in heads.items()
        for part in np.array_split(others, max(1, -(-len(others) // MOST_LINES)))
    ]
    kept = [[v for v in group if shown is None or v in shown] for group in groups]
    return [group for group in kept if group]


def grid(
    runs: Runs,
    titles: Sequence[str],
    labels: tuple[str, str],
    width: float | str,
    height: float | None = None,
    *,
    shown: Collection[str] | None = None,
    keys: Sequence[Line2D] = (),
) -> tuple[Drawing, list[tuple[Axes, list[str], str]], dict[str, Look]]:
    """Return a figure with a panel per group and title, the panels, and the looks of variants.

    The legend has the variants with their numbers of failed and missing runs, and further `keys`.
    If looks repeat, each panel's title names the part of the legend that the panel shows. The
    default `height` suits panels that have the whole width.
    """
    height = height or max(0.36 * style.inches(width), 1.8)
    groups = groups_of(runs, shown)
    looks = style.looks_of(groups)
    counts = runs.counts.groupby(level="variant")[["failed", "missing"]].sum()

    def key(variant: str) -> Line2D:
        of_variant = counts.loc[variant] if variant in counts.index else {}
        notes = [f"{n} {status}" for status, n in of_variant.items() if n]
        same = runs.same_as.get(variant, variant)
        notes += [f"identical to {same}"] if same != variant else []
        label = variant + (f" ({', '.join(notes)})" if notes else "")
        return style.line_key(label, looks[variant])

    legend = [*map(key, dict.fromkeys(itertools.chain(*groups))), *keys]
    of_panels = [(group, title) for group in groups for title in titles]
    names = [title for _, title in of_panels]
    if len({*looks.values()}) < len(looks):  # the first and the last variant besides the baseline
        spans = [dict.fromkeys((group[:2][-1], group[-1])) for group, _ in of_panels]
        names = [
            ": ".join(filter(None, (title, " to ".join(span))))
            for title, span in zip(names, spans, strict=True)
        ]
    least = max(1.3, 0.99 * style.inches(width) / len(titles))  # a row per group, if they fit
    figure, axes = style.panels(names, width, height, labels=labels, keys=legend, least=least)
    return figure, [(ax, *of) for ax, of in zip(axes, of_panels, strict=True)], looks


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
    curves = [runs.curves_of(task, variant) for task in tasks]
    seeds = sorted(set.intersection(*map(set, curves))) if len(tasks) > 1 else []
    if not seeds:
        return pd.DataFrame()
    points = min(40, *(len(of[seed].steps) for of in curves for seed in seeds))
    share, normalised = np.arange(1, points + 1) / points, []
    for task, of in zip(tasks, curves, strict=True):
        values = np.array([of[seed].at(share * of[seed].steps[-1]) for seed in seeds])
        normalised.append((values - runs.ranges[task, variant][0]) / runs.size(task, variant))
    mean = np.mean(normalised, axis=0)
    complete = np.isfinite(mean).all(axis=0)
    return _long(variant, seeds, share[complete], mean[:, complete])


# Lines


def means(data: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the mean of the column `value` in each group, and the reach of Student's interval."""
    table = data.groupby(list(by)).value.agg(["mean", "sem", "count"])
    factors = {n: stats.student(n - 1, stats.LEVEL) for n in set(table["count"]) if n > 1}
    return table.assign(reach=table["count"].map(factors) * table["sem"])


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
    table = means(data, ["variant", "step"])
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
        ax.plot(mean, color=color, dashes=dashes, linewidth=width, zorder=3)

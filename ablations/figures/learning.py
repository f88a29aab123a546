"""Figures of learning over time: curves, diagnostics, sample efficiency, validation of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from ablations import stats
from ablations.figures.style import (
    COLORS,
    DASHES,
    INK,
    QUIET,
    TEXT,
    Drawing,
    Group,
    Look,
    inches,
    line_key,
    looks_of,
    metric_label,
    panels,
    steps_axis,
    style,
    words,
)
from ablations.runs import EVALUATION, Runs
from ablations.scoring import smoothed_together

FEW = 6  # seeds, below which each has a line instead of a band
MOST_LINES = len(COLORS)  # of a panel, beside the baseline's
MANY = 40  # variants, above which each is a faint line
_MOST_POINTS = 200  # of a line
# Metrics of the trainers that tell whether training went well.
DIAGNOSTICS = (
    "policy/clip_fraction",
    "value/clip_fraction",
    "policy/approximate_kl",
    "policy/entropy",
    "value/explained_variance",
    "gradient/norm",
    "advantage/std",
    "loss/value",
    "policy/kl_reference",
    "training/zero_variance_groups",
    "training/length",
)
_LEVELS = (Look(QUIET, DASHES[2]), Look(QUIET, DASHES[3]), Look("#a8a8a8", DASHES[1]))
Average = Literal["mean", "IQM"]


def groups_of(runs: Runs) -> list[list[str]]:
    """Return the variants of each group of panels: a baseline, then variants compared with it.

    A baseline with more variants than there are colours has several groups, all with the baseline.
    """
    groups: list[list[str]] = []
    heads = [v for v in runs.variants if runs.versus[v] not in runs.versus or runs.versus[v] == v]
    known = {runs.versus[v] for v in runs.variants if runs.versus[v] != v}
    for head in dict.fromkeys([*heads, *(v for v in runs.variants if v in known)]):
        others = [v for v in runs.variants if runs.versus[v] == head != v]
        parts = max(1, -(-len(others) // MOST_LINES))
        groups += [[head, *map(str, part)] for part in np.array_split(others, parts)]
    return groups


def curves(
    runs: Runs,
    width: float | str = TEXT,
    *,
    metric: str | None = None,
    each_seed: bool = False,
    smooth: bool = False,
    average: Average = "mean",
) -> Drawing:
    """Draw the learning curves of every variant, a panel per task.

    The mean over seeds, with Student's 95% interval as a band, or with a thin line per seed where
    there are fewer than `FEW`. Variants are split over several rows of panels where they have
    different baselines, or are more than there are colours.

    Args:
        runs: of a study.
        width: in inches, or a name such as "icml-column".
        metric: a column of the curves, by default the metric of the scores.
        each_seed: draw a line per seed, whatever their number.
        smooth: draw at each step the mean over the tenth of training that ends there. The last
            point is then the score "final".
        average: "mean" or "IQM".
    """
    metric = metric or runs.metric
    groups, titles = groups_of(runs), list(runs.tasks)
    many = len(runs.variants) > MANY
    if many:
        groups = [list(dict.fromkeys(v for group in groups for v in group))]
    looks = looks_of(groups)
    levels = runs.untrained if metric == runs.metric else {}
    names = dict.fromkeys(policy for of in levels.values() for policy in of)
    policies = dict(zip(names, _LEVELS, strict=False))
    keys = [_keys(runs, group, looks, many=many) for group in groups]
    keys[0] += [line_key(f"untrained ({name})", look, 0.8) for name, look in policies.items()]
    seeds = runs.runs.seed.nunique()
    with style():
        figure, grids = panels(
            [Group(titles, entries) for entries in keys],
            inches(width),
            1.25,
            x=step_unit(runs),
            y=metric_label(metric),
        )
        for group, axes in zip(groups, grids, strict=True):
            for ax, task in zip(axes, runs.tasks, strict=True):
                for name, scores in levels.get(task, {}).items():
                    color, dashes = policies[name]
                    line = ax.axhline(float(np.mean(scores)), color=color, linewidth=0.8)
                    line.set_dashes(dashes)
                data = _points(runs, task, group, metric, smooth=smooth)
                if many:
                    _faint(ax, data, group[0])
                else:
                    _lines(ax, data, looks, each_seed=each_seed, average=average)
                steps_axis(ax)
    caption = _caption(seeds, each_seed=each_seed, smooth=smooth, average=average)
    return figure.about("Learning curves", caption)


def diagnostics(runs: Runs, width: float | str = TEXT) -> Drawing | None:
    """Draw the mean curves of the metrics that the trainer logs beside the score.

    A row of panels per metric. Metrics that never change are left out; None without any.
    """
    logged = diagnostic_metrics(runs.metrics, runs.metric)
    if runs.plan is not None and runs.folder is not None and not set(logged) <= set(runs.curves):
        runs = Runs.read(runs.folder, runs.plan, runs.metric, runs.score, logged)
    names = [name for name in logged if name in runs.curves and np.ptp(_finite(runs, name)) > 1e-12]
    if not names:
        return None
    groups = groups_of(runs)
    looks = looks_of(groups)
    shown = [(name, task, group) for name in names for group in groups for task in runs.tasks]
    heads = len(groups) > 1
    titles = [
        "\n".join([metric_label(name), task + (f", vs {group[0]}" if heads else "")])
        for name, task, group in shown
    ]
    variants = dict.fromkeys(v for group in groups for v in group)
    with style():
        figure, grids = panels(
            [Group(titles, _keys(runs, list(variants), looks))],
            inches(width),
            1.0,
            x=step_unit(runs),
        )
        for ax, (name, task, group) in zip(grids[0], shown, strict=True):
            _lines(ax, _points(runs, task, group, name), looks, band=False)
            steps_axis(ax)
    return figure.about(
        "Diagnostics over training",
        "Mean over seeds of what the trainer records beside the score. Metrics that stay the same "
        "everywhere are left out.",
    )


def efficiency(
    runs: Runs, width: float | str = TEXT, *, average: Average = "mean"
) -> Drawing | None:
    """Draw normalised scores over training, averaged over tasks, with 95% intervals.

    Seeds that are complete on every task. None with fewer than two tasks that have a learned range.
    This is the sample-efficiency curve of rliable (Agarwal et al. 2021), of the mean.
    """
    groups = groups_of(runs)
    data = {variant: _efficiency(runs, variant) for variant in runs.variants}
    groups = [[v for v in group if len(data[v])] for group in groups]
    groups = [group for group in groups if group]
    if not groups:
        return None
    looks = looks_of(groups)
    with style():
        figure, grids = panels(
            [Group([""], _keys(runs, group, looks)) for group in groups],
            inches(width),
            max(0.36 * inches(width), 1.8),
            x="share of training",
            y="normalised score",
        )
        for group, (ax,) in zip(groups, grids, strict=True):
            _lines(ax, pd.concat([data[v] for v in group]), looks, average=average)
            ax.set_xlim(0, 1)
            ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure.about(
        "Sample efficiency",
        "Normalised score over training, averaged over tasks: 0 and 1 are the ends of the learned "
        f"range. {_averaged(average)} over seeds with its pointwise 95% interval.",
    )


def validation(
    curves: pd.DataFrame,
    levels: Mapping[str, Mapping[str, float]],
    metric: str,
    width: float | str = TEXT,
) -> Drawing:
    """Draw the evaluations of each candidate on each task, and the levels that they have to pass.

    Args:
        curves: the columns task, variant, seed, step and value.
        levels: task -> name of a level -> value; a dashed line each.
        metric: its name.
        width: in inches, or a name such as "icml-column".
    """
    tasks, variants = list(curves.task.unique()), list(curves.variant.unique())
    looks = {
        v: Look(COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)])
        for i, v in enumerate(variants)
    }
    names = dict.fromkeys(name for task in tasks for name in levels.get(task, {}))
    marks = {
        name: Look((INK, QUIET, "#a8a8a8")[i % 3], DASHES[1 + i % 3])
        for i, name in enumerate(names)
    }
    keys = [line_key(words(v), look) for v, look in looks.items()]
    keys += [line_key(name, look, 0.8) for name, look in marks.items()]
    with style():
        figure, grids = panels(
            [Group(tasks, keys)],
            inches(width),
            1.5,
            least=1.8,
            x="environment steps",
            y=metric_label(metric),
        )
        for ax, task in zip(grids[0], tasks, strict=True):
            rows = curves[curves.task == task]
            _lines(ax, rows, looks)
            for name, value in levels.get(task, {}).items():
                color, dashes = marks[name]
                ax.axhline(value, color=color, linewidth=0.8, zorder=1).set_dashes(dashes)
            ax.autoscale_view()
            steps_axis(ax)
    return figure.about(
        "Validation of tasks",
        "Mean over seeds of the evaluations of each candidate, with its pointwise 95% interval. A "
        "task passes where a candidate scores above both thresholds.",
    )


# Data


def step_unit(runs: Runs) -> str:
    """Name the steps of the runs, in the plural."""
    if runs.plan is None:
        return "steps"
    return f"{runs.plan.study.step_unit or 'environment step'}s"


def diagnostic_metrics(metrics: Sequence[str], own: str) -> tuple[str, ...]:
    """Return the metrics of `DIAGNOSTICS` that were logged, or else the first others."""
    known = tuple(name for name in DIAGNOSTICS if name in metrics and name != own)
    others = [name for name in metrics if name != own and not name.startswith(EVALUATION)]
    return known or tuple(others[:8])


def _finite(runs: Runs, metric: str) -> Any:
    values = runs.curves[metric].to_numpy(np.float64)
    values = values[np.isfinite(values)]
    return values if len(values) else np.zeros(1)


def _points(
    runs: Runs, task: str, variants: Iterable[str], metric: str, *, smooth: bool = False
) -> pd.DataFrame:
    """Return the columns variant, seed, step and value, at steps that half of the seeds have."""
    frames = []
    for variant in variants:
        curves = runs.curves_of(task, variant, metric)
        if not curves:
            continue
        if smooth:
            steps, values = smoothed_together(list(curves.values()))
        else:
            steps, values = runs.aligned(task, variant, metric)
        frames.append(_long(variant, list(curves), steps, values))
    return pd.concat(frames) if frames else _long("", [], np.zeros(0), np.zeros((0, 0)))


def _long(variant: str, seeds: Sequence[int], steps: Any, values: Any) -> pd.DataFrame:
    finite = np.isfinite(values)
    kept = np.flatnonzero(2 * finite.sum(axis=0) >= max(1, len(seeds)))
    if len(kept) > _MOST_POINTS:
        kept = kept[np.linspace(0, len(kept) - 1, _MOST_POINTS).round().astype(int)]
    table = pd.DataFrame(values[:, kept], index=list(seeds), columns=steps[kept])
    long = table.rename_axis(index="seed", columns="step").stack().rename("value").reset_index()
    return long.assign(variant=variant)


def _efficiency(runs: Runs, variant: str) -> pd.DataFrame:
    tasks = [task for task in runs.tasks if not np.isnan(runs.size(task, variant))]
    curves = {task: runs.curves_of(task, variant) for task in tasks}
    seeds = sorted(set.intersection(*map(set, curves.values()))) if len(tasks) > 1 else []
    if not seeds:
        return pd.DataFrame()
    every = [curves[task][seed] for task in tasks for seed in seeds]
    count = min(40, *(len(curve.steps) for curve in every))
    share = np.arange(1, count + 1) / count
    normalised = []
    for task in tasks:
        values = [curves[task][seed].at(share * curves[task][seed].steps[-1]) for seed in seeds]
        low = runs.ranges[task, variant][0]
        normalised.append((np.array(values) - low) / runs.size(task, variant))
    mean = np.mean(normalised, axis=0)
    complete = np.isfinite(mean).all(axis=0)
    return _long(variant, seeds, share[complete], mean[:, complete])


# Lines


def _interval(values: Any) -> tuple[float, float]:
    estimate = stats.mean(values)
    return estimate.low, estimate.high


def _iqm(values: Any) -> float:
    return float(stats.iqm(values, replicates=1).value)


def _iqm_interval(values: Any) -> tuple[float, float]:
    estimate = stats.iqm(values, replicates=2_000)
    return estimate.low, estimate.high


_AVERAGES: Mapping[str, tuple[Any, Callable[[Any], tuple[float, float]]]] = {
    "mean": ("mean", _interval),
    "IQM": (_iqm, _iqm_interval),
}


def _lines(
    ax: Axes,
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    *,
    each_seed: bool = False,
    band: bool = True,
    average: Average = "mean",
) -> None:
    """Draw the average of each variant, with its band or a thin line per seed."""
    variants = list(data.variant.unique())
    if not variants:
        return
    labels = {"xlabel": ax.get_xlabel(), "ylabel": ax.get_ylabel()}  # seaborn writes its own
    few = data.groupby("variant").seed.nunique().max() < FEW
    thin, banded = each_seed or (few and band), band and not each_seed and not few
    estimator, interval = _AVERAGES[average]
    common = {
        "x": "step",
        "y": "value",
        "hue": "variant",
        "palette": {v: looks[v].color for v in variants},
        "legend": False,
        "ax": ax,
    }
    if thin:
        sns.lineplot(
            data, units="seed", estimator=None, linewidth=0.4, alpha=0.3, zorder=1, **common
        )
    sns.lineplot(
        data,
        style="variant",
        dashes={v: looks[v].dashes for v in variants},
        size="variant",
        sizes={v: 1.7 if looks[v].color == INK else 1.1 for v in variants},
        size_order=variants,
        style_order=variants,
        estimator=estimator,
        errorbar=interval if banded else None,
        err_kws={"alpha": 0.14, "linewidth": 0},
        zorder=3,
        **common,
    )
    ax.set(**labels)


def _faint(ax: Axes, data: pd.DataFrame, head: str) -> None:
    """Draw the mean of each of many variants as a faint line, and that of the first in full."""
    means = data.groupby(["variant", "step"], sort=False).value.mean().reset_index()
    others = means[means.variant != head]
    lines = others.pivot(index="step", columns="variant", values="value")
    ax.plot(lines.index, lines, color=COLORS[0], linewidth=0.4, alpha=0.3)
    own = means[means.variant == head]
    ax.plot(own.step, own.value, color=INK, linewidth=1.7)


def _keys(
    runs: Runs, variants: Sequence[str], looks: Mapping[str, Look], *, many: bool = False
) -> list[Artist]:
    """Return an entry per variant, with the number of its runs that failed or are missing."""
    if many:
        others = line_key(f"{len(variants) - 1} other variants", Look(COLORS[0]), 0.5)
        return [line_key(words(variants[0]), Look(INK), 1.7), others]
    counts = runs.counts.groupby(level="variant")[["failed", "missing"]].sum()
    keys: list[Artist] = []
    for variant in variants:
        notes = [f"{n} {status}" for status, n in counts.loc[variant].items() if n]
        same = runs.same_as.get(variant, variant)
        notes += [f"identical to {words(same)}"] if same != variant else []
        label = words(variant) + (f" ({', '.join(notes)})" if notes else "")
        keys.append(line_key(label, looks[variant], 1.7 if looks[variant].color == INK else 1.2))
    return keys


def _averaged(average: str) -> str:
    return "Mean" if average == "mean" else "Interquartile mean"


def _caption(seeds: int, *, each_seed: bool, smooth: bool, average: str) -> str:
    if seeds < 2:
        return "One seed."
    shown = "thin: each seed" if each_seed or seeds < FEW else "with its pointwise 95% interval"
    smoothed = " At each step: the mean over the tenth of training before it." if smooth else ""
    return f"{_averaged(average)} over {seeds} seeds, {shown}.{smoothed}"

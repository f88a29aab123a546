"""Figures of scores: aggregates over tasks, performance profiles, sensitivity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from ablations import stats
from ablations.errors import UserError, value_text
from ablations.figures import style
from ablations.figures.learning import grid, groups_of, means
from ablations.figures.style import Drawing, Look
from ablations.runs import ALL_TASKS, Runs
from ablations.tables.effects import settings_of
from ablations.tables.formats import number
from ablations.tables.kinds import study_of

_SCORE = "normalised score"
_UNIT = "0 and 1 are the ends of the learned range."


@style.applied()
def aggregates(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw aggregates of normalised scores with 95% intervals, a panel per statistic.

    Each seed has a dot. The mean of the tasks' IQMs is omitted for one task, where it equals the
    IQM, and the median for one or two tasks, where it equals the mean.
    """
    scores = _normalised(runs)
    looks = style.looks_of(groups_of(runs))
    fewest = {"task IQM": 2, "median": 3}
    tasks = max(map(len, scores.values()))
    shown = [name for name in stats.AGGREGATES if tasks >= fewest.get(name, 1)]
    names = [style.wrapped(variant, 0.3 * style.inches(width)) for variant in scores]
    row = 0.27 + 0.1 * max(name.count("\n") for name in names)
    figure, axes = style.panels(
        [f"{n} {'↓' if n == 'optimality gap' else '↑'}" for n in shown],
        width,
        row * len(scores) + 0.22,
        labels=(_SCORE, ""),
        least=1.15,
        share=True,
        aside=max(map(style.text_width, names)),
    )
    for ax, name in zip(axes, shown, strict=True):
        style.name_rows(ax, range(len(names)), names)
        ax.set_ylim(len(names) - 0.45, -0.75)
        for y, (variant, task_scores) in enumerate(scores.items()):
            _aggregate(ax, task_scores, name, y, looks[variant].color)
        ax.margins(x=0.12)
    return figure.about(
        "Aggregates of normalised scores",
        f"{_UNIT} Bars: 95% stratified bootstrap intervals. Dots: seeds that are complete on every "
        "task.",
    )


def _aggregate(ax: Axes, tasks: Sequence[Any], name: str, y: float, color: str) -> None:
    result = stats.aggregate(tasks, name)
    ax.barh(y, result.high - result.low, 0.3, result.low, color=color, alpha=0.3, linewidth=0)
    ax.plot(result.value, y, "|", color=color, markersize=8, markeredgewidth=1.6)
    ax.text(
        result.value, y - 0.22, number(result.value, 2), ha="center", va="bottom", size=style.SMALL
    )
    each = stats.AGGREGATES[name](*(np.asarray(scores)[:, None] for scores in tasks))
    style.dots(ax, each, [y + 0.3] * len(each), color=color)


@style.applied()
def profiles(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw performance profiles (Agarwal et al. 2021): the share of runs above each score.

    Scores are normalised; intervals are pointwise, with 95%.
    """
    scores = _normalised(runs)
    every = np.concatenate([task for tasks in scores.values() for task in tasks])
    low, high = np.quantile(every, (0.01, 1.0))
    low, high = min(low, 0.9), max(high + 0.02 * (high - low), 1.05)
    thresholds = np.linspace(low, high, 201)
    labels = (f"{_SCORE} τ", "share of runs above τ")
    figure, panels, looks = grid(runs, [""], labels, width, shown=scores)
    for ax, group, _ in panels:
        for variant in group:
            color, dashes = looks[variant]
            share, below, above = stats.profile(scores[variant], thresholds)
            ax.fill_between(thresholds, below, above, color=color, alpha=0.13, linewidth=0)
            ax.step(thresholds, share, where="post", color=color, dashes=dashes, linewidth=1.3)
        ax.axvline(1, color=style.QUIET, linewidth=0.6, linestyle=(0, (3, 2)), zorder=1)
        ax.set(ylim=(0, 1.02), xlim=(low, high))
        ax.set_yticks((0, 0.25, 0.5, 0.75, 1))
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure.about(
        "Performance profiles",
        "Share of runs above each normalised score, mean over tasks, with its pointwise 95% "
        f"interval. {_UNIT}",
    )


def _normalised(runs: Runs) -> dict[str, list[Any]]:
    """Return variant -> the normalised scores `[n]` of each task, of variants that have any."""
    scores = {variant: list(runs.normalised(variant).values()) for variant in runs.variants}
    scores = {v: tasks for v, tasks in scores.items() if tasks and len(tasks[0])}
    if not scores:
        raise UserError(f"{study_of(runs)} has no normalised scores: no task has a learned range")
    return scores


# Sensitivity


@style.applied()
def sensitivity(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw the mean score at each value of a hyperparameter, with Student's 95% interval.

    Panels: one per hyperparameter and task, and one over all tasks if all variants have the same
    baseline. Lines: one per combination of the other settings; with at most 4 lines, each run has a
    dot. The margin around the baseline's mean is shaded.
    """
    along = _along(runs)
    if along.empty:
        raise UserError(f"{study_of(runs)} has no variants that differ only in a hyperparameter")
    lines = along.line.unique()
    palette = dict(zip(lines, sns.color_palette(style.COLORS, len(lines)), strict=True))
    names, shown = along.groupby("name", sort=False), []
    for _, rows in names:
        pooled = rows.source.nunique() == 1 and len(runs.normalised(rows.variant.iloc[0])) > 1
        shown += [(task, rows) for task in [*runs.tasks, *[ALL_TASKS] * pooled]]
    keys = [style.line_key(x or "no other change", Look(palette[x])) for x in lines]
    ticks = (sum(style.text_width(f"{x:g}", 7) + 0.1 for x in own) for own in names.value.unique())
    figure, axes = style.panels(
        [task for task, _ in shown],
        width,
        1.3 + style.LINE,
        labels=("", style.metric_label(runs.metric)),
        keys=keys if len(keys) > 1 else (),
        least=max(1.3, 0.5 + max(ticks)),
    )
    for ax, (task, rows) in zip(axes, shown, strict=True):
        _sensitivity(ax, runs, task, rows, palette)
        ax.set_xlabel(style.words(rows.name.iloc[0]))
        if task == ALL_TASKS:
            ax.set_ylabel(_SCORE)
    return figure.about(
        "Sensitivity to a hyperparameter",
        "Mean score at each value, with its 95% interval. Dots: one seed each; dots far from all "
        "intervals are omitted. Shaded: the margin around the mean score of the baseline.",
    )


def _sensitivity(
    ax: Axes, runs: Runs, task: str, along: pd.DataFrame, palette: Mapping[str, Any]
) -> None:
    values, lines = sorted(along.value.unique()), along.line.unique()
    data = along.assign(at=along.value.map(values.index))
    data["value"] = [runs.by_seed(task, v).to_numpy() for v in along.variant]
    data = data.explode("value").dropna().astype({"value": float})
    if data.empty:
        return
    every = pd.MultiIndex.from_product([lines, range(len(values))])
    table, few = means(data, ["line", "at"]).reindex(every), len(lines) <= 4
    spread = 0.8 - 0.8 / len(lines) if few else 0.3
    for line, offset in zip(lines, np.linspace(-spread / 2, spread / 2, len(lines)), strict=True):
        own, dots = table.loc[line], data[data.line == line]
        bars: dict[str, Any] = {"marker": "o", "markersize": 3.4, "mew": 0, "elinewidth": 1.2}
        ax.errorbar(own.index + offset, own["mean"], own.reach, color=palette[line], **bars)
        if few:
            ax.scatter(dots["at"] + offset, dots.value, 3, color=palette[line], alpha=0.35, lw=0)
    reaches = table.reach.fillna(0.0)
    ends = pd.concat([table["mean"] - reaches, table["mean"] + reaches]).dropna()
    center, reach = ends.mean(), 2 * np.ptp(ends)
    near = data.value[data.value.between(center - reach, center + reach)]
    low, high = min(*ends, *near), max(*ends, *near)
    room = 0.05 * (high - low) or 1.0
    sources = along.groupby("value").source.unique()
    if runs.directed and (sources.map(len) == 1).all():
        center = np.array([runs.by_seed(task, names[0]).mean() for names in sources])
        reach = np.array([runs.margin * runs.size(task, names[0]) for names in sources])
        below, above = (np.pad(center + sign * reach, 1, "edge") for sign in (-1, 1))
        at = [-0.5, *range(len(values)), len(values) - 0.5]
        ax.fill_between(at, below, above, color=style.MARGIN, linewidth=0, zorder=0)
    ax.set(ylim=(low - room, high + room), xlim=(-0.5, len(values) - 0.5))
    ax.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    ax.grid(visible=False, axis="x")


def _along(runs: Runs) -> pd.DataFrame:
    """Return a row per hyperparameter and variant, of variants that differ only in it.

    Columns: name of the hyperparameter, its value, the variant, source (the variant whose learned
    range applies) and line (its other settings).
    """
    settings = settings_of(runs.plan) if runs.plan else {}
    names = sorted({name for known in settings.values() for name in known})
    differing = [n for n in names if len({str(x.get(n)) for x in settings.values()}) > 1]
    rows: list[tuple[Any, ...]] = []
    for name in differing:
        values: dict[str, Any] = {v: set_[name] for v, set_ in settings.items() if name in set_}
        if all(isinstance(x, float) or type(x) is int for x in values.values()):
            for variant, value in values.items():
                known = settings[variant]
                others = (n for n in differing if n != name and n in known)
                line = ", ".join(f"{n}={value_text(known[n])}" for n in others)
                rows.append((name, float(value), variant, runs.source(variant), line))
    frame = pd.DataFrame(rows, columns=["name", "value", "variant", "source", "line"])
    frame = frame.drop_duplicates(["name", "line", "value"])
    return frame[frame.groupby(["name", "line"]).value.transform("nunique") > 1]

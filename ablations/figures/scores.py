"""Figures of scores: aggregates over tasks, performance profiles, scores along a hyperparameter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from ablations import stats
from ablations.core.record import settings_read
from ablations.errors import value_text
from ablations.figures import style
from ablations.figures.learning import groups_of, keys_of, student_interval
from ablations.figures.style import Drawing, Group, Look
from ablations.runs import ALL_TASKS, Runs
from ablations.tables.formats import number

_SCORE = "normalised score"
_UNIT = "0 and 1 are the ends of the learned range."


@style.applied()
def aggregates(runs: Runs, width: float | str = style.TEXT) -> Drawing | None:
    """Draw aggregates of normalised scores with 95% intervals, a panel per statistic.

    With a dot per seed. With one task the mean over tasks of IQMs equals the IQM, and with one or
    two tasks the median equals the mean: these are left out. None without normalised scores.
    """
    scores = _normalised(runs)
    if not scores:
        return None
    looks = style.looks_of(groups_of(runs))
    fewest = {"task IQM": 2, "median": 3}
    tasks = max(map(len, scores.values()))
    shown = [name for name in stats.AGGREGATES if tasks >= fewest.get(name, 1)]
    names = [style.wrapped(variant, 0.3 * style.inches(width)) for variant in scores]
    row = 0.27 + 0.1 * max(name.count("\n") for name in names)
    figure, (axes,) = style.panels(
        [Group([f"{n} {'↓' if n == 'optimality gap' else '↑'}" for n in shown], (), _SCORE)],
        width,
        row * len(scores) + 0.22,
        least=1.15,
        share=True,
        aside=max(map(style.text_width, names)),
    )
    for ax, name in zip(axes, shown, strict=True):
        style.name_rows(ax, range(len(names)), names)
        ax.set_ylim(len(names) - 0.45, -0.75)
        for y, (variant, of) in enumerate(scores.items()):
            _aggregate(ax, of, name, y, looks[variant].color)
        ax.margins(x=0.12)
    return figure.about(
        "Aggregates of normalised scores",
        f"{_UNIT} Bars: 95% stratified bootstrap intervals. Dots: one seed each, of those that are "
        "complete on every task.",
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
def profiles(runs: Runs, width: float | str = style.TEXT) -> Drawing | None:
    """Draw the share of runs above each normalised score, with pointwise 95% intervals.

    Performance profiles (Agarwal et al. 2021). None without normalised scores.
    """
    scores = _normalised(runs)
    groups = [[v for v in group if v in scores] for group in groups_of(runs)]
    groups = [group for group in groups if group]
    if not groups:
        return None
    looks = style.looks_of(groups)
    every = np.concatenate([task for tasks in scores.values() for task in tasks])
    low, high = np.quantile(every, (0.01, 1.0))
    low, high = min(low, 0.9), max(high + 0.02 * (high - low), 1.05)
    thresholds = np.linspace(low, high, 201)
    figure, grids = style.panels(
        [
            Group([""], keys_of(runs, g, looks), f"{_SCORE} τ", "share of runs above τ")
            for g in groups
        ],
        width,
        max(0.36 * style.inches(width), 1.8),
    )
    for group, (ax,) in zip(groups, grids, strict=True):
        for variant in group:
            color, dashes = looks[variant]
            _, below, above = stats.profile(scores[variant], thresholds)
            ax.fill_between(thresholds, below, above, color=color, alpha=0.13, linewidth=0)
            sns.ecdfplot(
                x=np.concatenate(scores[variant]), complementary=True, color=color, ax=ax,
                linestyle=(0, dashes) if dashes else "-", linewidth=1.3,
            )  # fmt: skip
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
    """Return variant -> an array `[n]` of normalised scores per task, where there are any."""
    scores = {variant: list(runs.normalised(variant).values()) for variant in runs.variants}
    return {v: tasks for v, tasks in scores.items() if tasks and len(tasks[0])}


# Scores along a hyperparameter


class _Panel(NamedTuple):
    """A hyperparameter on a task. lines: what else variants set -> value -> variant."""

    name: str
    task: str
    title: str
    lines: dict[str, dict[float, str]]

    @property
    def values(self) -> list[float]:
        return sorted({value for variants in self.lines.values() for value in variants})

    @property
    def labels(self) -> list[str]:
        return [f"{value:g}" for value in self.values]


@style.applied()
def sensitivity(runs: Runs, width: float | str = style.TEXT) -> Drawing | None:
    """Draw the mean score at each value of a hyperparameter, with Student's 95% interval.

    A panel per hyperparameter and task, and over all tasks where all variants have one baseline; a
    line for each combination of the other settings, with a dot per run where there are at most 4.
    Shaded: the margin around the baseline's mean. Variants with other settings of the task have
    panels of their own. None where no variants differ in a number alone.
    """
    shown = list(_along(runs))
    if not shown:
        return None
    lines = list(dict.fromkeys(line for panel in shown for line in panel.lines))
    palette = dict(zip(lines, sns.color_palette(style.COLORS, len(lines)), strict=True))
    by_name = {p.name: [panel for panel in shown if panel.name == p.name] for p in shown}
    groups = []
    for name, of in by_name.items():
        own = [line for line in lines if any(line in panel.lines for panel in of)]
        keys = [style.line_key(line or "no other change", Look(palette[line])) for line in own]
        titles = [panel.title for panel in of]
        y = style.metric_label(runs.metric)
        groups.append(Group(titles, keys if len(keys) > 1 else [], style.words(name), y))
    least = max(sum(style.text_width(x, 7) + 0.1 for x in panel.labels) for panel in shown)
    figure, grids = style.panels(groups, width, 1.3, least=max(1.3, 0.5 + least))
    for axes, of in zip(grids, by_name.values(), strict=True):
        for ax, panel in zip(axes, of, strict=True):
            _sensitivity(ax, runs, panel, palette)
            if panel.task == ALL_TASKS:
                figure.labels[ax]["ylabel"] = _SCORE
    return figure.about(
        "Sensitivity to a hyperparameter",
        "Mean score at each value, with its 95% interval. Dots: one seed each; those far from all "
        "intervals are not shown. Shaded: the margin around the mean score of the baseline.",
    )


def _sensitivity(ax: Axes, runs: Runs, panel: _Panel, palette: dict[str, Any]) -> None:
    rows = [
        (f"{value:g}", score, line)
        for line, variants in panel.lines.items()
        for value, variant in variants.items()
        for score in _scores(runs, panel.task, variant)
    ]
    count = len(panel.lines)
    common: dict[str, Any] = {
        "data": pd.DataFrame(rows, columns=["value", "score", "line"]), "x": "value", "y": "score",
        "hue": "line", "hue_order": list(panel.lines), "palette": palette, "legend": False,
        "order": panel.labels, "ax": ax,
    }  # fmt: skip
    if count <= 4:
        sns.stripplot(**common, dodge=count > 1, jitter=False, size=1.9, alpha=0.35)
    sns.pointplot(
        **common, dodge=0.8 - 0.8 / count if 1 < count <= 4 else 0.3 * (count > 1), linewidth=1.0,
        errorbar=student_interval, markersize=3.4, markeredgewidth=0, err_kws={"linewidth": 1.2},
    )  # fmt: skip
    heads: dict[float, set[str]] = {value: set() for value in panel.values}
    for value, variant in (item for of in panel.lines.values() for item in of.items()):
        heads[value].add(runs.source(variant))
    if runs.directed and all(len(of) == 1 for of in heads.values()):
        bands = [_margin(runs, panel.task, *of) for of in heads.values()]
        low, high = np.array([bands[0], *bands, bands[-1]]).T
        at = [-0.5, *range(len(bands)), len(bands) - 0.5]
        ax.fill_between(at, low, high, color=style.MARGIN, linewidth=0, zorder=0)
    ends = np.concatenate([line.get_ydata() for line in ax.get_lines()]).astype(float)
    reach = 2 * np.ptp(ends[np.isfinite(ends)])
    shown = common["data"].score[lambda x: (x - np.nanmean(ends)).abs() <= reach]
    ax.set_ylim(*_padded(np.nanmin([*ends, *shown]), np.nanmax([*ends, *shown])))
    ax.set_xlim(-0.5, len(heads) - 0.5)
    ax.set_xticks(range(len(heads)), panel.labels)
    ax.grid(visible=False, axis="x")


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _scores(runs: Runs, task: str, variant: str) -> Any:
    if task != ALL_TASKS:
        return runs.scores[task, variant].dropna().to_numpy()
    return np.mean(list(runs.normalised(variant).values()), axis=0)


def _margin(runs: Runs, task: str, variant: str) -> tuple[float, float]:
    center, reach = np.mean(_scores(runs, task, variant)), runs.margin * runs.size(task, variant)
    return center - reach, center + reach


def _along(runs: Runs) -> Iterator[_Panel]:
    known, of_task = _settings(runs)
    texts = known.map(lambda value: "" if value is None else value_text(value))
    differing = [name for name in known if texts[name].nunique() > 1]

    def written(variant: Any, names: Iterator[str]) -> str:
        return ", ".join(f"{n}={texts.loc[variant, n]}" for n in names if texts.loc[variant, n])

    for name in (n for n in differing if n not in of_task):
        numbers = known[name].dropna()
        if not all(isinstance(x, float) or type(x) is int for x in numbers):
            continue
        lines: dict[str, dict[str, dict[float, str]]] = {}
        for variant, value in numbers.items():
            where = written(variant, (n for n in differing if n in of_task))
            line = written(variant, (n for n in differing if n not in of_task and n != name))
            lines.setdefault(where, {}).setdefault(line, {}).setdefault(float(value), str(variant))
        for task, where in itertools.product([*runs.tasks, ALL_TASKS], lines):
            kept = {line: of for line, of in lines[where].items() if len(of) > 1}
            variants = [variant for of in kept.values() for variant in of.values()]
            sources = {runs.source(variant) for variant in variants}
            pooled = len(sources) == 1 and all(len(runs.normalised(v)) > 1 for v in variants)
            if kept and (task != ALL_TASKS or pooled):
                title = f"{task}, {where}" if len(lines) > 1 else task
                yield _Panel(name, task, title, kept)


def _settings(runs: Runs) -> tuple[pd.DataFrame, set[str]]:
    """Return the settings that some variant sets, a row per variant, and which are the task's.

    Of a setting that a variant leaves out it is the default, where its trainer reads it.
    """
    names = sorted({name for sets in runs.sets.values() for name in sets})
    cells = runs.plan.cells if runs.plan else ()
    configs = {cell.variant: cell.config for cell in reversed(cells)}
    rows, of_task = [], set()
    for variant in runs.variants:
        config = configs.get(variant, {})
        neutral = (runs.plan.variants[variant].neutral or {}) if runs.plan else {}
        rows.append({**settings_read(config), **neutral, **runs.sets.get(variant, {})})
        task = config.get("task")
        of_task |= {*task.get("settings", ())} if isinstance(task, dict) else set()
    values = [[row.get(name) for name in names] for row in rows]
    return pd.DataFrame(values, runs.variants, names, dtype=object), of_task

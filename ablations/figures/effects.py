"""Forests: effects as points with intervals, their names at the left and values at the right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import blended_transform_factory

from ablations.comparison import compare
from ablations.figures.style import (
    INK,
    LINE,
    MARGIN,
    QUIET,
    SMALL,
    TEXT,
    VERDICT_COLORS,
    Drawing,
    add_legend,
    drawing,
    inches,
    margin_key,
    metric_label,
    name_rows,
    stacked,
    style,
    text_width,
    wrapped,
)
from ablations.runs import ALL_TASKS, Runs
from ablations.tables.formats import estimate, number

ROWS_WITH_DOTS = 24  # up to which there is room for a dot per seed
_PITCH, _WITH_DOTS, _HEADING, _GAP = 0.148, 0.205, 0.155, 0.06  # inches


class _Row(NamedTuple):
    """A row of a forest. at: inches from the top. lines: of text."""

    at: float
    name: str
    text: str
    value: float
    low: float
    high: float
    verdict: str
    dots: Any


class _Placed(NamedTuple):
    """Rows, the names of groups with their places, and where the last row ends, in inches."""

    rows: list[_Row]
    heads: list[tuple[float, str]]
    bottom: float

    @property
    def height(self) -> float:
        """Return the height of the figure, with its axis and a label of two lines."""
        return self.bottom + 0.36 + LINE


def forest(  # noqa: PLR0913 - keywords
    frame: pd.DataFrame,
    *,
    label: str = "label",
    group: str | None = None,
    value: str = "share",
    margin: float = 0.05,
    width: float | str = TEXT,
    percent: bool = True,
    center: float = 0.0,
    limits: tuple[float, float] | None = None,
    axis: str = "difference from the baseline, % of the learned range",
) -> Drawing:
    """Draw effects as points with intervals, below each other.

    The axis holds the bulk of the effects: an interval that leaves it ends in an arrow.

    Args:
        frame: a row per effect with the columns `value`, `value`_low and `value`_high, and
            optionally verdict (colour and symbol), note (why there is no plain verdict) and dots
            (an array of the effects of seeds, drawn where there is room).
        label: the column that names a row.
        group: a column; rows of one group stand together below its name.
        value: the name of the effect's column.
        margin: shaded on both sides of `center`, in the unit of `value`; 0 or NaN: none.
        width: in inches, or a name such as "icml-column".
        percent: write effects times 100.
        center: where there is no effect.
        limits: of the axis, by default symmetric.
        axis: the label of the axis.
    """
    with style():
        scale = 100.0 if percent else 1.0
        placed = _placed(frame, label, group, value, scale, inches(width), signed=center == 0)
        figure = drawing(inches(width), placed.height)
        _forest(figure, placed, inches(width), axis, scale * margin, scale * center, limits)
        add_legend(figure, _verdict_keys(frame, margin, percent))
    return figure


def differences(runs: Runs, width: float | str = TEXT) -> Drawing | None:
    """Draw the difference of each variant from its baseline, task by task.

    In % of the learned range, with the margin shaded, and with a dot per seed where there is room.
    Of a metric without a good direction in its own units. None where nothing is compared.
    """
    frame = compare(runs)
    frame = frame[(frame.baseline != frame.variant) & (frame.baseline != "")]
    if frame.empty:
        return None
    frame = frame.assign(
        label=compared_names(frame),
        dots=[_seeds(runs, *row) for row in frame[["task", "variant", "baseline"]].to_numpy()],
    )
    if runs.directed:
        several = frame.label.nunique() > 1 or frame.task.nunique() == 1
        unit = metric_label(runs.metric) if runs.margin_in_metric else "% of the learned range"
        figure = forest(
            frame,
            label="label" if several else "task",
            group="task" if several else None,
            margin=runs.margin,
            width=width,
            percent=not runs.margin_in_metric,
            axis=f"difference from the baseline, {unit}",
        )
    else:
        figure = _in_units(frame, runs.metric, inches(width))
    return figure.about(
        "Differences from the baseline",
        "Mean of the differences paired by seed; all intervals hold at once with 95%."
        + (" Dots: one seed each." if len(frame) <= ROWS_WITH_DOTS else "")
        + (" Shaded: the margin." if runs.directed else ""),
    )


def _in_units(frame: pd.DataFrame, metric: str, width: float) -> Drawing:
    """Draw a forest per task, as each has units of its own."""
    axis = f"difference from the baseline, {metric_label(metric)}"
    with style():
        tasks = {
            task: _placed(rows, "label", None, "difference", 1.0, width)
            for task, rows in frame.groupby("task", sort=False)
            if task != ALL_TASKS
        }
        heights = [placed.height + LINE for placed in tasks.values()]
        figure = drawing(width, sum(heights))
        parts = stacked(figure, heights)
        for part, (task, placed) in zip(parts, tasks.items(), strict=True):
            ax = _forest(part, placed, width, axis)
            ax.set_title(wrapped(task, width), x=0, weight="bold")
    return figure


def _forest(
    part: Drawing | SubFigure,
    placed: _Placed,
    width: float,
    axis: str,
    margin: float = 0.0,
    center: float = 0.0,
    limits: tuple[float, float] | None = None,
) -> Axes:
    """Draw a forest into a figure or a part of one."""
    rows = placed.rows
    names = max((text_width(row.name) for row in rows), default=0.0) + 0.06
    values = max((text_width(row.text, SMALL) for row in rows), default=0.0) + 0.1
    plot = max(0.4, width - names - values)
    ends = np.array([(row.low, row.high) for row in rows]).reshape(-1, 2) - center
    shown = np.where(np.isfinite(ends), ends, np.array([[row.value - center] for row in rows]))
    reach = bulk(shown[:, 0], shown[:, 1], 1.8 * margin if margin > 0 else 0.0)
    low, high = limits or (center - reach, center + reach)
    ax = part.subplots()
    if margin > 0:
        ax.axvspan(center - margin, center + margin, color=MARGIN, linewidth=0, zorder=0)
    ax.axvline(center, color=INK, linewidth=0.6, zorder=1)
    _dots(ax, rows)
    for row in rows:
        _effect(ax, row, low, high)
    ax.set(xlim=(low, high), ylim=(placed.bottom, -0.02), ylabel="")
    ax.set_xlabel(wrapped(axis, plot + 2 * min(names, values) - 0.1))
    ticks = max(2, int(plot / (0.12 + text_width(f"+{max(abs(low), abs(high)):.0f}0"))))
    ax.xaxis.set_major_locator(MaxNLocator(min(ticks, 8), steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(lambda x, _: _tick(x, signed=center == 0))
    name_rows(ax, [row.at for row in rows], [row.name for row in rows])
    right = ax.secondary_yaxis("right")
    right.set_yticks([row.at for row in rows], [row.text for row in rows])
    right.spines["right"].set_visible(False)
    right.tick_params(length=0, labelsize=SMALL, pad=5)
    across = blended_transform_factory(part.transSubfigure, ax.transData)
    for at, name in placed.heads:
        head = ax.text(0.004, at, name, transform=across, weight="bold", va="center")
        head.set(in_layout=False, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4})
    return ax


def _placed(
    frame: pd.DataFrame,
    label: str,
    group: str | None,
    value: str,
    scale: float,
    width: float,
    *,
    signed: bool = True,
) -> _Placed:
    """Place the rows of a forest below each other."""
    dots = frame["dots"] if "dots" in frame and len(frame) <= ROWS_WITH_DOTS else None
    pitch = _PITCH if dots is None else _WITH_DOTS
    headed = group is not None and frame[group].nunique() > 1
    groups = list(frame.groupby(group, sort=False)) if headed else [("", frame)]
    indent = "\N{EN SPACE}" if headed else ""
    rows, heads, y = [], [], 0.0
    for name, members in groups:
        if headed:
            head = wrapped(name, 0.95 * width, bold=True)
            lines = 1 + head.count("\n")
            heads.append((y + _HEADING * lines / 2, head))
            y += _HEADING * lines
        for index, row in members.iterrows():
            effect, low, high = (scale * float(row[f"{value}{x}"]) for x in ("", "_low", "_high"))
            note = str(row.get("note", "") or "")
            text = wrapped(row[label], 0.36 * width)
            texts = _value_text(effect, low, high, note, signed=signed, room=0.3 * width)
            lines = max(text.count("\n"), texts.count("\n"))
            rows.append(
                _Row(
                    y + (LINE * lines + pitch) / 2,
                    "\n".join(indent + line for line in text.split("\n")),
                    texts,
                    effect,
                    low,
                    high,
                    str(row.get("verdict", "") or ""),
                    None if dots is None else scale * np.asarray(dots[index], float),
                )
            )
            y += pitch + LINE * lines
        y += _GAP if headed else 0.0
    return _Placed(rows, heads, y)


def _value_text(
    value: float, low: float, high: float, note: str, *, signed: bool, room: float
) -> str:
    if note == "identical" or math.isnan(value):
        return wrapped(note or "no value", room, SMALL)
    places = 1 if high - low < 10 else 0
    if math.isnan(low):
        places = 1 if abs(value) < 10 else 0
    text = estimate(value, low, high, sign=signed, places=places)
    if math.isnan(low) or note == "tasks disagree":
        text = f"{number(value, places, signed)}, {note}" if note else text
    if text_width(text, SMALL) > room:
        return wrapped(text, room, SMALL) if note else text.replace(" [", "\n[")
    return text


def _tick(x: float, *, signed: bool) -> str:
    return number(x, 0 if x == round(x) else 2 if abs(x) < 1 else 1, signed and x != 0)


def bulk(low: Any, high: Any, least: float) -> float:
    """Return the reach of a symmetric axis that holds most intervals `[n]`, at least `least`.

    It holds all of them unless one is more than 2.5 times as far as 90% of them.
    """
    reach = np.fmax(np.abs(low), np.abs(high))
    reach = reach[np.isfinite(reach)]
    if not len(reach) or not reach.max():
        return least or 1.0
    usual, most = np.quantile(reach, 0.9), reach.max()
    return float(max(least, 1.06 * (most if most <= 2.5 * usual else usual or most)))


def _seeds(runs: Runs, task: str, variant: str, baseline: str) -> Any:
    """Return the difference of each seed, in the unit of the row's share (or of the metric)."""
    tasks = [task] if task != ALL_TASKS else list(runs.normalised(variant))
    if baseline not in runs.versus or not tasks:
        return np.zeros(0)
    sizes = np.array([runs.size(name, variant) if runs.directed else 1.0 for name in tasks])
    scores = runs.paired(tasks, [variant, baseline]) / sizes[:, None, None]
    return (scores[:, 0] - scores[:, 1]).mean(axis=0)


def compared_names(frame: pd.DataFrame) -> list[str]:
    """Return a name per row: the variant, and what it is compared with where that differs.

    "a@rate=1" and "b@rate=1" differ in a and b.
    """
    names, others = [], []
    for variant, baseline in frame[["variant", "baseline"]].to_numpy():
        name, _, settings = variant.partition("@")
        other = baseline.removesuffix(f"@{settings}")
        names.append(f"{name} vs {other}" + f"@{settings}" * bool(settings))
        others.append(other)
    return names if len(set(others)) > 1 else list(frame.variant)


def _dots(ax: Axes, rows: Sequence[_Row]) -> None:
    """Draw a dot per seed below each interval."""
    dots = [
        (x, row.at + 0.062, row.verdict)
        for row in rows
        if row.dots is not None and len(row.dots) > 1
        for x in row.dots
    ]
    if dots:
        frame = pd.DataFrame(dots, columns=["x", "y", "verdict"])
        palette = {verdict: VERDICT_COLORS.get(verdict, QUIET) for verdict in frame.verdict}
        sns.stripplot(
            frame,
            x="x",
            y="y",
            hue="verdict",
            palette=palette,
            orient="h",
            native_scale=True,
            jitter=False,
            size=1.9,
            alpha=0.45,
            legend=False,
            ax=ax,
        )


def _effect(ax: Axes, row: _Row, low: float, high: float) -> None:
    if math.isnan(row.value):
        return
    color = VERDICT_COLORS.get(row.verdict, QUIET)
    if not math.isnan(row.low):
        inside = np.clip((row.low, row.high), low, high)
        ax.plot(inside, (row.at, row.at), color=color, solid_capstyle="butt", zorder=2)
    ends = [row.value if math.isnan(end) else end for end in (row.low, row.high)]
    for edge, mark, beyond in ((low, "<", ends[0] < low), (high, ">", ends[1] > high)):
        if beyond:
            ax.plot(edge, row.at, mark, color=color, markersize=3.5, clip_on=False)
    if low <= row.value <= high:
        hollow = row.verdict == "inconclusive" or math.isnan(row.low)
        ax.plot(row.value, row.at, **_symbol(row.verdict, hollow=hollow), zorder=3)


def _symbol(verdict: str, *, hollow: bool) -> dict[str, Any]:
    color = VERDICT_COLORS.get(verdict, QUIET)
    return {
        "marker": "X" if verdict == "failed" else "o",
        "color": color,
        "markerfacecolor": "white" if hollow else color,
        "markersize": 3.6,
        "markeredgewidth": 0.9,
    }


def _verdict_keys(frame: pd.DataFrame, margin: float, percent: bool) -> list[Artist]:
    present = set(frame["verdict"]) if "verdict" in frame else set()
    keys: list[Artist] = [
        Line2D([], [], label=name, **_symbol(name, hollow=name == "inconclusive"))
        for name in VERDICT_COLORS
        if name in present
    ]
    if margin > 0:
        keys.append(margin_key(f"within ±{100 * margin:g}%" if percent else f"within ±{margin:g}"))
    return keys

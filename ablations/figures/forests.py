"""Figures of effects with intervals: names at the left, values at the right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import blended_transform_factory

from ablations.comparison import compare
from ablations.errors import UserError
from ablations.figures import style
from ablations.figures.style import Drawing
from ablations.runs import ALL_TASKS, Runs
from ablations.scoring import Floats
from ablations.tables import TABLES
from ablations.tables.formats import decimals, estimate, number
from ablations.tables.kinds import study_of

ROWS_WITH_DOTS = 24  # up to this many rows, a dot per seed is drawn
SHARE = "% of the learned range"
_PITCH, _WITH_DOTS, _HEADING = 0.148, 0.205, 0.155  # inches


@style.applied()
def forest(  # noqa: PLR0913 - keywords
    frame: pd.DataFrame,
    *,
    label: str = "label",
    group: str | None = None,
    value: str = "share",
    margin: float = 0.05,
    width: float | str = style.TEXT,
    percent: bool = True,
    center: float = 0.0,
    limits: tuple[float, float] | None = None,
    axis: str = f"difference from the baseline, {SHARE}",
) -> Drawing:
    """Draw a row per effect: a point with its interval.

    The axis fits the bulk of the effects; an interval beyond its end has an arrow there. Groups
    have separate axes if effects are not in percent.

    Args:
        frame: a row per effect with the columns `value`, `value`_low and `value`_high. Optional
            columns: verdict (colour and symbol), note (shown if there is no interval) and dots (an
            array with the effect of each seed).
        label: the column with the names of rows.
        group: a column; the rows of a group are drawn below its name.
        value: the name of the effect's column.
        margin: shaded on both sides of `center`, in the unit of `value`; 0: none.
        width: in inches, or a name such as "icml-column".
        percent: multiply effects by 100.
        center: the value of no effect.
        limits: of the axis; default: symmetric.
        axis: the label of the axis.
    """
    total, scale = style.inches(width), 100.0 if percent else 1.0
    margin, center = scale * margin, scale * center
    rows = _rows(frame, label, group, value, scale, total)
    texts = [_value_text(row, signed=not center, room=0.33 * total) for row in rows.itertuples()]
    rows = rows.assign(text=texts)
    parts = [rows] if percent else [part for _, part in rows.groupby("group", sort=False)]
    placed = [_placed(part.reset_index(drop=True), total) for part in parts]
    present = set(rows.verdict)
    keys: list[Line2D | Patch] = [
        Line2D([], [], label=name, **_symbol(name))
        for name in style.VERDICT_COLORS
        if name in present
    ]
    if margin > 0:
        text = f"within ±{round(margin, decimals(margin)):,.10g}" + "%" * percent
        keys.append(Patch(facecolor=style.MARGIN, edgecolor="#d5dbe3", linewidth=0.4, label=text))
    heights = [bottom + 0.36 + style.LINE for _, bottom in placed]
    figure = style.framed(total, sum(heights), keys)
    axes = figure.subplots(len(placed), 1, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (of, bottom) in zip(axes, placed, strict=True):
        reach = bulk(of[["value", "low", "high"]].to_numpy().T - center, 1.8 * margin)
        ends = scale * np.array(limits) if limits else np.array((center - reach, center + reach))
        if margin > 0:
            ax.axvspan(center - margin, center + margin, color=style.MARGIN, linewidth=0, zorder=0)
        _panel(ax, of, bottom, total, axis, center, ends)
    return figure


def differences(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw the difference of each variant from its baseline, task by task.

    The unit is % of the learned range, with the margin shaded. Without a learned range it is the
    unit of the metric, with an axis per task. Up to ROWS_WITH_DOTS rows have a dot per seed.
    """
    frame = _compared(runs)
    ranged = runs.directed and bool(frame.share.notna().any())
    if not ranged:
        frame = frame[frame.task != ALL_TASKS]
    if len(frame) <= ROWS_WITH_DOTS:
        pairs = frame[["task", "variant", "baseline"]].to_numpy()
        frame = frame.assign(dots=[_seeds(runs, *pair, ranged=ranged) for pair in pairs])
    names = _names(frame, grouped=not ranged)
    units = _units(runs, ranged, "difference", "difference from the baseline")
    figure = forest(frame, width=width, **names, **units)
    return figure.about(
        "Differences from the baseline",
        "Mean of the differences paired by seed, with simultaneous 95% intervals."
        + (" Dots: one seed each." if "dots" in frame else "")
        + (" Shaded: the margin." if ranged else ""),
    )


def improvement(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw the probability that a run of a variant scores higher than a run of its baseline."""
    verdicts = _compared(runs).set_index(["task", "variant"])[["label", "verdict"]]
    frame = TABLES["improvement"](runs).join(verdicts, on=["task", "variant"])
    axis = "probability that a run scores higher than a run of the baseline, %"
    options: dict[str, Any] = {"margin": 0.0, "center": 0.5, "limits": (0, 1), "axis": axis}
    figure = forest(frame, value="improvement", width=width, **_names(frame), **options)
    return figure.about(
        "Probability of improvement",
        "Share of all pairs of runs in which the variant scores higher than its baseline, with its "
        "95% score interval (Newcombe 2006). Colours: the verdict on the difference.",
    )


def effects(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw the main effects of a factorial study with their intervals."""
    frame = TABLES["effects"](runs)
    frame = frame[(frame.kind == "main") & frame.effect.notna()]
    units = _units(runs, bool(frame.share.notna().any()), "effect", "effect")
    frame = frame.assign(label=frame.factor + "=" + frame.level)
    figure = forest(frame, group="task", width=width, **units)
    return figure.about(
        "Main effects",
        "Mean of the variants with a level minus mean of the variants with the reference level, "
        "with simultaneous 95% intervals.",
    )


def shares(runs: Runs, width: float | str = style.TEXT) -> Drawing:
    """Draw the share of each detail in the gap between two variants, with its interval.

    The unit is % of the learned range of the first variant, or the unit of the metric without one.
    """
    frame = TABLES["shares"](runs)
    frame = frame[frame.n > 0]
    sizes = frame.margin / runs.margin
    ranged = bool(sizes.notna().all())
    columns = ["share", "share_low", "share_high", "alone", "removed"]
    frame[columns] = frame[columns].div(sizes if ranged else 1.0, axis=0)
    frame = frame.assign(dots=list(frame[["alone", "removed"]].to_numpy()))
    units = _units(runs, ranged, "share", "share of the gap")
    figure = forest(frame, label="detail", group="task", width=width, **units)
    return figure.about(
        "Shares of the gap",
        "Shapley values over random orders, with simultaneous 95% intervals. Dots: the change when "
        "a detail is switched first, and when it is switched last.",
    )


# Data


def _compared(runs: Runs) -> pd.DataFrame:
    """Return the rows of the comparison that compare two variants, with a column `label`.

    If there are several baselines, the label names both: "a@rate=1 vs b".
    """
    frame = compare(runs)
    frame = frame[(frame.baseline != frame.variant) & frame.baseline.isin([*runs.versus])]
    if frame.empty:
        raise UserError(f"{study_of(runs)} has no comparison of two variants")
    settings = ["@" + variant.partition("@")[2] for variant in frame.variant]
    others = [b.removesuffix(s) for b, s in zip(frame.baseline, settings, strict=True)]
    labels = [f"{v} vs {b}" for v, b in zip(frame.variant, others, strict=True)]
    return frame.assign(label=labels if len(set(others)) > 1 else frame.variant)


def _names(frame: pd.DataFrame, *, grouped: bool = False) -> dict[str, Any]:
    """Return the columns with the names of rows and groups. With one variant, rows are tasks."""
    several = frame.label.nunique() > 1 or frame.task.nunique() == 1 or grouped
    return {"label": "label", "group": "task"} if several else {"label": "task"}


def _units(runs: Runs, ranged: bool, value: str, axis: str) -> dict[str, Any]:
    percent = ranged and not runs.margin_in_metric
    return {
        "value": "share" if ranged else value,
        "margin": runs.margin if ranged else 0.0,
        "percent": percent,
        "axis": f"{axis}, {SHARE if percent else style.metric_label(runs.metric)}",
    }


def _seeds(runs: Runs, task: str, variant: str, baseline: str, *, ranged: bool) -> Any:
    tasks = [task] if task != ALL_TASKS else runs.ranged(variant)
    sizes = np.array([runs.size(name, variant) if ranged else 1.0 for name in tasks])
    scores = runs.paired(tasks, [variant, baseline]) / sizes[:, None, None]
    return (scores[:, 0] - scores[:, 1]).mean(axis=0) if tasks else np.zeros(0)


# Forests


def _rows(
    frame: pd.DataFrame, label: str, group: str | None, value: str, scale: float, width: float
) -> pd.DataFrame:
    """Return the rows of a forest: group, name, value, low, high, verdict, note, dots."""
    frame = frame.reset_index(drop=True)
    headed = group is not None and frame[group].nunique() > 1
    indent, room = "\N{EN SPACE}" * headed, max(0.33 * width, 0.52 * width - 0.62)
    names = [style.wrapped(name, room).replace("\n", f"\n{indent}") for name in frame[label]]
    rows = pd.DataFrame({"group": frame[group] if headed else "", "name": names})
    rows["name"] = indent + rows.name
    ends = [value, f"{value}_low", f"{value}_high"]
    rows[["value", "low", "high"]] = scale * frame[ends].astype(float)
    rows = rows.assign(verdict=frame.get("verdict", ""), note=frame.get("note", ""), dots=None)
    if len(frame) <= ROWS_WITH_DOTS and "dots" in frame:
        rows["dots"] = [scale * np.asarray(x, float) for x in frame.dots]
    return rows


def _value_text(row: Any, *, signed: bool, room: float) -> str:
    if row.note == "identical" or math.isnan(row.value):
        return style.wrapped(row.note or "no learned range", room, style.SMALL)
    size = row.high - row.low if row.high > row.low else abs(row.value)
    places = max(0, 1 - math.floor(math.log10(size))) if 0 < size < math.inf else 0
    text = estimate(row.value, row.low, row.high, sign=signed, places=min(places, 4))
    if row.note and (math.isnan(row.low) or row.note == "tasks disagree"):
        text = f"{number(row.value, places, signed)}, {row.note}"
        return style.wrapped(text, room, style.SMALL)
    return text.replace(" [", "\n[") if style.text_width(text, style.SMALL) > room else text


def _placed(rows: pd.DataFrame, width: float) -> tuple[pd.DataFrame, float]:
    """Return the total height, and the rows with their positions.

    Columns: `at` is the position of a row; `head` and `head_at` are the name of its group and the
    name's position.
    """
    lines = rows[["name", "text"]].map(lambda text: text.count("\n")).max(axis=1)
    pitch = (_PITCH if rows.dots.isna().all() else _WITH_DOTS) + style.LINE * lines
    starts = (rows.group != rows.group.shift()) & (rows.group != "")
    head = pd.Series([style.wrapped(g, 0.95 * width, bold=True) for g in rows.group], rows.index)
    heights = starts * (_HEADING * (1 + head.str.count("\n")) + 0.06 * (rows.index > 0))
    bottoms = (pitch + heights).cumsum()
    return rows.assign(
        at=bottoms - pitch / 2, head=head.where(starts, ""), head_at=bottoms - pitch - _HEADING / 2
    ), float(bottoms.iloc[-1]) if len(rows) else 0.1


def _panel(
    ax: Axes,
    rows: pd.DataFrame,
    bottom: float,
    width: float,
    axis: str,
    center: float,
    ends: Floats,
) -> None:
    names = max(map(style.text_width, rows.name), default=0.0) + 0.06
    values = max((style.text_width(text, style.SMALL) for text in rows.text), default=0.0) + 0.1
    plot = max(0.4, width - names - values)
    low, high = ends.tolist()
    ax.axvline(center, color=style.INK, linewidth=0.6, zorder=1)
    _dots(ax, rows)
    for row in rows.itertuples():
        _effect(ax, row, low, high)
    ax.set(xlim=(low, high), ylim=(bottom, -0.02), ylabel="")
    ax.set_xlabel(style.wrapped(axis, plot + 2 * min(names, values) - 0.1))
    ticks = int(plot / (0.12 + style.text_width(f"+{max(abs(low), abs(high)):.0f}0")))
    ax.xaxis.set_major_locator(MaxNLocator(min(ticks, 8), steps=[1, 2, 2.5, 5, 10]))
    if ticks < 3:
        ax.set_xticks([center])
    ax.xaxis.set_major_formatter(
        lambda x, _: f"{x:+,.10g}".replace("-", "\N{MINUS SIGN}") if x and not center else f"{x:g}"
    )
    style.name_rows(ax, list(rows["at"]), list(rows.name))
    right = ax.secondary_yaxis("right")
    right.set_yticks(rows["at"], rows.text)
    right.spines["right"].set_visible(False)
    right.tick_params(length=0, labelsize=style.SMALL, pad=5)
    assert ax.figure is not None
    across = blended_transform_factory(ax.figure.transFigure, ax.transData)
    for at, name in rows.loc[rows["head"] != "", ["head_at", "head"]].itertuples(index=False):
        head = ax.text(0.004, at, name, transform=across, weight="bold", va="center")
        head.set(in_layout=False, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4})


def bulk(ends: Any, least: float) -> float:
    """Return the half width of a symmetric axis that fits most intervals `[ends, n]`.

    It fits all of them unless the farthest is beyond 2.5 times the 90% quantile.
    """
    reach = np.fmax.reduce(np.abs(ends), axis=0)
    reach = reach[np.isfinite(reach)]
    if not len(reach) or not reach.max():
        return least or 1.0
    usual, most = np.quantile(reach, 0.9), reach.max()
    return float(max(least, 1.06 * (most if most <= 2.5 * usual else usual or most)))


def _dots(ax: Axes, rows: pd.DataFrame) -> None:
    dots = rows[["at", "verdict", "dots"]].explode("dots", ignore_index=True).dropna()
    if dots.empty:
        return
    palette = {name: style.VERDICT_COLORS.get(name, style.QUIET) for name in dots.verdict}
    at = dots["at"] + 0.062
    style.dots(ax, dots.dots.astype(float), at, hue=dots.verdict, palette=palette)


def _effect(ax: Axes, row: Any, low: float, high: float) -> None:
    symbol = _symbol(row.verdict, known=not math.isnan(row.low))
    inside = np.clip((row.low, row.high), low, high)
    ax.plot(inside, (row.at, row.at), color=symbol["color"], solid_capstyle="butt", zorder=2)
    for edge, mark, beyond in (
        (low, "<", low - np.fmin(row.value, row.low)),
        (high, ">", np.fmax(row.value, row.high) - high),
    ):
        if beyond > 0:
            ax.plot(edge, row.at, mark, color=symbol["color"], markersize=3.5, clip_on=False)
    if low <= row.value <= high:
        ax.plot(row.value, row.at, **symbol, zorder=3)


def _symbol(verdict: str, *, known: bool = True) -> dict[str, Any]:
    """Return the symbol of a verdict; it is hollow if inconclusive or without an interval."""
    color = style.VERDICT_COLORS.get(verdict, style.QUIET)
    return {
        "marker": "X" if verdict == "failed" else "o",
        "color": color,
        "markerfacecolor": color if known and verdict != "inconclusive" else "white",
        "markersize": 3.6,
        "markeredgewidth": 0.9,
    }

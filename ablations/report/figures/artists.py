"""Marks and legend entries as artists of matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from ablations.report.figures.marks import (
    Band,
    Bar,
    Cell,
    Entry,
    Interval,
    Line,
    Mark,
    Matrix,
    Points,
    Rule,
    Span,
    Symbol,
    Text,
)
from ablations.report.figures.palette import COLORS, DASHES

_SYMBOLS: Mapping[Symbol, str] = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "x": "X",
    "star": "*",
    "stroke": "|",
    "left": "<",
    "right": ">",
}


def draw(axes: Axes, mark: Mark, narrow: bool) -> None:
    """Draw a mark; narrow: in a paper's smaller sizes."""
    match mark:
        case Line():
            _line(axes, mark, narrow)
        case Band():
            axes.fill_between(
                mark.x,
                mark.low,
                mark.high,
                color=_hex(mark.color),
                alpha=mark.alpha,
                linewidth=0,
                step="post" if mark.step else None,
            )
        case Interval():
            _interval(axes, mark, narrow)
        case Points():
            _symbols(axes, mark)
        case Bar():
            axes.barh(
                mark.y,
                mark.high - mark.low,
                left=mark.low,
                height=mark.height,
                color=_hex(mark.color),
                alpha=mark.alpha,
                linewidth=0,
            )
        case Rule():
            rule = axes.axvline if mark.along == "x" else axes.axhline
            rule(mark.at, color=_hex(mark.color), linewidth=mark.width, zorder=1)
        case Span():
            span, order = (axes.axvspan, 0) if mark.along == "x" else (axes.axhspan, -1)
            span(mark.low, mark.high, color=_hex(mark.color), zorder=order)
        case Text():
            axes.text(
                mark.x,
                mark.y,
                mark.text,
                va="center",
                fontsize=8.5,
                color=_hex(mark.color),
            )
        case Matrix():
            _matrix(axes, mark, narrow)


def _line(axes: Axes, mark: Line, narrow: bool) -> None:
    axes.plot(
        mark.x,
        mark.y,
        color=_hex(mark.color),
        linestyle=_dashes(mark.dash),
        linewidth=mark.width * (0.7 if narrow else 1),
        alpha=None if mark.alpha == 1 else mark.alpha,
        drawstyle="steps-post" if mark.step else "default",
        marker=_SYMBOLS[mark.symbol] if mark.symbol else None,
        markersize=3.5 if narrow else 4.5,
        markeredgewidth=0,
        zorder=2 if mark.alpha < 1 else 4 if mark.color == "v0" else 3,
    )


def _interval(axes: Axes, mark: Interval, narrow: bool) -> None:
    color = _hex(mark.color)
    if mark.low is not None and mark.high is not None:
        across, bar = (mark.y, axes.hlines) if mark.along == "x" else (mark.x, axes.vlines)
        bar(across, mark.low, mark.high, color=color, linewidth=mark.width, alpha=mark.alpha)
    if mark.symbol is not None:
        point = Points((mark.x,), (mark.y,), mark.color, mark.symbol, mark.size, 1.0, mark.hollow)
        _symbols(axes, point)
    if mark.label:
        axes.annotate(
            mark.label,
            (mark.x, mark.y),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=6.5 if narrow else 7.5,
            color=color,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.6},
        )


def _symbols(axes: Axes, mark: Points) -> None:
    color = _hex(mark.color)
    stroke = 2.0 if mark.symbol == "stroke" else 1.5 if mark.hollow else 0
    axes.plot(
        mark.x,
        mark.y,
        _SYMBOLS[mark.symbol],
        color=color,
        markerfacecolor="white" if mark.hollow else color,
        alpha=None if mark.alpha == 1 else mark.alpha,
        markersize=mark.size,
        mew=stroke,
        clip_on=False,
        zorder=3,
    )


def _matrix(axes: Axes, mark: Matrix, narrow: bool) -> None:
    for cell in mark.cells:
        _cell(axes, cell, min(mark.size, 6.5) if narrow else mark.size)


def _cell(axes: Axes, cell: Cell, size: float) -> None:
    corner = (cell.column - 0.48, cell.row - 0.45)
    fill, opacity = _hex(cell.fill), None if cell.opacity == 1 else cell.opacity
    axes.add_patch(Rectangle(corner, 0.96, 0.9, facecolor=fill, alpha=opacity, linewidth=0))
    if cell.framed:
        axes.add_patch(Rectangle(corner, 0.96, 0.9, fill=False, edgecolor=_hex("v0")))
    if cell.text:
        axes.text(
            cell.column,
            cell.row,
            cell.text,
            ha="center",
            va="center",
            fontsize=size,
            color=_hex(cell.ink),
            fontweight="bold" if cell.bold else "normal",
        )


def _hex(color: str) -> str:
    return COLORS[color].print if color in COLORS else color


def _dashes(place: int) -> Literal["-"] | tuple[float, tuple[float, ...]]:
    return (0, DASHES[place]) if DASHES[place] else "-"


def handle(entry: Entry) -> Artist:
    """Return a legend's entry."""
    color = _hex(entry.color)
    if entry.patch == "filled":
        return Patch(color=color, label=entry.label)
    if entry.patch:
        return Patch(fill=False, edgecolor=color, label=entry.label)
    if entry.symbol:
        symbol = _SYMBOLS[entry.symbol]
        return Line2D([], [], color=color, marker=symbol, lw=0, ms=4.5, label=entry.label)
    style, width = _dashes(entry.dash), entry.width
    return Line2D([], [], color=color, linestyle=style, linewidth=width, label=entry.label)

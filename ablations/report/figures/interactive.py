"""Figures for the page: traces and layouts of plotly, which charts.js gives the theme's colours.

A colour is "--name" or "--name/opacity", a variable of the page's CSS, or "#rrggbb". Every number
is rounded to six significant digits, and None where there is none.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ablations.records import Plan
from ablations.report.figures.marks import (
    Axis,
    Band,
    Bar,
    Entry,
    Figure,
    Interval,
    Line,
    Mark,
    Matrix,
    Panel,
    Points,
    Rule,
    Span,
    Symbol,
    Text,
)
from ablations.report.figures.palette import COLORS, DASHES, variant_styles
from ablations.report.series import families, ordered

Json: TypeAlias = dict[str, Any]

_FORMATS: Mapping[str, Json] = {
    "number": {},
    "steps": {"hoverformat": ",.4~g"},
    "share": {"tickformat": ".0%"},
}
LONG = 24  # letters of a name, which take the room of a third panel beside
_SYMBOLS: Mapping[Symbol, str] = {
    "stroke": "line-ns",
    "left": "triangle-left",
    "right": "triangle-right",
}


def chart(figure: Figure) -> Json:
    """Return a figure as JSON: a title, traces and a layout for each panel."""
    return {"panels": [_panel(figure, panel) for panel in figure.drawn]}


def legend(plan: Plan) -> list[Json]:
    """Return every variant once, with its family and the style of its lines."""
    styles = variant_styles(plan)
    groups = {
        variant: family.name for family in families(plan)[::-1] for variant in family.variants
    }
    return [
        {
            "name": variant,
            "family": groups[variant],
            "color": _color(styles[variant].color),
            "dash": _dash(styles[variant].dash),
        }
        for variant in ordered(plan)
        if variant in plan.variants
    ]


def columns(figure: Figure) -> int:
    """Return how many panels stand side by side where there is room."""
    panels = figure.drawn
    names = [text for panel in panels if panel.y.names for _, text in panel.y.ticks or ()]
    if any(len(line) > LONG for name in names for line in name.split("\n")):
        return 2
    if figure.columns in (2, 3) and len(panels) > 1:
        return figure.columns
    if names and not panels[0].square:
        return 4 if len(panels) == 4 else max(2, side_by_side(len(panels)))
    return side_by_side(len(panels))


def side_by_side(count: int) -> int:
    """Return how many of so many things stand in a row, so that rows come out even."""
    return {1: 1, 2: 2, 4: 2}.get(count, 3)


def title(panel: Panel) -> str:
    """Return the heading of a panel."""
    return ", ".join(filter(None, (panel.title, panel.group)))


# Panels


def _panel(figure: Figure, panel: Panel) -> Json:
    # The variants of a study have one legend on the page, whose entries are buttons.
    entries = () if figure.variants else figure.legend.groups.get(panel.group, ())
    named = len(entries) > 1
    traces = [trace for mark in panel.marks for trace in _traces(mark)]
    traces += [_key(entry) for entry in entries if named]
    layout: Json = {
        "height": _pixels(panel) + (18 * len(entries) + 30 if named else 0),
        "hovermode": "x unified" if _unified(panel) else "closest",
        "showlegend": named,
        "shapes": [shape for mark in panel.marks for shape in _shapes(mark)],
        "annotations": [note for mark in panel.marks for note in _annotations(panel, mark)],
        "xaxis": _axis(panel.x, "x"),
        "yaxis": _axis(panel.y, "y"),
    }
    return {"traces": traces, "layout": layout}


def _key(entry: Entry) -> Json:
    """Return a trace that is an entry of the legend alone."""
    symbol, color = entry.symbol or "square", _color(entry.color)
    mode = "markers" if entry.symbol or entry.patch else "lines"
    return {
        **_scatter(mode, [math.nan], [math.nan]),
        "name": _safe(entry.label),
        "line": {"color": color, "dash": _dash(entry.dash)},
        "marker": {"color": color, "symbol": _SYMBOLS.get(symbol, symbol)},
    }


def _unified(panel: Panel) -> bool:
    return any(isinstance(mark, Line) and mark.variant for mark in panel.marks)


def _pixels(panel: Panel) -> int:
    names = [text for _, text in panel.y.ticks or ()]
    if panel.square:
        return 150 + 62 * len(names)
    if panel.y.names:
        return 78 + (44 if any("\n" in name for name in names) else 34) * len(names)
    return 290 if _unified(panel) else 320


def _axis(axis: Axis, name: str) -> Json:
    low, high = axis.limits
    limits = {"range": [_number(low), _number(high)]} if None not in (low, high) else {}
    layout = {"title": {"text": _safe(axis.label)}, **_FORMATS[axis.format], **limits}
    layout |= {"rangemode": "tozero"} if (low, high) == (0, None) else {}
    layout |= {"side": "top"} if axis.above else {}
    layout |= {} if axis.turned else {"tickangle": 0}
    if axis.names:
        layout |= {"showgrid": False, "ticks": "", "tickfont": {"color": "--text"}}
        layout |= {"fixedrange": True} if name == "y" else {}
    if axis.ticks is None:
        return layout | {"nticks": axis.count if axis.count < 5 else axis.count + 2}
    places, texts = [at for at, _ in axis.ticks], [_safe(text) for _, text in axis.ticks]
    return layout | {"tickvals": _numbers(places), "ticktext": texts}


# Marks


def _traces(mark: Mark) -> Iterator[Json]:
    match mark:
        case Line():
            yield _line(mark)
        case Band():
            yield from _band(mark)
        case Interval():
            yield _interval(mark)
        case Points():
            symbol = _symbol(mark.symbol, mark.color, 2.2 * mark.size, mark.hollow)
            yield {
                **_scatter("markers", mark.x, mark.y),
                "marker": symbol | {"opacity": mark.alpha},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        case Bar():
            yield {
                "type": "bar",
                "orientation": "h",
                "textposition": "none",
                "y": [_number(mark.y)],
                "base": [_number(mark.low)],
                "x": [_number(mark.high - mark.low)],
                "width": mark.height,
                "marker": {"color": _color(mark.color, mark.alpha), "line": {"width": 0}},
                "showlegend": False,
                **_hover([mark.hover]),
            }
        case Matrix():
            yield _fields(mark)
        case Rule(along="x"):
            yield _unseen(mark.at, mark.at)
        case Span(along="x"):
            yield _unseen(mark.low, mark.high)


def _line(mark: Line) -> Json:
    trace = {
        **_scatter("lines+markers" if mark.symbol else "lines", mark.x, mark.y),
        "line": {
            "color": _color(mark.color, mark.alpha),
            "dash": _dash(mark.dash),
            "width": 1.3 * mark.width,
            "shape": "hv" if mark.step else "linear",
        },
        "showlegend": False,
        **_hover([f"{mark.variant}: {text}" if mark.variant else text for text in mark.hover]),
    }
    if mark.symbol:
        trace["marker"] = _symbol(mark.symbol, mark.color, 7, hollow=False)
    return trace | _owned(mark.variant)


def _band(mark: Band) -> Iterator[Json]:
    columns = [np.asarray(column, dtype=np.float64) for column in (mark.x, mark.low, mark.high)]
    x, low, high = np.array(columns)[:, np.isfinite(columns).all(axis=0)]
    if len(x) < 2:
        return
    if mark.step:
        x, low, high = np.repeat(x, 2)[1:], np.repeat(low, 2)[:-1], np.repeat(high, 2)[:-1]
    yield {
        **_scatter("lines", [*x, *x[::-1]], [*high, *low[::-1]]),
        "fill": "toself",
        "fillcolor": _color(mark.color, mark.alpha),
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        **_owned(mark.variant),
    }


def _interval(mark: Interval) -> Json:
    symbol = mark.symbol or "circle"
    size = 1.7 * mark.size if mark.symbol else 0
    trace = {
        **_scatter("markers", [mark.x], [mark.y]),
        "marker": _symbol(symbol, mark.color, size, mark.hollow),
        "showlegend": False,
        **_hover([mark.hover]),
    }
    if mark.low is not None and mark.high is not None:
        at = mark.x if mark.along == "x" else mark.y
        trace[f"error_{mark.along}"] = {
            "type": "data",
            "symmetric": False,
            "array": [_number(mark.high - at)],
            "arrayminus": [_number(at - mark.low)],
            "color": _color(mark.color, mark.alpha),
            "thickness": 1.1 * mark.width,
            "width": 0,
        }
    return trace


def _unseen(low: float, high: float) -> Json:
    """Return a trace that makes an axis hold these values: shapes do not."""
    unseen = {"opacity": 0, "hoverinfo": "skip", "showlegend": False}
    return {**_scatter("markers", [low, high], [math.nan] * 2), **unseen}


def _fields(mark: Matrix) -> Json:
    """Return what a reader points at: shapes, which are what is seen, have no texts."""
    return {
        "type": "heatmap",
        "x": [cell.column for cell in mark.cells],
        "y": [cell.row for cell in mark.cells],
        "z": [0] * len(mark.cells),
        "opacity": 0,
        "showscale": False,
        "hoverongaps": False,
        **_hover([cell.hover for cell in mark.cells]),
    }


def _shapes(mark: Mark) -> Iterator[Json]:
    match mark:
        case Rule():
            line = {"color": _color(mark.color), "width": mark.width}
            yield {"type": "line", "line": line, **_across(mark.along, mark.at, mark.at)}
        case Span():
            fill = {"fillcolor": _color(mark.color), "line": {"width": 0}, "layer": "below"}
            yield {"type": "rect", **fill, **_across(mark.along, mark.low, mark.high)}
        case Matrix():
            for cell in mark.cells:
                yield {
                    "type": "rect",
                    "x0": cell.column - 0.48,
                    "x1": cell.column + 0.48,
                    "y0": cell.row - 0.45,
                    "y1": cell.row + 0.45,
                    "fillcolor": _color(cell.fill, cell.opacity),
                    "line": {"color": "--v0", "width": 1.5 * cell.framed},
                    "layer": "below",
                }


def _across(along: str, low: float, high: float) -> Json:
    other = "y" if along == "x" else "x"
    ends = {f"{along}0": _number(low), f"{along}1": _number(high), f"{other}0": 0, f"{other}1": 1}
    return {f"{along}ref": along, f"{other}ref": "paper", **ends}


def _annotations(panel: Panel, mark: Mark) -> Iterator[Json]:
    match mark:
        case Text():
            right = panel.x.limits[1]
            outside = right is not None and mark.x > right
            yield {
                "x": 1 if outside else _number(mark.x),
                "xref": "paper" if outside else "x",
                "y": _number(mark.y),
                "xanchor": "left",
                **_written(mark.text, mark.color, 12),
            }
        case Matrix():
            for cell in mark.cells:
                if cell.text:
                    written = _written(cell.text, cell.ink, 12)
                    bold = {"text": f"<b>{written['text']}</b>"} if cell.bold else {}
                    yield {"x": cell.column, "y": cell.row, **written, **bold}


def _written(text: str, color: str, size: int) -> Json:
    font = {"size": size, "color": _color(color)}
    return {"text": _safe(text), "showarrow": False, "font": font}


# Parts of traces


def _scatter(mode: str, x: ArrayLike, y: ArrayLike) -> Json:
    return {"type": "scatter", "mode": mode, "x": _numbers(x), "y": _numbers(y)}


def _symbol(symbol: Symbol, color: str, size: float, hollow: bool) -> Json:
    outline = {"color": _color(color), "width": 2 if hollow or symbol == "stroke" else 0}
    fill = "--page" if hollow else _color(color)
    return {"symbol": _SYMBOLS.get(symbol, symbol), "color": fill, "size": size, "line": outline}


def _hover(texts: Sequence[str]) -> Json:
    if not any(texts):
        return {"hoverinfo": "skip"}
    return {"text": [_safe(text) for text in texts], "hovertemplate": "%{text}<extra></extra>"}


def _owned(variant: str) -> Json:
    """Return whose trace it is: charts.js leaves out those that the reader hides."""
    return {"meta": variant} if variant else {}


def _color(name: str, opacity: float = 1.0) -> str:
    token = f"--{name}" if name in COLORS else name
    return token if opacity == 1 else f"{token}/{opacity:g}"


def _dash(place: int) -> str:
    return ",".join(f"{2 * length:g}px" for length in DASHES[place]) or "solid"


def _safe(text: str) -> str:
    """Return a text of plotly, which knows some tags."""
    return html.escape(text, quote=False).replace("\n", "<br>")


def _number(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


def _numbers(values: ArrayLike | Iterable[float]) -> list[float | None]:
    return [_number(float(value)) for value in np.asarray(values, dtype=np.float64)]

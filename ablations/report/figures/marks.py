"""Figures as data: panels with marks, which `paper` draws for print and `interactive` for the page.

Positions are in the units of the axes, sizes in points, panels in inches. A colour is a name of
`palette.COLORS` or "#rrggbb". Needs no plotting library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = Sequence[float] | NDArray[np.float64] | NDArray[np.int64]
Direction = Literal["x", "y"]
Symbol = Literal[
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star",
    "stroke", "left", "right",
]  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A line through points.

    dash: a place in `palette.DASHES`. step: constant from each point to the next. symbol: at each
    point. hover: a text for each point. variant: whose line it is, which a reader of the page can
    hide.
    """

    x: Values
    y: Values
    color: str
    dash: int = 0
    width: float = 1.6
    alpha: float = 1.0
    step: bool = False
    symbol: Symbol | None = None
    variant: str = ""
    hover: tuple[str, ...] = ()


@dataclass(frozen=True)
class Band:
    """The area between two lines, where both are finite."""

    x: Values
    low: Values
    high: Values
    color: str
    alpha: float = 0.13
    step: bool = False
    variant: str = ""


@dataclass(frozen=True)
class Interval:
    """A point, and the bar from low to high through it.

    low, high: None where there is no interval. along: the axis that the bar is parallel to.
    symbol: of the point, None for a bar alone. hollow: a point that is not filled. label: what is
    written beside the point in print, and is part of `hover` on the page.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    color: str
    along: Direction = "x"
    width: float = 2.2
    alpha: float = 1.0
    symbol: Symbol | None = "circle"
    size: float = 6.0
    hollow: bool = False
    label: str = ""
    hover: str = ""


@dataclass(frozen=True)
class Points:
    """Symbols without a line, such as one for each seed."""

    x: Values
    y: Values
    color: str
    symbol: Symbol = "circle"
    size: float = 1.8
    alpha: float = 0.45
    hollow: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar in row y from low to high, `height` rows thick."""

    y: float
    low: float
    high: float
    color: str
    height: float = 0.6
    alpha: float = 1.0
    hover: str = ""


@dataclass(frozen=True)
class Rule:
    """A reference line at a value of an axis, across the panel."""

    at: float
    along: Direction = "x"
    color: str = "quiet"
    width: float = 0.9


@dataclass(frozen=True)
class Span:
    """A shaded part of an axis, across the panel."""

    low: float
    high: float
    along: Direction = "x"
    color: str = "margin"


@dataclass(frozen=True)
class Text:
    """A text that begins at a position."""

    x: float
    y: float
    text: str
    color: str = "quiet"


@dataclass(frozen=True)
class Cell:
    """A field of a matrix.

    fill: its colour, of some opacity. framed: with an outline. ink: of its text.
    """

    row: int
    column: int
    fill: str
    text: str = ""
    opacity: float = 1.0
    ink: str = "text"
    bold: bool = False
    framed: bool = False
    hover: str = ""


@dataclass(frozen=True)
class Matrix:
    """Fields in rows and columns, numbered from the upper left. size: of their texts."""

    cells: tuple[Cell, ...]
    size: float = 7.5


Mark: TypeAlias = Line | Band | Interval | Points | Bar | Rule | Span | Text | Matrix


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    limits: None for what the marks need. ticks: positions and their texts, () for those that suit.
    count: of such ticks, about. format: "steps" are 10k and 1M, a "share" 50%. names: the ticks are
    names of rows or columns, without marks or grid. above: at the upper edge. turned: texts that
    read upwards.
    """

    label: str = ""
    limits: tuple[float | None, float | None] = (None, None)
    ticks: tuple[tuple[float, str], ...] | None = None
    count: int = 5
    format: Literal["number", "steps", "share"] = "number"
    names: bool = False
    above: bool = False
    turned: bool = False


def rows(names: Sequence[str]) -> Axis:
    """Return the y axis of a panel with a row for each name, from above."""
    return Axis(limits=(len(names) - 0.4, -0.65), ticks=tuple(enumerate(names)), names=True)


@dataclass(frozen=True)
class Panel:
    """Axes and what is drawn in them, from the back to the front.

    group: of the variants or lines that it shows, the same as of its legend. width, height: in
    inches, of a figure that stands alone. frame: its edges. square: equal units.
    """

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    width: float
    height: float
    group: str = ""
    frame: tuple[Literal["left", "bottom"], ...] = ("left", "bottom")
    square: bool = False


@dataclass(frozen=True)
class Entry:
    """A line of a legend. symbol: instead of a stroke; patch: a field, filled or its outline."""

    label: str
    color: str
    dash: int = 0
    width: float = 1.8
    symbol: Symbol | None = None
    patch: Literal["", "filled", "outline"] = ""


@dataclass(frozen=True)
class Legend:
    """group -> entries, and where they stand in print.

    place: "beside" the row of panels that a group begins in, "inside" each panel, "above" the panel
    or on "top" of the figure. columns: side by side, of the last two.
    """

    groups: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    place: Literal["beside", "inside", "above", "top"] = "beside"
    columns: int = 1


@dataclass(frozen=True)
class Figure:
    """Panels under one title, row by row; None leaves a place empty.

    subject: what it is about, before the title in print. columns: panels side by side, None for
    all. beside, around: inches that names, legends and titles take. share: panels with the same
    y axis. narrowest: inches that a panel needs in a paper. variants: lines are those of variants,
    as in the legend of a study.
    """

    title: str
    caption: str
    panels: tuple[Panel | None, ...]
    subject: str = ""
    columns: int | None = None
    legend: Legend = Legend()
    beside: float = 0.0
    around: float = 0.65
    share: Literal["", "all", "row", "col"] = ""
    narrowest: float = 1.45
    variants: bool = True

    @property
    def drawn(self) -> tuple[Panel, ...]:
        """The panels that are there."""
        return tuple(panel for panel in self.panels if panel is not None)


def room(labels: Sequence[str]) -> float:
    """Return the inches that a legend of these labels takes beside a panel."""
    return 0.75 + 0.068 * max(map(len, labels), default=0)


def spread(values: Values, reach: float) -> NDArray[np.float64]:
    """Return offsets `[n]` within ±reach by rank, which keep dots apart, the same every time."""
    return reach * (np.argsort(np.argsort(values)) % 5 - 2) / 2

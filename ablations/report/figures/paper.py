"""Figures for print: SVG, PNG and PDF by matplotlib.

Same records, same bytes for SVG: fixed ids, no date. Text stays text: fonts in a PDF are Type 42.
"""

from __future__ import annotations

import functools
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, Formatter, MaxNLocator, PercentFormatter

from ablations.errors import UserError
from ablations.records import write_atomically
from ablations.report.figures import artists, legends
from ablations.report.figures.marks import Axis, Bar, Direction, Figure, Panel
from ablations.report.figures.palette import COLORS

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase
    from matplotlib.typing import RcKeyType

FORMATS = ("svg", "png", "pdf")

# A column or a line of text, in inches, as these styles of papers have it.
WIDTHS = {"icml-column": 3.25, "icml": 6.75, "neurips": 5.5, "iclr": 5.5, "jmlr": 6.0}
NARROWEST, WIDEST = 2.0, 20.0
LETTERS = 20  # of a line of a name in a paper

Settings: TypeAlias = "Mapping[RcKeyType, str | float | bool | int | list[str]]"
_STYLE: Settings = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "rl-ablations",
    "pdf.fonttype": 42,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "axes.linewidth": 0.8,
    "axes.edgecolor": COLORS["quiet"].print,
    "grid.color": COLORS["grid"].print,
    "grid.linewidth": 0.7,
    "savefig.dpi": 200,
}
# In a paper, whose own text is of 9 to 10 points.
_PAPER: Settings = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.5,
    "savefig.dpi": 300,
}
_METADATA: Mapping[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_FORMATTERS: Mapping[str, Callable[[], Formatter]] = {
    "steps": lambda: EngFormatter(sep=""),
    "share": lambda: PercentFormatter(1, decimals=0),
}


class _Drawing(Drawing):
    """A figure that is saved in the style it was drawn in, wherever it is saved.

    matplotlib asks only then which fonts a PDF gets, and whether text stays text.
    """

    def __init__(self, settings: Settings, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._settings = settings

    def savefig(self, *arguments: Any, **keywords: Any) -> None:
        with _style(self._settings):
            super().savefig(*arguments, **keywords)

    def draw(self, renderer: RendererBase) -> None:
        # To save, matplotlib draws all of it twice, the first time for the layout alone
        engine = self.get_layout_engine()
        if self.canvas.is_saving() and isinstance(engine, ConstrainedLayoutEngine):
            engine.execute(self)
        else:
            super().draw(renderer)


@contextmanager
def _style(settings: Settings) -> Iterator[None]:
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A character that no font has is a box, in an SVG the character itself.
        warnings.filterwarnings("ignore", r"Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def inches(width: float | str) -> float:
    """Return a width in inches, from a number or one of `WIDTHS`.

    Raises:
        UserError: for another name, and a number out of bounds.
    """
    try:
        number = WIDTHS[width] if isinstance(width, str) and width in WIDTHS else float(width)
    except ValueError:
        number = math.nan
    if not NARROWEST <= number <= WIDEST:
        raise UserError(
            f"a figure's width is {NARROWEST:g} to {WIDEST:g} inches, or one of "
            f"{', '.join(WIDTHS)}, not '{width}'"
        )
    return number


def draw(figure: Figure, width: float | str | None = None) -> Drawing:
    """Draw a figure.

    Args:
        figure: panels and what is in them.
        width: for a paper, in inches or one of `WIDTHS`, without title and caption; None for a
            figure that stands alone.

    Raises:
        UserError: for an unknown width.
    """
    narrow = None if width is None else inches(width)
    settings = {**_STYLE, **(_PAPER if narrow else {}), **_fallbacks(figure)}
    with _style(settings):
        drawing, axes, columns = _grid(figure, narrow, settings)
        for place, panel in enumerate(figure.panels):
            if panel is None:
                axes[place].set_axis_off()
                continue
            _panel(axes[place], panel, narrow is not None)
        for empty in axes[len(figure.panels) :]:
            empty.set_axis_off()
        _share_texts(axes, figure, columns, narrow is not None)
        if narrow is not None:
            legends.below(drawing, figure)
            return drawing
        legends.draw(drawing, axes, figure, columns)
        legends.write_titles(drawing, figure)
    return drawing


def write(
    figure: Figure,
    folder: Path,
    stem: str,
    formats: Sequence[str],
    width: float | str | None = None,
) -> list[Path]:
    """Draw a figure and write it as `<stem>.<format>`, each file whole or not at all.

    Raises:
        UserError: for an unknown width.
    """
    drawing = draw(figure, width)
    paths = [folder / f"{stem}.{format}" for format in formats]
    for path, format in zip(paths, formats, strict=True):
        write_atomically(path, encoded(drawing, format))
    return paths


def encoded(drawing: Drawing, format: str, dpi: float | None = None) -> bytes:
    """Return a drawing as the bytes of a file, without date and program."""
    data = io.BytesIO()
    drawing.savefig(data, format=format, metadata=_METADATA[format], dpi=dpi)
    return data.getvalue()


def broken(name: str) -> str:
    """Return a name in lines that a paper's narrow panels have room for."""
    if len(name) <= LETTERS - 2:
        return name
    lines = []
    for part in re.sub(r"(?<=.{5}[@,])", "\n", name, count=1).split("\n"):
        line = ""
        for piece in re.split(r"(?<=[_=/ ])", part) if len(part) > LETTERS else [part]:
            if line and len(line) + len(piece) > LETTERS:
                lines.append(line)
                line = ""
            line += piece
        lines.append(line)
    return "\n".join(line.strip() for line in lines)


# The grid of panels


def _grid(
    figure: Figure, width: float | None, settings: Settings
) -> tuple[_Drawing, list[Axes], int]:
    """Make a figure and its axes, row by row; return them and how many are in a row."""
    count = len(figure.panels)
    wanted = columns = min(figure.columns or count, count)
    if width is not None:
        aside = min(figure.beside, 0.4 * width)
        columns = max(1, min(columns, int((width - aside) / figure.narrowest)))
        columns = math.ceil(count / math.ceil(count / columns))
    lines = [figure.panels[k : k + columns] for k in range(0, count, columns)]
    heights = [max(_height(panel, width) for panel in line if panel) for line in lines]
    widths = [panel.width if panel else 0.0 for panel in lines[0]]
    widths = [x or max(widths) for x in widths]
    size = (sum(widths) + figure.beside, sum(heights) + figure.around)
    drawing = _Drawing(
        settings,
        figsize=size if width is None else (width, sum(heights) + 0.25),
        layout="constrained",
    )
    share = figure.share if columns == wanted and (width is None or figure.share != "col") else ""
    axes = drawing.subplots(
        len(lines),
        columns,
        squeeze=False,
        sharey=share or False,
        width_ratios=widths if len(set(widths)) > 1 else None,
        height_ratios=heights if len(set(heights)) > 1 else None,
    )
    return drawing, list(axes.flat), columns


def _height(panel: Panel, width: float | None) -> float:
    """Return a panel's height in inches; in a paper titles and labels are part of it."""
    if width is None:
        return panel.height
    names = [broken(text) for _, text in panel.y.ticks or ()]
    if panel.square:
        return 0.45 * len(names) + 1.0
    if panel.y.names:
        lines = max(name.count("\n") for name in names)
        return max(panel.height, (0.2 + 0.08 * lines) * len(names)) + 0.6
    return 0.7 * panel.height


def _panel(axes: Axes, panel: Panel, narrow: bool) -> None:
    axes.spines[[side for side in axes.spines if side not in panel.frame]].set_visible(False)
    for name, axis in (("x", panel.x), ("y", panel.y)):
        if not axis.names:
            getattr(axes, f"{name}axis").grid(visible=True)
            axes.set_axisbelow(True)
    if any(isinstance(mark, Bar) for mark in panel.marks):
        axes.use_sticky_edges = False  # or an axis would end where a bar does
        axes.margins(x=0.06)
    for mark in panel.marks:
        artists.draw(axes, mark, narrow)
    _axis(axes, panel.x, "x", narrow)
    _axis(axes, panel.y, "y", narrow)
    if panel.square:
        axes.set_aspect("equal")


def _axis(axes: Axes, axis: Axis, name: Direction, narrow: bool) -> None:
    axes.set(**{f"{name}lim": axis.limits})
    if axis.above:
        axes.tick_params(name, top=True, bottom=False, labeltop=True, labelbottom=False)
    if axis.names:
        axes.tick_params(name, length=0)
    ruler = getattr(axes, f"{name}axis")
    if axis.ticks is not None:
        texts = [broken(text) if narrow and axis.names else text for _, text in axis.ticks]
        ruler.set_ticks([at for at, _ in axis.ticks], texts, rotation=90 if axis.turned else 0)
        return
    ruler.set_major_locator(MaxNLocator(min(axis.count, 3) if narrow else axis.count))
    if axis.format in _FORMATTERS:
        ruler.set_major_formatter(_FORMATTERS[axis.format]())


def _share_texts(axes: Sequence[Axes], figure: Figure, columns: int, narrow: bool) -> None:
    """Write titles and labels, those that a neighbour has already once.

    Of a row whose panels are of one group its legend has the name.
    """
    panels = figure.panels
    for place, (here, panel) in enumerate(zip(axes, panels, strict=False)):
        if panel is None:
            continue
        first = place - place % columns
        above = panels[place - columns] if place >= columns else None
        below = panels[place + columns] if place + columns < len(panels) else None
        left = panels[place - 1] if place > first else None
        row = panels[first : first + columns]
        mixed = narrow or len({other.group for other in row if other is not None}) > 1
        titles = [
            "\n".join(filter(None, (other.title, broken(other.group) if mixed else "")))
            for other in (panel, above)
            if other is not None
        ]
        if titles[0] not in titles[1:]:
            here.set_title(titles[0], pad=8 if panel.x.above else None)
        if below is None or below.x.label != panel.x.label:
            here.set_xlabel(panel.x.label)
        if left is None or left.y.label != panel.y.label:
            label = panel.y.label
            here.set_ylabel(label.replace(" (", "\n(") if panel.height < 2 else label)


def _fallbacks(figure: Figure) -> Settings:
    """Name further fonts of this machine for characters that matplotlib's own lacks."""
    # The lines of an array end in a line break, of which no font has a glyph.
    letters = set(repr(figure)) - {"\n"}
    lacking = {ord(letter) for letter in letters} - _codes(font_manager.findfont("DejaVu Sans"))
    families = []
    for font in font_manager.fontManager.ttflist if lacking else ():
        # One of matplotlib's has a box for every character.
        if (has := lacking & _codes(font.fname)) and "Last Resort" not in font.name:
            families.append(font.name)
            lacking -= has
    return {"font.family": ["DejaVu Sans", *families]} if families else {}


@functools.cache
def _codes(path: str) -> frozenset[int]:
    """Return the code points of which a font has a glyph."""
    return frozenset(font_manager.get_font(path).get_charmap())

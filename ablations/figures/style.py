"""The style of all figures: sizes, fonts, colours, panels, legends and files.

Sizes are in inches. Text is measured before it is placed, so that names are wrapped and never cut.
"""

from __future__ import annotations

import functools
import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path
from matplotlib.ticker import EngFormatter, MaxNLocator
from matplotlib.transforms import Bbox

from ablations.errors import UserError, unknown
from ablations.records import write_atomically

FORMATS = ("svg", "png", "pdf")
# A column or a line of text in the styles of these papers.
WIDTHS = {"icml-column": 3.25, "icml": 6.75, "neurips": 5.5, "iclr": 5.5, "jmlr": 6.0}
COLUMN, TEXT = 3.25, 5.5
NARROWEST, WIDEST = 2.0, 20.0

SIZE, SMALL, LINE = 7.5, 6.5, 0.148  # points of text, points of small text, inches of a line
INK, QUIET, GRID, MARGIN = "#222222", "#6b6b6b", "#e8e8e8", "#e9edf2"
# Okabe and Ito (2008) without black and yellow, and a grey; baselines are dark grey.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8c8c8c")
DASHES: tuple[Any, ...] = ("", (4.5, 1.3), (1.4, 1.1), (4.5, 1.2, 1.2, 1.2))  # "": solid
VERDICT_COLORS = {
    "better": "#009E73",
    "worse": "#D55E00",
    "equivalent": "#0072B2",
    "inconclusive": "#7f7f7f",
    "failed": "#CC79A7",
}
# Fonts for the characters that the first ones lack, where they are installed.
_FURTHER = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Thai", "Noto Emoji")
_RC: Mapping[str, Any] = {
    "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.labelsize": SIZE,
    "legend.fontsize": SIZE,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "text.color": INK,
    "text.parse_math": False,
    "axes.labelcolor": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.edgecolor": "#9a9a9a",
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 3,
    "axes.labelpad": 2,
    "xtick.bottom": True,
    "xtick.major.size": 2,
    "ytick.major.size": 0,
    "xtick.major.width": 0.6,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "lines.linewidth": 1.1,
    "legend.frameon": False,
    "savefig.dpi": 300,
    "figure.dpi": 100,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "ablations",
}
_METADATA: Mapping[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in this style; settings made elsewhere come back afterwards."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from")
        mpl.rcdefaults()
        further = {**_RC, "font.family": _fonts()[0]}
        sns.set_theme(context="paper", style="white", palette=COLORS, rc=further)
        yield


def inches(width: float | str) -> float:
    """Return a width in inches, from a number or one of `WIDTHS`.

    Raises:
        UserError: another name, or a number out of bounds.
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


# Text


@functools.cache
def _fonts() -> tuple[list[str], list[str]]:
    """Return the families for matplotlib, and those of them that are installed."""
    installed = {font.name for font in fontManager.ttflist}
    further = [name for name in _FURTHER if name in installed]
    first = next(name for name in _RC["font.sans-serif"] if name in installed)
    return ["sans-serif", *further], list(dict.fromkeys([first, *further]))


@functools.lru_cache(maxsize=8192)
def _measured(text: str, size: float, bold: bool) -> float:
    font = FontProperties(family=_fonts()[1], size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] / 72)


def text_width(text: str, size: float = SIZE, *, bold: bool = False) -> float:
    """Return the width of the longest line of a text."""
    return max((_measured(line, size, bold) for line in text.split("\n")), default=0.0)


def words(name: object) -> str:
    """Return a name with spaces: "done_cut@learning_rate=1" is "done cut, learning rate = 1"."""
    text = re.sub(r"(?<=\w)@(?=\w)", ", ", str(name).replace("_", " "))
    return " ".join(re.sub(r"(?<=\w)=(?=[\w.+-])", " = ", text).split())


def wrapped(text: object, room: float, size: float = SIZE, *, bold: bool = False) -> str:
    """Return a text on lines that are at most `room` wide, as even as they can be.

    A word that is wider by itself is broken.
    """
    pieces: list[str] = []
    for piece in words(text).split(" "):
        part = ""
        for letter in piece:
            if part and _measured(part + letter, size, bold) > room:
                pieces.append(part)
                part = ""
            part += letter
        pieces.append(part)
    widths = [_measured(piece, size, bold) for piece in pieces]
    space = _measured("a b", size, bold) - _measured("ab", size, bold)
    lines = narrower = _filled(pieces, widths, space, room)
    while len(lines) > 1 and len(narrower) == len(lines) and max(widths) <= 0.96 * room:
        lines, room = narrower, 0.96 * room
        narrower = _filled(pieces, widths, space, room)
    return "\n".join(lines)


def _filled(pieces: Sequence[str], widths: Sequence[float], space: float, room: float) -> list[str]:
    lines, used = [pieces[0]], widths[0]
    for piece, width in zip(pieces[1:], widths[1:], strict=True):
        used += space + width
        if used <= room:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
            used = width
    return lines


def metric_label(metric: str) -> str:
    """Return a metric for an axis: "training/return" is "return (training)"."""
    where, _, what = metric.rpartition("/")
    return f"{words(what)} ({words(where)})" if where else words(what)


# Variants


class Look(NamedTuple):
    """The colour and the dashes of a variant, as seaborn takes them."""

    color: str
    dashes: Any = ""


def looks_of(groups: Iterable[Sequence[str]]) -> dict[str, Look]:
    """Return variant -> its look. The first of each group is its baseline, which is dark."""
    looks: dict[str, Look] = {}
    for head, *others in groups:
        looks[head] = Look(INK)
        for i, variant in enumerate(others):
            looks[variant] = Look(COLORS[i % len(COLORS)], DASHES[i % len(DASHES)])
    return looks


def line_key(label: str, look: Look, width: float = 1.2) -> Line2D:
    """Return an entry of a legend."""
    dashes: Any = (0, look.dashes) if look.dashes else "-"
    return Line2D([], [], color=look.color, linestyle=dashes, linewidth=width, label=label)


# Figures


class Drawing(Figure):
    """A figure with a title and a caption, which are metadata, saved in this style.

    matplotlib asks for fonts and resolution when a figure is saved, not when it is drawn.
    """

    title: str = ""
    caption: str = ""

    def about(self, title: str, caption: str) -> Drawing:
        """Set title and caption; return the figure."""
        self.title, self.caption = title, caption
        return self

    def savefig(self, *arguments: Any, **options: Any) -> None:
        """Save the figure, as matplotlib does."""
        with style():
            super().savefig(*arguments, **options)


class _Layout(ConstrainedLayoutEngine):
    """A layout without its last bits, which differ from process to process."""

    def execute(self, fig: Figure) -> None:
        super().execute(fig)
        for ax in fig.get_axes():
            points = ax.get_position(original=True).get_points().round(6)
            ax.set_position(Bbox(points), which="original")
            ax.set_in_layout(True)  # set_position ends that


def drawing(width: float, height: float) -> Drawing:
    """Return an empty figure."""
    layout = _Layout(h_pad=0.02, w_pad=0.02, hspace=0.02, wspace=0.02)
    return Drawing(figsize=(width, height), layout=layout)


def stacked(figure: Drawing, heights: Sequence[float]) -> Sequence[Drawing | SubFigure]:
    """Return parts of a figure, one below the other: the figure itself where there is one."""
    if len(heights) == 1:
        return [figure]
    return list(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])


class Group(NamedTuple):
    """Panels that stand together below their legend. titles: one per panel."""

    titles: Sequence[str]
    keys: Sequence[Artist] = ()


def panels(
    groups: Sequence[Group],
    width: float,
    height: float,
    *,
    least: float = 1.3,
    x: str = "",
    y: str = "",
    share: bool = False,
    aside: float = 0.0,
) -> tuple[Drawing, list[list[Axes]]]:
    """Return a figure, and the panels of each group.

    Args:
        groups: one below the other.
        width: of the figure.
        height: of a panel with its tick labels.
        least: the width that a panel needs.
        x: the label of the axes at the lower edge of a group.
        y: the label of the axes at the left edge.
        share: all panels of a group have one y axis.
        aside: the width of names at the left of the first column.
    """
    columns = min(_columns(len(group.titles), width - aside, least) for group in groups)
    room = (width - aside) / columns - 0.12
    beside = 0.45  # tick labels, at whose right the title begins
    titles = [[wrapped(text, room - beside) for text in group.titles] for group in groups]
    legends = [_fitted(group.keys, width) for group in groups]
    below = wrapped(x, room)
    heights = []
    for texts, (_, _, lines) in zip(titles, legends, strict=True):
        rows = [texts[i : i + columns] for i in range(0, len(texts), columns)]
        headings = sum(max(_lines(text) for text in row) for row in rows)
        height_of = height * len(rows) + LINE * (headings + lines + _lines(below)) + 0.08
        heights.append(height_of)
    figure = drawing(width, sum(heights))
    parts = stacked(figure, heights)
    grids = []
    for part, texts, fitted in zip(parts, titles, legends, strict=True):
        shape = math.ceil(len(texts) / columns), columns
        grid = part.subplots(*shape, squeeze=False, sharey=share)
        axes = list(grid.flat)
        for i, ax in enumerate(axes):
            if i >= len(texts):
                ax.remove()
                continue
            ax.set_title(texts[i])
            if i + columns >= len(texts):
                ax.set_xlabel(below)
                ax.xaxis.set_tick_params(labelbottom=True)
            if i % columns == 0:
                ax.set_ylabel(wrapped(y, height - 0.1))
            ax.yaxis.set_major_locator(MaxNLocator(4))
            ax.xaxis.set_major_locator(MaxNLocator(3 if room < 2 else 5))
        _legend(part, *fitted)
        grids.append(axes[: len(texts)])
    return figure, grids


def _lines(text: str) -> int:
    return 1 + text.count("\n") if text else 0


def _columns(count: int, width: float, least: float) -> int:
    """Return how many panels stand side by side: as many as fit, with few places left empty."""
    most = max(1, min(count, int(width / least)))
    fewest = [math.ceil(count / columns) * columns - count for columns in range(1, most + 1)]
    even = max(c for c in range(1, most + 1) if fewest[c - 1] == min(fewest))
    return even if 2 * even > most else most


def add_legend(figure: Drawing, keys: Sequence[Artist]) -> None:
    """Put a legend above all panels, and make the figure higher by its rows."""
    fitted = _fitted(keys, figure.get_figwidth())
    figure.set_figheight(figure.get_figheight() + LINE * fitted[2])
    _legend(figure, *fitted)


def _fitted(keys: Sequence[Artist], width: float) -> tuple[Sequence[Artist], int, int]:
    """Wrap the labels of a legend; return its entries, columns and lines of text."""
    beside = 0.3  # the sample and the spaces of an entry
    labels = [wrapped(key.get_label(), width - beside - 0.1) for key in keys]
    for key, label in zip(keys, labels, strict=True):
        key.set_label(label)
    widths = [text_width(label) + beside for label in labels]
    for columns in range(len(keys), 0, -1):
        rows = math.ceil(len(keys) / columns)
        parts = [slice(i, i + rows) for i in range(0, len(keys), rows)]
        if columns == 1 or sum(max(widths[part]) for part in parts) < width - 0.1:
            lines = max(sum(map(_lines, labels[part])) for part in parts)
            return keys, len(parts), lines
    return keys, 1, 0


def _legend(part: Drawing | SubFigure, keys: Sequence[Artist], columns: int, _: int) -> None:
    if keys:
        part.legend(
            handles=keys,
            loc="outside upper left",
            ncols=columns,
            handlelength=1.5,
            handletextpad=0.4,
            columnspacing=1.0,
            labelspacing=0.25,
            borderaxespad=0.2,
            borderpad=0.2,
        )


def margin_key(label: str) -> Patch:
    """Return the entry of a legend for a shaded margin."""
    return Patch(facecolor=MARGIN, edgecolor="#d5dbe3", linewidth=0.4, label=label)


def steps_axis(ax: Axes) -> None:
    """Write steps as 100k or 2M."""
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))


def name_rows(ax: Axes, at: Sequence[float], names: Sequence[str]) -> None:
    """Write names at the left of rows, aligned at their left as in a table."""
    ax.set_yticks(at, names)
    ax.tick_params("y", pad=72 * max(map(text_width, names), default=0.0) + 5, labelsize=SIZE)
    for label in ax.get_yticklabels():
        label.set_horizontalalignment("left")
    ax.grid(axis="y", visible=False)
    ax.spines["left"].set_visible(False)


# Files


def encoded(figure: Figure, format: str, dpi: float | None = None) -> bytes:
    """Return a figure as the bytes of a file, without date and program.

    Raises:
        UserError: an unknown format.
    """
    if format not in FORMATS:
        raise unknown("figure format", format, FORMATS)
    data = io.BytesIO()
    figure.savefig(data, format=format, metadata=_METADATA[format], dpi=dpi)
    return data.getvalue()


def write(figure: Figure, path: str | Path, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Write a figure as `<path>.<format>` for each format; return the paths.

    Raises:
        UserError: an unknown format.
    """
    data = [encoded(figure, format) for format in formats]
    paths = [Path(f"{path}.{format}") for format in formats]
    for file, content in zip(paths, data, strict=True):
        write_atomically(file, content)
    return paths

"""The style of all figures: fonts, colours, wrapped text, panels, legends and files.

Sizes are in inches. Text is measured first, so that long names are wrapped and never cut.
"""

from __future__ import annotations

import functools
import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import EngFormatter, MaxNLocator
from matplotlib.transforms import Bbox

from ablations.errors import UserError, unknown
from ablations.records import write_atomically

FORMATS = ("svg", "png", "pdf")
# The width of a column or of the text in the styles of these venues.
WIDTHS = {"icml-column": 3.25, "icml": 6.75, "neurips": 5.5, "iclr": 5.5, "jmlr": 6.0}
NARROWEST, WIDEST = 2.0, 20.0
TEXT = 5.5

SIZE, SMALL, LINE = 7.5, 6.5, 0.148  # text and small text in points, height of a line in inches
INK, QUIET, GRID, MARGIN = "#222222", "#6b6b6b", "#e8e8e8", "#e9edf2"
# Okabe and Ito (2008) without black and yellow, and a grey; baselines are dark.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8c8c8c")
DASHES: tuple[Any, ...] = ((), (4.5, 1.3), (1.4, 1.1), (4.5, 1.2, 1.2, 1.2))  # (): solid
VERDICT_COLORS = {
    "better": "#009E73",
    "worse": "#D55E00",
    "equivalent": "#0072B2",
    "inconclusive": "#7f7f7f",
    "failed": "#CC79A7",
}
_SANS = ("Helvetica", "Arial", "Liberation Sans", "DejaVu Sans")
# Fonts for further characters, if they are installed.
_FURTHER = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Thai", "Noto Emoji")
_RC: Mapping[str, Any] = {
    "font.sans-serif": _SANS,
    "text.parse_math": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#9a9a9a",
    "axes.formatter.useoffset": False,
    "axes.labelpad": 2,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 3,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "legend.fontsize": SIZE,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "xtick.bottom": True,
    "xtick.major.pad": 2,
    "xtick.major.size": 2,
    "xtick.major.width": 0.6,
    "ytick.major.pad": 2,
    "savefig.dpi": 300,
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
def applied() -> Iterator[None]:
    """Draw in this style and restore the previous settings afterwards. Also a decorator."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from")
        mpl.rcdefaults()
        fonts: Any = ["sans-serif", *_fonts()[1:]]
        sns.set_theme("paper", "whitegrid", COLORS, fonts, font_scale=SIZE / 9.6, rc=_RC)
        yield


def inches(width: float | str) -> float:
    """Return a width in inches, from a number or one of `WIDTHS`.

    Raises:
        UserError: another name, or a number out of bounds.
    """
    number = float(WIDTHS.get(str(width), pd.to_numeric(width, errors="coerce")))
    if not NARROWEST <= number <= WIDEST:
        raise UserError(
            f"--width '{width}': expected {NARROWEST:g} to {WIDEST:g} inches, or one of "
            f"{', '.join(WIDTHS)}"
        )
    return number


# Text


@functools.cache
def _fonts() -> list[str]:
    installed = {font.name for font in fontManager.ttflist}
    sans = next(name for name in _SANS if name in installed)
    return [sans, *(name for name in _FURTHER if name in installed)]


@functools.cache
def text_width(text: str, size: float = SIZE, bold: bool = False) -> float:
    """Return the width in inches of the longest line of a text with a font of `size` points."""
    font = FontProperties(family=_fonts(), size=size, weight="bold" if bold else "normal")
    lines = text.split("\n")
    return max(text_to_path.get_text_width_height_descent(x, font, False)[0] for x in lines) / 72


def words(name: object) -> str:
    """Return a name with spaces: "done_cut@learning_rate=1" is "done cut, learning rate = 1"."""
    text = re.sub(r"(?<=\w)@(?=\w)", ", ", str(name).replace("_", " "))
    return " ".join(re.sub(r"(?<=\w)=(?=[\w.+-])", " = ", text).split())


def wrapped(text: object, room: float, size: float = SIZE, bold: bool = False) -> str:
    """Wrap a text to lines of about equal length that are at most `room` inches wide.

    A word is broken only if it is wider than that.
    """
    text = words(text)

    def width(line: str) -> float:
        return text_width(line, size, bold)

    broken = max(map(width, text.split(" "))) > room
    wraps = (
        textwrap.wrap(text, letters, break_long_words=broken, break_on_hyphens=False)
        for letters in range(1, len(text) + 1)
    )
    fitting = [lines for lines in wraps if max(map(width, lines)) <= room]
    fewest = min(fitting, key=len, default=[text])
    return "\n".join(fewest)


def metric_label(metric: str) -> str:
    """Return the label of a metric for an axis: "training/return" is "return (training)"."""
    where, _, what = metric.rpartition("/")
    return f"{words(what)} ({words(where)})" if where else words(what)


# Variants


class Look(NamedTuple):
    """The colour and the dashes of a line."""

    color: str
    dashes: Any = ()


def looks_of(groups: Iterable[Sequence[str]]) -> dict[str, Look]:
    """Return the look of each variant. The first of each group is its baseline, which is dark."""
    groups = list(groups)
    heads = list(dict.fromkeys(head for head, *_ in groups))
    others = [v for _, *rest in groups for v in rest if v not in heads]
    looks = {head: Look(INK, DASHES[i % len(DASHES)]) for i, head in enumerate(heads)}
    return looks | {
        variant: Look(COLORS[i % len(COLORS)], DASHES[i % len(DASHES)])
        for i, variant in enumerate(others)
    }


def line_key(label: str, look: Look, width: float | None = None) -> Line2D:
    """Return an entry of a legend. The default width is that of `looks_of` variants."""
    width = width or (1.7 if look.color == INK else 1.2)
    return Line2D([], [], color=look.color, dashes=look.dashes, linewidth=width, label=label)


# Figures


class Drawing(Figure):
    """A figure with a title and a caption, which are not drawn. It is saved in this style."""

    title: str = ""
    caption: str = ""

    def about(self, title: str, caption: str) -> Drawing:
        """Set title and caption."""
        self.title, self.caption = title, caption
        return self

    def savefig(self, *arguments: Any, **options: Any) -> None:
        """Save the figure in this style: matplotlib reads fonts and resolution only now."""
        with applied():
            super().savefig(*arguments, **options)


class _Layout(ConstrainedLayoutEngine):
    """A layout with rounded positions, as the last bits differ between processes."""

    def execute(self, fig: Figure) -> None:
        super().execute(fig)
        for ax in fig.get_axes():
            points = ax.get_position(original=True).get_points().round(6)
            ax.set_position(Bbox(points), which="original")
            ax.set_in_layout(True)  # set_position unsets it


def framed(width: float, height: float, keys: Sequence[Artist] = ()) -> Drawing:
    """Return a figure with a legend above a content of this height, in inches."""
    columns, lines = _fitted(keys, width)
    layout = _Layout(h_pad=0.02, w_pad=0.02, hspace=0.02, wspace=0.02)
    figure = Drawing(figsize=(width, height + LINE * lines), layout=layout)
    if keys:
        figure.legend(
            handles=keys, loc="outside upper left", ncols=columns, handlelength=1.5,
            handletextpad=0.4, columnspacing=1.0, labelspacing=0.25, borderaxespad=0.2,
            borderpad=0.2,
        )  # fmt: skip
    figure.subfigures()  # an empty frame, which published files have
    return figure


def _fitted(keys: Sequence[Artist], width: float) -> tuple[int, int]:
    """Wrap the labels of a legend; return its number of columns, and of lines of text."""
    if not keys:
        return 1, 0
    sample = 0.3  # width of the symbol and the spaces of an entry
    labels = [wrapped(key.get_label(), width - sample - 0.1) for key in keys]
    for key, label in zip(keys, labels, strict=True):
        key.set_label(label)
    for columns in range(len(keys), 0, -1):
        rows = math.ceil(len(keys) / columns)
        parts = [labels[i : i + rows] for i in range(0, len(keys), rows)]
        if columns == 1 or sum(text_width("\n".join(p)) + sample for p in parts) < width - 0.1:
            break
    return len(parts), max(sum(map(count_lines, part)) for part in parts)


def panels(
    titles: Sequence[str],
    width: float | str,
    height: float,
    *,
    labels: tuple[str, str] = ("", ""),
    keys: Sequence[Artist] = (),
    least: float = 1.3,
    share: bool = False,
    aside: float = 0.0,
) -> tuple[Drawing, list[Axes]]:
    """Return a figure and its panels, in rows of about equal length.

    Args:
        titles: one per panel.
        width: of the figure, in inches or a name such as "icml-column".
        height: of a panel with its tick labels.
        labels: below the lowest panels, and left of the first panel of each row.
        keys: entries of the legend.
        least: the width that a panel needs.
        share: whether the panels share their y axis.
        aside: the width of the names at the left of the first column.
    """
    total = inches(width)
    rows = math.ceil(len(titles) / max(1, int((total - aside) / least)))
    columns = math.ceil(len(titles) / rows)
    room = (total - aside) / columns - 0.12
    ticks = 0.1 if share else 0.38  # width of the tick labels, left of the title
    below, texts = wrapped(labels[0], room), [wrapped(text, room - ticks) for text in titles]
    in_rows = [texts[i : i + columns] for i in range(0, len(texts), columns)]
    lines = sum(max(map(count_lines, row)) for row in in_rows) + count_lines(below)
    figure = framed(total, height * len(in_rows) + LINE * lines + 0.08, keys)
    axes = list(figure.subplots(len(in_rows), columns, squeeze=False, sharey=share).flat)
    for ax in axes[len(texts) :]:
        ax.remove()
    for i, (ax, text) in enumerate(zip(axes, texts, strict=False)):
        ax.set_title(text)
        ax.set_xlabel(below if i + columns >= len(texts) else "")
        ax.set_ylabel(wrapped(labels[1], height - 0.1) if i % columns == 0 else "")
        ax.yaxis.set_major_locator(MaxNLocator(4))
        ax.xaxis.set_major_locator(MaxNLocator(3 if room < 2 else 5))
    return figure, axes[: len(texts)]


def count_lines(text: str) -> int:
    """Return the number of lines of a text; 0 if it is empty."""
    return 1 + text.count("\n") if text else 0


def steps_axis(ax: Axes) -> None:
    """Write steps as 100k or 2M."""
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))


def dots(ax: Axes, x: Any, y: Any, **options: Any) -> None:
    """Draw small dots without jitter."""
    common = {"orient": "h", "native_scale": True, "jitter": False, "legend": False}
    sns.stripplot(x=x, y=y, size=1.9, alpha=0.42, ax=ax, **common, **options)


def name_rows(ax: Axes, at: Sequence[float], names: Sequence[str]) -> None:
    """Write names at the left of rows, left-aligned."""
    ax.set_yticks(at, names)
    ax.tick_params("y", pad=72 * max(map(text_width, names), default=0.0) + 5, labelsize=SIZE)
    for label in ax.get_yticklabels():
        label.set_horizontalalignment("left")
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)


# Files


def encoded(figure: Figure, format: str, dpi: float | None = None) -> bytes:
    """Return a figure as the bytes of a file, without date and program name.

    Raises:
        UserError: an unknown format.
    """
    if format not in FORMATS:
        raise unknown("figure format", format, FORMATS)
    data = io.BytesIO()
    figure.savefig(data, format=format, metadata=_METADATA[format], dpi=dpi)
    if format == "svg":  # matplotlib writes a millionth of a point; curves are half as large
        return re.sub(rb"(\.\d\d)\d+(?![^<>]{0,99}</text)", rb"\1", data.getvalue())
    return data.getvalue()


def write(figure: Figure, path: str | Path, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Write a figure as `<path>.<format>` for each format; return the paths.

    Raises:
        UserError: an unknown format.
    """
    data = {Path(f"{path}.{format}"): encoded(figure, format) for format in formats}
    for file, content in data.items():
        write_atomically(file, content)
    return list(data)

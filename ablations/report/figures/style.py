"""What all figures share: colours, fonts, sizes, how variants differ, how files are written.

Same records, same bytes for SVG: fixed ids, no date. Text stays text: fonts in a PDF are Type 42.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from ablations.errors import UserError
from ablations.records import Plan, write_atomically
from ablations.report.series import families

FORMATS = ("svg", "png", "pdf")

# A column or a line of text, in inches, as these styles of papers have it.
WIDTHS = {"icml-column": 3.25, "icml": 6.75, "neurips": 5.5, "iclr": 5.5, "jmlr": 6.0}
NARROWEST, WIDEST = 2.0, 20.0

# In inches, while figures for a paper are drawn; None for those that stand alone.
_WIDTH: ContextVar[float | None] = ContextVar("width", default=None)

# Okabe & Ito 2008, without the yellow that vanishes on white; black is the baseline.
COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)), (0, (3, 1)))
VERDICT_COLORS = {
    "better": "#009E73",
    "worse": "#D55E00",
    "better, by an undecided amount": "#009E73",
    "worse, by an undecided amount": "#D55E00",
    "higher": "#0072B2",
    "lower": "#0072B2",
    "equivalent": "#0072B2",
    "identical": "#0072B2",
    "unstable": "#CC79A7",
    "unstable baseline": "#CC79A7",
    "tasks disagree": "#CC79A7",
}
UNDECIDED = "#7F7F7F"

_STYLE: dict[str, Any] = {
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
    "axes.edgecolor": "#444444",
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "savefig.dpi": 200,
}
# In a paper, whose own text is of 9 to 10 points.
_PAPER: dict[str, Any] = {
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
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def appearances(plan: Plan) -> dict[str, tuple[str, Any]]:
    """variant -> colour and dashes: its place in its group, the same in every figure."""
    return {
        variant: (COLORS[place % len(COLORS)], DASHES[place % len(DASHES)])
        for family in families(plan)
        for place, variant in enumerate(family.variants)
    }


def in_paper() -> bool:
    """Whether a figure is drawn for a paper: of a given width, without title and footnote."""
    return _WIDTH.get() is not None


class _Figure(Figure):
    """A figure that is saved in the style it was drawn in, wherever it is saved: matplotlib asks
    only then which fonts a PDF gets, and whether text stays text."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._paper = _WIDTH.get()

    def savefig(self, *arguments: Any, **keywords: Any) -> None:
        with style(self._paper):
            super().savefig(*arguments, **keywords)


def panels(
    count: int,
    each: tuple[float, float],
    *,
    beside: float = 0.0,
    around: float = 0.0,
    columns: int | None = None,
    least: float = 1.45,
    **subplots: Any,
) -> tuple[Figure, Any]:
    """A figure and its axes `[rows, columns]`, those beyond `count` empty.

    each: width and height of a panel in inches. beside: room for names or a legend at the sides.
    around: for what is above and below. columns: how many stand side by side, all by default. In a
    paper as many as have `least` inches each, in panels of the same shape but for the height of
    rows that `each` says.
    """
    columns = min(columns or count, count)
    width = _WIDTH.get()
    if width is None:
        rows = math.ceil(count / columns)
        size = (each[0] * columns + beside, each[1] * rows + around)
    else:
        columns = max(1, min(columns, int((width - min(beside, 0.4 * width)) / least)))
        rows = math.ceil(count / columns)
        columns = math.ceil(count / rows)
        size = (width, each[1] * rows + 0.5 * around)
    drawn = _Figure(figsize=size, layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False, **subplots)
    for empty in axes.flat[count:]:
        empty.set_axis_off()
    return drawn, axes


def line(name: str, look: tuple[str, Any]) -> Any:
    """A legend's entry."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=look[0], linestyle=look[1], linewidth=1.8, label=name)


def headed(families: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Legend entries of several families one after the other, each under its name."""
    from matplotlib.lines import Line2D

    found: list[Any] = []
    for name, handles in families.items():
        if name:
            found.append(Line2D([], [], linestyle="none", label=f"{name}:"))
        found += handles
    return found


def room(labels: Iterable[str]) -> float:
    """Inches that a legend of these labels takes beside a panel."""
    return 0.75 + 0.068 * max(map(len, labels), default=0)


def beside(panel: Any, handles: Sequence[Any], title: str | None = None) -> None:
    """A legend at the right of a panel."""
    panel.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.02),
        frameon=False,
        borderaxespad=0,
        handlelength=2.6,
        title=title,
        alignment="left",
    )


def legend(drawn: Figure, families: Mapping[str, Sequence[Any]]) -> None:
    """A legend under the panels of a figure for a paper, as many names in a row as there is room
    for; the figure grows by its height."""
    handles = headed(families)
    width, height = drawn.get_size_inches()
    longest = max(len(line) for one in handles for line in str(one.get_label()).split("\n"))
    columns = max(1, min(len(handles), int(width / (0.058 * longest + 0.5))))
    lines = math.ceil(len(handles) / columns)
    drawn.set_size_inches(width, height + 0.15 * lines + 0.1)
    drawn.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.2
    )


def names(axes: Any, labels: Sequence[str]) -> None:
    """The labels of rows, which all panels share."""
    axes.flat[0].set_yticks(range(len(labels)), [broken(one) for one in labels])


_LINE = 20  # letters of a line of a name


def broken(name: str) -> str:
    """A name of a variant, in a paper in several lines where it is long."""
    if not in_paper() or len(name) <= 18:
        return name
    lines = []
    for part in re.sub(r"(?<=.{5}[@,])", "\n", name, count=1).split("\n"):
        line = ""
        for piece in re.split(r"(?<=[_=/ ])", part) if len(part) > _LINE else [part]:
            if line and len(line) + len(piece) > _LINE:
                lines.append(line)
                line = ""
            line += piece
        lines.append(line)
    return "\n".join(line.strip() for line in lines)


def dots(panel: Any, values: Sequence[float], place: float, color: str) -> None:
    """A faint dot per seed in a row."""
    panel.plot(values, [place] * len(values), ".", color=color, alpha=0.45, markersize=3.5, mew=0)


def footnote(drawn: Figure, text: str) -> None:
    """A line under the figure, broken where the figure is too narrow for it; none in a paper."""
    if in_paper():
        return
    width = drawn.get_size_inches()[0]
    lines = textwrap.wrap(text, int(width * 16.5), break_long_words=False)
    drawn.supxlabel("\n".join(lines), fontsize=8, color="#666666")


def title(drawn: Figure, text: str) -> None:
    """The figure's title, broken where the figure is too narrow for it; none in a paper."""
    if in_paper():
        return
    width = drawn.get_size_inches()[0]
    lines = textwrap.wrap(text, int(width * 10.5), break_long_words=False)
    drawn.suptitle("\n".join(lines), fontsize=11, fontweight="bold")


def dress(panel: Any) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(visible=True)
    panel.set_axisbelow(True)


@contextmanager
def style(width: float | str | None = None) -> Iterator[None]:
    """What figures are drawn in. width: for a paper, in inches or one of `WIDTHS`."""
    token = _WIDTH.set(None if width is None else inches(width))
    try:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_STYLE | (_PAPER if in_paper() else {}))  # type: ignore[arg-type]
            yield
    finally:
        _WIDTH.reset(token)


def inches(width: float | str) -> float:
    """A width in inches, from a number or one of `WIDTHS`. Raises UserError for another."""
    try:
        found = WIDTHS[width] if isinstance(width, str) and width in WIDTHS else float(width)
    except ValueError:
        found = math.nan
    if not NARROWEST <= found <= WIDEST:
        raise UserError(
            f"a figure's width is {NARROWEST:g} to {WIDEST:g} inches, or one of "
            f"{', '.join(WIDTHS)}, not '{width}'"
        )
    return found


def save(drawn: Figure, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """Writes a figure in each format, each file whole or not at all."""
    written = []
    for format in formats:
        path = folder / f"{stem}.{format}"
        data = io.BytesIO()
        drawn.savefig(data, format=format, metadata=METADATA[format])
        write_atomically(path, data.getvalue())
        written.append(path)
    return written

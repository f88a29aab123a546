"""The style of all figures: colours, dashes, verdicts, panels, legends, and files for print.

Same records, same bytes for SVG: fixed ids, no date. Text stays text: fonts in a PDF are Type 42.
"""

from __future__ import annotations

import colorsys
import functools
import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import EngFormatter, MaxNLocator
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray

from ablations.core.verdict import Verdict
from ablations.errors import UserError
from ablations.records import Plan, write_atomically
from ablations.report.series import LINES_OF_A_PANEL, families

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase

FORMATS = ("svg", "png", "pdf")
# A column or a line of text, in inches, as these styles of papers have it.
WIDTHS = {"icml-column": 3.25, "icml": 6.75, "neurips": 5.5, "iclr": 5.5, "jmlr": 6.0}
NARROWEST, WIDEST = 2.0, 20.0
_ALONE = 5.0  # inches of a figure for which no width is given, at least
_LETTERS = 20  # of a line of a name
_LETTER = 0.068  # inches

# v0 to v7: Okabe & Ito 2008, without the yellow that vanishes on white; v0 is the baseline.
COLORS = {
    "quiet": "#444444",
    "faint": "#BBBBBB",
    "margin": "#EFEFEF",
    "better": "#009E73",
    "worse": "#D55E00",
    "equivalent": "#0072B2",
    "undecided": "#7F7F7F",
    "unstable": "#CC79A7",
    "up": "#0072B2",
    "down": "#D55E00",
    "v0": "#000000",
    "v1": "#0072B2",
    "v2": "#D55E00",
    "v3": "#009E73",
    "v4": "#CC79A7",
    "v5": "#E69F00",
    "v6": "#56B4E9",
    "v7": "#7F7F7F",
}
Dash: TypeAlias = Literal["-"] | tuple[float, tuple[float, ...]]
# Lengths of strokes and gaps in widths of the line.
DASHES: tuple[Dash, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (5, 1.5, 1.2, 1.5)),
    (0, (8, 2)),
    (0, (3, 1)),
)
_STYLE: Mapping[Any, object] = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "rl-ablations",
    "pdf.fonttype": 42,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.edgecolor": COLORS["quiet"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.5,
    "savefig.dpi": 300,
}
_METADATA: Mapping[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class Style(NamedTuple):
    """A variant's colour and dashes."""

    color: str
    dash: Dash = "-"


class VerdictStyle(NamedTuple):
    """Colour of a verdict; hollow where the amount is open; label: its name where room is short."""

    color: str
    hollow: bool = False
    label: str = ""


_OPEN = VerdictStyle(COLORS["undecided"], hollow=True)
_BETTER, _WORSE, _SAME, _UNSTABLE = (
    COLORS[name] for name in ("better", "worse", "equivalent", "unstable")
)
VERDICTS = {
    Verdict.BETTER: VerdictStyle(_BETTER),
    Verdict.WORSE: VerdictStyle(_WORSE),
    Verdict.BETTER_UNDECIDED: VerdictStyle(_BETTER, True, "better (amount undecided)"),
    Verdict.WORSE_UNDECIDED: VerdictStyle(_WORSE, True, "worse (amount undecided)"),
    Verdict.HIGHER: VerdictStyle(_SAME),
    Verdict.LOWER: VerdictStyle(_SAME),
    Verdict.HIGHER_UNDECIDED: VerdictStyle(_SAME, True, "higher (amount undecided)"),
    Verdict.LOWER_UNDECIDED: VerdictStyle(_SAME, True, "lower (amount undecided)"),
    Verdict.EQUIVALENT: VerdictStyle(_SAME),
    Verdict.IDENTICAL: VerdictStyle(_SAME),
    Verdict.UNSTABLE: VerdictStyle(_UNSTABLE),
    Verdict.UNSTABLE_BASELINE: VerdictStyle(_UNSTABLE),
    Verdict.UNSTABLE_REFERENCE: VerdictStyle(_UNSTABLE),
    Verdict.TASKS_DISAGREE: VerdictStyle(_UNSTABLE),
}


def verdict_style(verdict: Verdict | None) -> VerdictStyle:
    """Return how a verdict looks; as undecided where there is none, or too few seeds for any."""
    return VERDICTS.get(verdict, _OPEN) if verdict else _OPEN


def variant_styles(plan: Plan) -> dict[str, Style]:
    """Map each variant to its style: its place in its family, the same in every figure."""
    return {
        variant: Style(COLORS[f"v{place % LINES_OF_A_PANEL}"], DASHES[place % len(DASHES)])
        for family in families(plan)
        for place, variant in enumerate(family.variants)
    }


def shade(place: int, count: int) -> str:
    """Return the colour of one of `count` lines: the palette, or hues in order if it is short."""
    if count <= LINES_OF_A_PANEL:
        return COLORS[f"v{place}"]
    hue = (270 - 220 * place / (count - 1)) / 360
    red, green, blue = colorsys.hls_to_rgb(hue, 0.5, 0.65)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


# The figure


class Drawing(Figure):
    """A figure with a title and a caption, saved in this style wherever it is saved.

    matplotlib asks only then which fonts a PDF gets, and whether text stays text.
    """

    title: str = ""
    caption: str = ""

    def savefig(self, *arguments: Any, **keywords: Any) -> None:
        """Save it, as matplotlib does."""
        with _style():
            super().savefig(*arguments, **keywords)

    def draw(self, renderer: RendererBase) -> None:
        """Draw it; to save, matplotlib draws all of it twice, the first time for the layout."""
        engine = self.get_layout_engine()
        if self.canvas.is_saving() and isinstance(engine, ConstrainedLayoutEngine):
            engine.execute(self)
        else:
            super().draw(renderer)


class _Layout(ConstrainedLayoutEngine):
    """A layout without its last bits, which differ from process to process."""

    def execute(self, fig: Figure) -> None:
        """Move the axes to their places."""
        super().execute(fig)
        for axes in fig.axes:
            places = axes.get_position(original=True).get_points().round(6)
            axes.set_position(Bbox(places), which="original")
            axes.set_in_layout(True)  # set_position ends that


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A character that no font has is a box, in an SVG the character itself.
        warnings.filterwarnings("ignore", r"Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


Parameters = ParamSpec("Parameters")
Drawn = TypeVar("Drawn")


def styled(draw: Callable[Parameters, Drawn]) -> Callable[Parameters, Drawn]:
    """Make a function that draws a figure draw it in this style."""

    @functools.wraps(draw)
    def drawn(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Drawn:
        with _style():
            return draw(*arguments, **keywords)

    return drawn


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


def panels(
    count: int,
    width: float | str | None,
    size: tuple[float, float],
    *,
    columns: int,
    least: float = 1.45,
    names: Sequence[str] = (),
    share: Literal["none", "all", "row", "col"] = "none",
    ratios: Sequence[float] | None = None,
) -> tuple[Drawing, list[Axes]]:
    """Return a figure and its panels, row by row, as many side by side as have room.

    Args:
        count: panels.
        width: of the figure, in inches or one of `WIDTHS`; None for what its panels take.
        size: of a panel in inches, with its title and labels.
        columns: most panels side by side.
        least: inches that a panel needs.
        names: of the rows of the first panel, which stand to its left.
        share: "all", "row" or "col": panels with one y axis.
        ratios: of the widths of columns, which all have room.
    """
    aside = _LETTER * max((len(line) for name in names for line in name.split("\n")), default=0)
    wanted = min(columns, count)
    total = max(_ALONE, wanted * size[0] + aside) if width is None else inches(width)
    room = max(1, min(wanted, int((total - min(aside, 0.4 * total)) / least)))
    across = wanted if ratios else math.ceil(count / math.ceil(count / room))
    drawing = Drawing(
        figsize=(total, math.ceil(count / across) * size[1] + 0.25), layout="constrained"
    )
    axes = drawing.subplots(
        math.ceil(count / across),
        across,
        squeeze=False,
        sharey=share if across == wanted or share == "all" else "none",
        width_ratios=ratios,
    )
    for here in axes.flat[:count]:  # else layout and ticks would change each other
        here.xaxis.set_major_locator(MaxNLocator(4))
        here.yaxis.set_major_locator(MaxNLocator(5))
    for empty in axes.flat[count:]:
        empty.set_axis_off()
    return drawing, list(axes.flat[:count])


def finish(
    drawing: Drawing,
    title: str,
    caption: str,
    *,
    subject: str = "",
    legend: Mapping[str, Sequence[Artist]] | None = None,
    alone: bool = True,
) -> Drawing:
    """Write legend, title and caption; return the figure.

    Args:
        drawing: the figure.
        title: of the figure.
        caption: what it shows.
        subject: what it is about, before the title.
        legend: name of a group, which stands before it -> its lines.
        alone: with title and caption, which otherwise are where the figure is shown.
    """
    drawing.title, drawing.caption = title, caption
    _share_texts(drawing)
    width, height = drawing.get_size_inches()
    handles, columns = _headed(legend or {}, width)
    named = f"{subject}: {title[0].lower()}{title[1:]}" if subject else title
    heads = textwrap.wrap(named, int(11.5 * width), break_long_words=False) if alone else []
    feet = textwrap.wrap(caption, int(16.5 * width), break_long_words=False) if alone else []
    deep = math.ceil(len(handles) / columns)
    deep += min(deep, sum("\n" in str(handle.get_label()) for handle in handles))
    foot, below = 0.13 * len(feet) + 0.05 * bool(feet), 0.155 * deep + 0.08 * bool(deep)
    height += 0.18 * len(heads) + foot + below
    drawing.set_size_inches(width, height)
    share = (foot + below) / height
    drawing.set_layout_engine(_Layout(rect=(0, share, 1, 1 - share)))
    if heads:
        drawing.suptitle("\n".join(heads), fontsize=10, fontweight="bold")
    if feet:
        text = "\n".join(feet)
        drawing.text(0.5, 0.04 / height, text, ha="center", fontsize=7.5, color="#666666")
    if handles:
        drawing.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, share),
            borderaxespad=0,
            ncols=columns,
            frameon=False,
            handlelength=2.2,
        )
    _add_fonts(drawing)
    return drawing


def _headed(groups: Mapping[str, Sequence[Artist]], width: float) -> tuple[list[Artist], int]:
    """Return the entries of a legend column by column, and how many columns have room.

    Of several groups each begins with its name, in a column or below another group.
    """
    entries = [entry for group in groups.values() for entry in group]
    lines = [line for entry in entries for line in str(entry.get_label()).split("\n")]
    room = max(1, int(width / (0.063 * max(map(len, [*lines, *groups]), default=0) + 0.55)))
    if len(groups) < 2:
        return entries, max(1, min(len(entries), room))
    deep, columns = 1 + max(map(len, groups.values())), min(len(groups), room)
    per_column = math.ceil(len(groups) / columns)
    handles: list[Artist] = []
    for name, group in groups.items():
        blank = [_heading("") for _ in range(deep - 1 - len(group))]
        handles += [_heading(f"{name}:"), *group, *blank]
    handles += [_heading("") for _ in range(columns * per_column * deep - len(handles))]
    return handles, columns


def _heading(text: str) -> Line2D:
    return Line2D([], [], linestyle="none", label=text or " ")


def _share_texts(drawing: Drawing) -> None:
    """Leave out titles and labels that the neighbour above, below or to the left has too."""
    grid = drawing.axes[0].get_gridspec()
    assert grid is not None
    axes = np.array(drawing.axes).reshape(grid.get_geometry())
    titles, across, along = (
        np.array([[text(one) if one.axison else "" for one in row] for row in axes], dtype=object)
        for text in (Axes.get_title, Axes.get_xlabel, Axes.get_ylabel)
    )
    for here, above in zip(axes[1:].flat, titles[:-1].flat, strict=True):
        if here.get_title() == above:
            here.set_title("")
    for here, below in zip(axes[:-1].flat, across[1:].flat, strict=True):
        if here.get_xlabel() == below:
            here.set_xlabel("")
    for here, left in zip(axes[:, 1:].flat, along[:, :-1].flat, strict=True):
        if here.get_ylabel() == left:
            here.set_ylabel("")


def _add_fonts(drawing: Drawing) -> None:
    """Give texts with characters that matplotlib's own font lacks further fonts of this machine."""
    for text in drawing.findobj(Text):
        lacking = {ord(letter) for letter in text.get_text()} - _codes(
            font_manager.findfont("DejaVu Sans")
        )
        lacking -= {ord("\n")}
        families = []
        for font in font_manager.fontManager.ttflist if lacking else ():
            # One of matplotlib's has a box for every character.
            if (has := lacking & _codes(font.fname)) and "Last Resort" not in font.name:
                families.append(font.name)
                lacking -= has
        if families:
            text.set_fontfamily(["DejaVu Sans", *families])


@functools.cache
def _codes(path: str) -> frozenset[int]:
    """Return the code points of which a font has a glyph."""
    return frozenset(font_manager.get_font(path).get_charmap())


# Parts of panels


def broken(name: str) -> str:
    """Return a name in lines that narrow panels have room for."""
    if len(name) <= _LETTERS - 2:
        return name
    lines = []
    for part in re.sub(r"(?<=.{5}[@,])", "\n", name, count=1).split("\n"):
        line = ""
        for piece in re.split(r"(?<=[_=/ ])", part) if len(part) > _LETTERS else [part]:
            if line and len(line) + len(piece) > _LETTERS:
                lines.append(line)
                line = ""
            line += piece
        lines.append(line)
    return "\n".join(line.strip() for line in lines)


def rows(axes: Axes, names: Sequence[str]) -> None:
    """Make the y axis one with a row for each name, from above."""
    axes.set_ylim(len(names) - 0.4, -0.65)
    axes.set_yticks(range(len(names)), [broken(name) for name in names])
    axes.tick_params("y", length=0)
    axes.yaxis.grid(visible=False)


def height(names: Sequence[str], row: float = 0.3) -> float:
    """Return the inches of a panel with a row for each name, with its title and labels."""
    lines = max(broken(name).count("\n") for name in names)
    return max(row, 0.2 + 0.08 * lines) * len(names) + 0.65


def steps(axes: Axes) -> None:
    """Make the x axis one of steps: 10k, 1M."""
    axes.set_xlim(0, None)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def key(label: str, style: Style, width: float = 1.8) -> Line2D:
    """Return an entry of a legend."""
    return Line2D([], [], color=style.color, linestyle=style.dash, linewidth=width, label=label)


def interval(
    axes: Axes,
    x: float,
    y: float,
    bounds: tuple[float | None, float | None],
    color: str,
    *,
    upright: bool = False,
    hollow: bool = False,
) -> None:
    """Draw a point and its interval, where there is one; hollow: a point that is not filled."""
    low, high = bounds
    if low is not None and high is not None:
        across, bar = (x, axes.vlines) if upright else (y, axes.hlines)
        bar(across, low, high, color=color, linewidth=2)
    dots(axes, [x], [y], color, size=5.5, alpha=None, hollow=hollow)


def dots(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    color: str,
    *,
    size: float = 1.8,
    alpha: float | None = 0.45,
    hollow: bool = False,
) -> None:
    """Draw dots, such as one for each seed."""
    axes.plot(
        x,
        y,
        "o",
        color=color,
        markerfacecolor="white" if hollow else color,
        alpha=alpha,
        markersize=size,
        markeredgewidth=1.5 if hollow else 0,
        clip_on=False,
        zorder=3,
    )


def spread(values: ArrayLike, reach: float) -> NDArray[np.float64]:
    """Return offsets `[n]` within ±reach by rank, which keep dots apart, the same every time."""
    return reach * (np.argsort(np.argsort(values)) % 5 - 2) / 2


# Files


def write(drawing: Drawing, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """Write a figure as `<stem>.<format>`; return the paths."""
    paths = [folder / f"{stem}.{format}" for format in formats]
    for path, format in zip(paths, formats, strict=True):
        write_atomically(path, encoded(drawing, format))
    return paths


def encoded(drawing: Drawing, format: str, dpi: float | None = None) -> bytes:
    """Return a figure as the bytes of a file, without date and program."""
    data = io.BytesIO()
    drawing.savefig(data, format=format, metadata=_METADATA[format], dpi=dpi)
    return data.getvalue()

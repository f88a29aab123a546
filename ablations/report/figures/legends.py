"""Legends, title and caption of a drawing by matplotlib."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from ablations.report.figures import artists
from ablations.report.figures.marks import Entry, Figure


def _headed(groups: Mapping[str, Sequence[Entry]]) -> list[Artist]:
    """Return the entries of several groups one after the other, each under its name."""
    handles: list[Artist] = []
    for name, entries in groups.items():
        if name:
            handles.append(Line2D([], [], linestyle="none", label=f"{name}:"))
        handles += map(artists.handle, entries)
    return handles


def draw(drawing: Drawing, axes: Sequence[Axes], figure: Figure, columns: int) -> None:
    """Draw the legends of a figure that stands alone."""
    legend = figure.legend
    if legend.place in ("above", "top"):
        above = {"loc": "lower center", "bbox_to_anchor": (0.3, 1.0)}
        owner = axes[0] if legend.place == "above" else drawing
        where = above if legend.place == "above" else {"loc": "outside upper center"}
        handles = _headed(legend.groups)
        owner.legend(handles=handles, ncols=legend.columns, frameon=False, **where)
        return
    left = dict(legend.groups)
    step = 1 if legend.place == "inside" else columns
    for place in range(0, len(figure.panels), step):
        row = [panel for panel in figure.panels[place : place + step] if panel is not None]
        fresh = {panel.group: left.pop(panel.group) for panel in row if panel.group in left}
        if fresh and legend.place == "inside":
            axes[place].legend(handles=_headed({"": fresh.popitem()[1]}), frameon=False, loc="best")
        elif fresh:
            _beside(axes[place + len(row) - 1], _headed(fresh))


def _beside(axes: Axes, handles: Sequence[Artist]) -> None:
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.02),
        frameon=False,
        borderaxespad=0,
        handlelength=2.6,
    )


def below(drawing: Drawing, figure: Figure) -> None:
    """Draw the legend under the panels; the figure grows by its height.

    As many names stand in a row as there is room for.
    """
    handles = _headed(figure.legend.groups)
    if not handles:
        return
    width, height = drawing.get_size_inches()
    texts = [str(handle.get_label()) for handle in handles]
    longest = max(len(line) for text in texts for line in text.split("\n"))
    columns = max(1, min(len(handles), int(width / (0.058 * longest + 0.5))))
    lines = math.ceil(len(handles) / columns) + sum("\n" in text for text in texts) / columns
    drawing.set_size_inches(width, height + 0.15 * lines + 0.1)
    drawing.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.2
    )


def write_titles(drawing: Drawing, figure: Figure) -> None:
    """Write title and caption, in as many lines as the figure's width makes them."""
    width = drawing.get_size_inches()[0]
    title = figure.title
    if figure.subject:
        title = f"{figure.subject}: {title[0].lower()}{title[1:]}"
    for text, letters, write, look in (
        (title, 10.5, drawing.suptitle, {"fontsize": 11, "fontweight": "bold"}),
        (figure.caption, 16.5, drawing.supxlabel, {"fontsize": 8, "color": "#666666"}),
    ):
        if text:
            lines = textwrap.wrap(text, int(width * letters), break_long_words=False)
            write("\n".join(lines), **look)

"""What a gate saw: the difference at each look with its interval, beside the margin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ablations.report.figures.style import (
    COLORS,
    UNDECIDED,
    VERDICT_COLORS,
    dress,
    footnote,
    save,
    style,
    title,
)
from ablations.report.series import label

_COLORS = {
    "better": VERDICT_COLORS["better"],
    "no worse": VERDICT_COLORS["equivalent"],
    "identical": VERDICT_COLORS["equivalent"],
    "worse": VERDICT_COLORS["worse"],
    "fails": VERDICT_COLORS["worse"],
    "not better": VERDICT_COLORS["worse"],
}


def write(folder: Path, told: Mapping[str, Any], stem: str, formats: Sequence[str]) -> list[Path]:
    """Draws a gate's verdict, as its JSON has it, into a folder; the files."""
    with style():
        return save(_draw(told), folder, stem, formats)


def _draw(told: Mapping[str, Any]) -> Figure:
    drawn = Figure(figsize=(7.0, 3.4), layout="constrained")
    left, right = drawn.subplots(1, 2, width_ratios=(1.6, 1.0), sharey=True)
    color = _COLORS.get(told["verdict"], UNDECIDED)
    for panel in (left, right):
        panel.axhspan(-told["margin"], told["margin"], color="#EFEFEF", zorder=0)
        panel.axhline(0.0, color=COLORS[0], linewidth=0.8)
    seen = [one for one in told["looks"] if one["difference"] is not None]
    for place, one in enumerate(seen):
        shade = color if place == len(seen) - 1 else UNDECIDED
        if one["low"] is not None:
            left.vlines(place, one["low"], one["high"], color=shade, linewidth=2.2)
        left.plot(place, one["difference"], "o", color=shade, markersize=6)
    left.set_xticks(range(len(seen)), [f"{one['seeds']}" for one in seen])
    left.set_xlim(-0.6, len(seen) - 0.4)
    left.set_xlabel("seeds of each, look by look")
    left.set_ylabel(f"change minus baseline:\n{label(told['metric'])}")
    left.set_title(told["verdict"], color=color)
    values = np.array(told["differences"])
    aside = 0.3 * (np.argsort(np.argsort(values)) % 5 - 2) / 2
    right.plot(aside, values, "o", color=color, alpha=0.6, markersize=5, mew=0)
    right.set_xticks([])
    right.set_xlim(-1, 1)
    right.set_title(f"{len(values)} pairs of runs")
    for panel in (left, right):
        dress(panel)
    title(drawn, f"{told['change']} against {told['baseline']}")
    footnote(
        drawn,
        f"Bars: intervals of all looks that hold at once, wrong on either side with at most "
        f"{100 * told['rate']:g}%. Grey: the margin, {told['margin_of']}.",
    )
    return drawn

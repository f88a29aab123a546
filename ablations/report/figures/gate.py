"""The figure of a gate: the difference at each look with its interval, beside the margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.report.figures.style import (
    COLORS,
    Drawing,
    dots,
    finish,
    interval,
    panels,
    spread,
    styled,
)
from ablations.report.series import label

_COLORS = {
    "better": "better",
    "no worse": "equivalent",
    "identical": "equivalent",
    "worse": "worse",
    "fails": "worse",
    "not better": "worse",
}


@styled
def gate(verdict: Mapping[str, Any]) -> Drawing:
    """Draw a gate's verdict, as its JSON file has it."""
    color = COLORS[_COLORS.get(verdict["verdict"], "undecided")]
    looks = [look for look in verdict["looks"] if look["difference"] is not None]
    differences = [value for value in verdict["differences"] if value is not None]
    drawing, axes = panels(
        2 if differences else 1,
        None,
        (3.2, 2.6),
        columns=2,
        share="all",
        ratios=(4.3, 2.7) if differences else None,
    )
    for here in axes:
        here.axhspan(-verdict["margin"], verdict["margin"], color=COLORS["margin"], zorder=-1)
        here.axhline(0, color=COLORS["v0"], linewidth=0.8, zorder=1)
    for place, look in enumerate(looks):
        shade = color if look is looks[-1] else COLORS["undecided"]
        bounds = (look["low"], look["high"])
        interval(axes[0], place, look["difference"], bounds, shade, upright=True)
    axes[0].set_xticks(range(len(looks)), [f"{look['seeds']}" for look in looks])
    axes[0].set(
        title=verdict["verdict"],
        xlabel="seeds of each, look by look",
        ylabel=f"change minus baseline:\n{label(verdict['metric'])}",
        xlim=(-0.6, len(looks) - 0.4),
    )
    for here in axes[1:]:
        dots(here, spread(differences, 0.3), differences, color, size=5, alpha=0.6)
        here.set(title=f"{len(differences)} pairs of runs", xlim=(-1, 1), xticks=[])
    return finish(
        drawing,
        f"{verdict['change']} against {verdict['baseline']}",
        "Bars: intervals of all looks that hold at once, wrong on either side with at most "
        f"{100 * verdict['rate']:g}%. Grey: the margin, {verdict['margin_of']}.",
    )

"""The figure of a gate: the difference at each look with its interval, beside the margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.report.figures.marks import (
    Axis,
    Figure,
    Interval,
    Mark,
    Panel,
    Points,
    Rule,
    Span,
    spread,
)
from ablations.report.formats.numbers import estimate
from ablations.report.series import label

_COLORS = {
    "better": "better",
    "no worse": "equivalent",
    "identical": "equivalent",
    "worse": "worse",
    "fails": "worse",
    "not better": "worse",
}


def gate(verdict: Mapping[str, Any]) -> Figure:
    """Return the figure of a gate's verdict, as its JSON file has it."""
    color = _COLORS.get(verdict["verdict"], "undecided")
    back: tuple[Mark, ...] = (
        Span(-verdict["margin"], verdict["margin"], "y"),
        Rule(0.0, "y", "v0", 0.8),
    )
    looks = [look for look in verdict["looks"] if look["difference"] is not None]
    intervals = tuple(
        Interval(
            place,
            look["difference"],
            look["low"],
            look["high"],
            color if look is looks[-1] else "undecided",
            along="y",
            hover=f"{look['seeds']} seeds: "
            + estimate(look["difference"], look["low"], look["high"], "+"),
        )
        for place, look in enumerate(looks)
    )
    differences = [value for value in verdict["differences"] if value is not None]
    y = Axis(f"change minus baseline:\n{label(verdict['metric'])}")
    left = Panel(
        title=verdict["verdict"],
        x=Axis(
            "seeds of each, look by look",
            limits=(-0.6, len(looks) - 0.4),
            ticks=tuple((place, f"{look['seeds']}") for place, look in enumerate(looks)),
        ),
        y=y,
        marks=(*back, *intervals),
        width=4.3,
        height=2.9,
    )
    right = Panel(
        title=f"{len(differences)} pairs of runs",
        x=Axis(limits=(-1, 1), ticks=()),
        y=y,
        marks=(
            *back,
            Points(spread(differences, 0.3), differences, color, size=5, alpha=0.6),
        ),
        width=2.7,
        height=2.9,
    )
    return Figure(
        title=f"{verdict['change']} against {verdict['baseline']}",
        caption="Bars: intervals of all looks that hold at once, wrong on either side with at most "
        f"{100 * verdict['rate']:g}%. Grey: the margin, {verdict['margin_of']}.",
        panels=(left, right) if differences else (left,),
        around=0.5,
        share="all",
        variants=False,
    )

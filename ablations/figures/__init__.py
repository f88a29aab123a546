"""Figures: functions from runs, or from a frame, to a matplotlib figure.

    FIGURES[name](runs, width)          a figure of a study
    draw(runs, kinds, width, ...)       all figures that a study has, by name
    curves(runs, width, levels=, each_seed=, smooth=)    learning curves
    forest(frame, label=, group=, value="share", margin=, width=, ...)   any effects with intervals
    write(figure, path, formats)        writes `<path>.svg` and `<path>.png`

A width is in inches, or a name such as "icml-column". No title is drawn; a page shows
`figure.title` and `figure.caption`. A new figure is one function and one line in `FIGURES`. It
raises UserError if the study does not have such a figure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import Any

from ablations.errors import UserError, unknown
from ablations.figures import forests, learning, scores
from ablations.figures.forests import forest
from ablations.figures.learning import checks, curves
from ablations.figures.style import FORMATS, TEXT, WIDTHS, Drawing, encoded, inches, write
from ablations.runs import Runs
from ablations.tables.effects import default_kind

__all__ = ["FIGURES", "FORMATS", "TEXT", "WIDTHS", "Drawing"]
__all__ += ["checks", "curves", "draw", "encoded", "forest", "write"]

FIGURES: dict[str, Callable[..., Drawing]] = {
    "curves": learning.curves,
    "differences": forests.differences,
    "improvement": forests.improvement,
    "aggregates": scores.aggregates,
    "profiles": scores.profiles,
    "efficiency": learning.efficiency,
    "sensitivity": scores.sensitivity,
    "effects": forests.effects,
    "shares": forests.shares,
    "diagnostics": learning.diagnostics,
}


def draw(
    runs: Runs, kinds: Collection[str] = (), width: float | str = TEXT, **options: Any
) -> dict[str, Drawing]:
    """Draw figures of a study, by name.

    Args:
        runs: of the study.
        kinds: names of `FIGURES`; default: all that the study has, but only "shares" for an
            explanation, and "effects" and "curves" for a fractional factorial.
        width: in inches, or a name such as "icml-column".
        options: of `curves`.

    Raises:
        UserError: an unknown width, or a figure that the study does not have.
    """
    inches(width)
    for name in kinds:
        if name not in FIGURES:
            raise unknown("figure", name, FIGURES)
    usual = {"shares": ("shares",), "effects": ("effects", "curves")}
    default = usual.get(default_kind(runs.plan) if runs.plan else "", FIGURES)
    drawn = {}
    for name in kinds or default:
        with contextlib.nullcontext() if kinds else contextlib.suppress(UserError):
            drawn[name] = FIGURES[name](runs, width, **(options if name == "curves" else {}))
    return drawn

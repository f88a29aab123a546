"""Figures: each is a function from runs, or from a frame, to a matplotlib figure.

    curves(runs, width, metric=, each_seed=, smooth=, average=)   learning curves
    differences(runs, width)                                      variants against their baseline
    efficiency(runs, width, average=)                             normalised scores over training
    diagnostics(runs, width)                                      what else the trainer logs
    forest(frame, label=, group=, value="share", margin=, width=) any effects with intervals
    validation(curves, levels, metric, width)                     tasks against their thresholds
    write(figure, path, formats)                                  files `<path>.svg`, `<path>.png`

A new figure of a study is one function and one line in `FIGURES`. It may return None for a study
that lacks what it shows. Figures have no title: `figure.title` and `figure.caption` are for the
page that shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ablations.figures.effects import differences, forest
from ablations.figures.learning import curves, diagnostics, efficiency, validation
from ablations.figures.style import FORMATS, WIDTHS, Drawing, encoded, write

__all__ = [
    "FIGURES",
    "FORMATS",
    "WIDTHS",
    "Drawing",
    "curves",
    "diagnostics",
    "differences",
    "efficiency",
    "encoded",
    "forest",
    "validation",
    "write",
]

FIGURES: Mapping[str, Callable[..., Drawing | None]] = {
    "curves": curves,
    "differences": differences,
    "efficiency": efficiency,
    "diagnostics": diagnostics,
}

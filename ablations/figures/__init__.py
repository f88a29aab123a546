"""Figures: each is a function from runs, or from a frame, to a matplotlib figure.

    FIGURES[name](runs, width)          a figure of a study, None if it lacks what it shows
    draw(runs, kinds, width, ...)       all figures of a study, by name
    forest(frame, label=, group=, value="share", margin=, width=, ...)   any effects with intervals
    curves(runs, width, metric=, levels=, each_seed=, smooth=, average=)    learning curves
    gate(verdict, width)                the stages of a gate
    write(figure, path, formats)        writes `<path>.svg` and `<path>.png`

A width is in inches, or a name such as "icml-column". A new figure of a study is one function and
one line in `FIGURES`. Figures have no title: `figure.title` and `figure.caption` are for the page
that shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pandas as pd

from ablations.errors import UserError, unknown
from ablations.figures import forests, learning, scores
from ablations.figures.forests import forest, gate
from ablations.figures.learning import curves
from ablations.figures.style import FORMATS, TEXT, WIDTHS, Drawing, encoded, inches, write
from ablations.runs import Runs
from ablations.tables import TABLES

__all__ = ["FIGURES", "FORMATS", "WIDTHS", "Drawing", "curves", "draw", "encoded", "forest", "gate"]
__all__ += ["write"]

FARTHEST = 1e300  # beyond it an axis has no ticks


def _of_table(kind: str, figure: Callable[..., Drawing | None]) -> Callable[..., Drawing | None]:
    def drawn(runs: Runs, width: float | str = TEXT) -> Drawing | None:
        frame = TABLES[kind](runs) if kind in TABLES else pd.DataFrame()
        return None if frame.empty else figure(frame, width)

    return drawn


FIGURES: dict[str, Callable[..., Drawing | None]] = {
    "curves": learning.curves,
    "differences": forests.differences,
    "improvement": forests.improvement,
    "aggregates": scores.aggregates,
    "profiles": scores.profiles,
    "efficiency": learning.efficiency,
    "sensitivity": scores.sensitivity,
    "effects": _of_table("effects", forests.effects),
    "interactions": _of_table("effects", forests.interactions),
    "shares": _of_table("shares", forests.shares),
    "diagnostics": learning.diagnostics,
}


def draw(
    runs: Runs, kinds: Collection[str] = (), width: float | str = TEXT, **options: Any
) -> dict[str, Drawing]:
    """Draw figures of a study, by name.

    Args:
        runs: of the study.
        kinds: names of `FIGURES`; by default all that the study has, and of an explanation its
            shares alone.
        width: in inches, or a name such as "icml-column".
        options: of `curves`.

    Raises:
        UserError: an unknown width, a figure that the study does not have, or values that no axis
            can hold.
    """
    inches(width)
    values = runs.curves[runs.metric].to_numpy(np.float64) if runs.metric in runs.curves else []
    largest = np.max(np.abs(values), initial=0.0, where=np.isfinite(values))
    if largest > FARTHEST:
        raise UserError(
            f"{runs.metric} reaches {largest:.3g}, which no axis can hold: `ablations table` has "
            "the numbers"
        )
    explains = runs.plan is not None and runs.plan.study.explanation is not None
    drawn = {}
    for name in kinds or (["shares"] if explains else FIGURES):
        if name not in FIGURES:
            raise unknown("figure", name, FIGURES)
        figure = FIGURES[name](runs, width, **(options if name == "curves" else {}))
        if figure is not None:
            drawn[name] = figure
        elif kinds:
            raise UserError(f"these runs have no figure '{name}'")
    return drawn

"""Both curves of every check, and the scores of their seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from ablations.curve import on_common_steps
from ablations.regression.check import Check
from ablations.regression.curves import Curves, scores
from ablations.regression.messages import score_name
from ablations.report.figures.style import (
    COLORS,
    VERDICT_COLORS,
    dress,
    footnote,
    save,
    style,
    title,
)
from ablations.report.series import label

BEFORE = COLORS[0]
AFTER = {"worse": VERDICT_COLORS["worse"], "better": VERDICT_COLORS["better"]}


def write(
    folder: Path,
    stem: str,
    name: str,
    checks: Mapping[str, Check],
    metrics: Mapping[str, str],
    formats: Sequence[str] = ("png",),
) -> list[Path]:
    """Draws all checks of a baseline into `folder`; returns the files, `<stem>.<format>` each.

    name: the title. metrics: check -> what its curves show.
    """
    with style():
        return save(_draw(name, checks, metrics), folder, re.sub(r"[^\w.-]+", "_", stem), formats)


def _draw(name: str, checks: Mapping[str, Check], metrics: Mapping[str, str]) -> Figure:
    most = max(len(found.rows) for found in checks.values())
    size = (5.0 + 2.0 * most, 2.7 * len(checks) + 0.7)
    drawn = Figure(figsize=size, layout="constrained")
    ratios = (2.2, *[1.0] * most)
    panels = drawn.subplots(len(checks), 1 + most, squeeze=False, width_ratios=ratios)
    for row, (where, found) in zip(panels, checks.items(), strict=True):
        after = AFTER.get(found.verdict, COLORS[1])
        _curves(row[0], found.baseline, BEFORE, f"baseline, {len(found.baseline)} seeds")
        _curves(row[0], found.now, after, f"now, {len(found.now)} seeds")
        row[0].set_title(f"{where}: {found.verdict}" if where else found.verdict)
        row[0].set_ylabel(label(metrics[where]))
        row[0].set_xlabel("steps")
        row[0].xaxis.set_major_formatter(EngFormatter(sep=""))
        row[0].xaxis.set_major_locator(MaxNLocator(5))
        row[0].set_xlim(left=0)
        row[0].legend(frameon=False, loc="best")
        dress(row[0])
        old, new = (scores(one, found.terms.scores) for one in (found.baseline, found.now))
        for panel in row[1 + len(old) :]:
            panel.set_axis_off()
        for panel, score in zip(row[1:], old, strict=False):
            _scores(panel, old[score], new[score], after)
            panel.set_title(score_name(score))
    title(drawn, name)
    footnote(drawn, "Thin: seeds. Thick: their mean. Dots: seeds; bars: means.")
    return drawn


def _curves(panel: Any, curves: Curves, color: str, name: str) -> None:
    for run in curves.runs:
        seen = ~np.isnan(run.values)
        panel.plot(run.steps[seen], run.values[seen], color=color, alpha=0.22, linewidth=0.7)
    if not curves.seeds:
        return
    steps, values = on_common_steps(curves.runs)
    counts = np.sum(~np.isnan(values), axis=0)
    seen = 2 * counts >= max(1, len(curves.seeds))
    means = np.nansum(values[:, seen], axis=0) / np.maximum(counts[seen], 1)
    panel.plot(steps[seen], means, color=color, linewidth=2.0, label=name, zorder=4)


def _scores(
    panel: Any, before: NDArray[np.float64], after: NDArray[np.float64], color: str
) -> None:
    for place, (values, shade) in enumerate(((before, BEFORE), (after, color))):
        # Spread sideways by rank, so that the picture is the same every time.
        aside = 0.26 * (np.argsort(np.argsort(values)) % 5 - 2) / 2
        panel.plot(place + aside, values, "o", color=shade, alpha=0.5, markersize=3.5, mew=0)
        if len(values):
            panel.hlines(values.mean(), place - 0.36, place + 0.36, color=shade, linewidth=2.2)
    panel.set_xticks([0, 1], ["baseline", "now"])
    panel.set_xlim(-0.6, 1.6)
    dress(panel)
    panel.grid(visible=False, axis="x")

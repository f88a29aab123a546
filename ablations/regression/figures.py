"""Both curves of every check, and the scores of their seeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ablations.curve import on_common_steps
from ablations.regression.check import Check
from ablations.regression.curves import Curves, scores
from ablations.regression.messages import score_name
from ablations.report.figures.style import (
    COLORS,
    Drawing,
    Style,
    dots,
    finish,
    key,
    panels,
    spread,
    steps,
    styled,
    write,
)
from ablations.report.series import label

BEFORE = COLORS["v0"]
AFTER = {"worse": COLORS["worse"], "better": COLORS["better"]}


def draw(
    name: str,
    checks: Mapping[str, Check],
    metrics: Mapping[str, str],
    path: Path,
    formats: Sequence[str],
) -> list[Path]:
    """Draw checks as `<path>.<format>`, its name without odd characters. See `checks_figure`."""
    figure = checks_figure(name, checks, metrics)
    return write(figure, path.parent, re.sub(r"[^\w.-]+", "_", path.name), formats)


@styled
def checks_figure(name: str, checks: Mapping[str, Check], metrics: Mapping[str, str]) -> Drawing:
    """Draw a baseline's checks: curves, and beside them the scores of each seed.

    Args:
        name: the title.
        checks: name -> what was found.
        metrics: name of a check -> what its curves show.
    """
    columns = 1 + max(len(check.rows) for check in checks.values())
    ratios = [5.0, *[2.0] * (columns - 1)]
    drawing, axes = panels(
        columns * len(checks), None, (sum(ratios) / columns, 2.6), columns=columns, ratios=ratios
    )
    legend: dict[str, list[Artist]] = {}
    for row, (where, check) in enumerate(checks.items()):
        curves, *others = axes[row * columns : (row + 1) * columns]
        after = AFTER.get(check.verdict, COLORS["v1"])
        sides = ((check.baseline, BEFORE, "baseline"), (check.now, after, "now"))
        for side, color, _ in sides:
            _curves(curves, side, color)
        steps(curves)
        curves.set(title=f"{where}: {check.verdict}" if where else check.verdict, xlabel="steps")
        curves.set_ylabel(label(metrics[where]))
        legend[where] = [key(f"{side}, {len(of)} seeds", Style(color)) for of, color, side in sides]
        old, new = (scores(side, check.terms.scores) for side in (check.baseline, check.now))
        for here, score in zip(others, old, strict=False):
            _scores(here, old[score], new[score], after)
            here.set_title(score_name(score))
        for here in others[len(old) :]:
            here.set_axis_off()
    caption = "Thin: seeds. Thick: their mean. Dots: seeds; bars: means."
    return finish(drawing, name, caption, legend=legend)


def _curves(axes: Axes, curves: Curves, color: str) -> None:
    for run in curves.runs:
        here = ~np.isnan(run.values)
        axes.plot(run.steps[here], run.values[here], color=color, linewidth=0.7, alpha=0.22)
    if not curves.seeds:
        return
    at, values = on_common_steps(curves.runs)
    counts = np.sum(~np.isnan(values), axis=0)
    here = 2 * counts >= max(1, len(curves.seeds))
    means = np.nansum(values[:, here], axis=0) / np.maximum(counts[here], 1)
    axes.plot(at[here], means, color=color, linewidth=2.0, zorder=3)


def _scores(
    axes: Axes, before: NDArray[np.float64], after: NDArray[np.float64], color: str
) -> None:
    for place, (values, shade) in enumerate(((before, BEFORE), (after, color))):
        dots(axes, place + spread(values, 0.26), values, shade, size=3.5, alpha=0.5)
        if len(values):
            ends = (place - 0.36, place + 0.36)
            axes.hlines(float(values.mean()), *ends, color=shade, linewidth=2.2)
    axes.set_xlim(-0.6, 1.6)
    axes.set_xticks((0, 1), ("baseline", "now"))
    axes.tick_params("x", length=0)
    axes.xaxis.grid(visible=False)

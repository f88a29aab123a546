"""The figure of a check: the old and new curves, and the scores of their seeds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ablations.figures import style
from ablations.figures.learning import draw_lines
from ablations.figures.style import Drawing, Group, Look
from ablations.regression.check import Check, score_name


@style.applied()
def checks(
    results: Mapping[str, Check], metrics: Mapping[str, str], width: float | str = style.TEXT
) -> Drawing:
    """Draw the curves of each check and, for every score, a dot per seed and the means.

    Args:
        results: checks by the name of the group of runs.
        metrics: the metric of each group's curves.
        width: in inches, or a name such as "icml-column".
    """
    groups, looks = [], {}
    for name, check in results.items():
        color = style.VERDICT_COLORS.get(check.verdict, style.COLORS[0])
        looks[name] = {"baseline": Look(style.INK), "now": Look(color)}
        titles = [f"{name}: {check.verdict}" if name else check.verdict]
        titles += [score_name(row.score) for row in check.rows]
        keys = [
            style.line_key(f"{side}, {len(curves)} seeds", looks[name][side])
            for side, curves in (("baseline", check.baseline), ("now", check.now))
        ]
        groups.append(Group(titles, keys, "steps", style.metric_label(metrics[name])))
    figure, grids = style.panels(groups, width, 1.25)
    for (name, check), (curves, *scores) in zip(results.items(), grids, strict=True):
        sides = {"baseline": check.baseline, "now": check.now}
        points = [
            pd.DataFrame({"variant": side, "seed": seed, "step": run.steps, "value": run.values})
            for side, of in sides.items()
            for seed, run in of.at(check.baseline.steps).runs.items()
        ]
        draw_lines(curves, pd.concat(points), looks[name], each_seed=True)
        style.steps_axis(curves)
        for ax, score in zip(scores, check.terms.scores, strict=True):
            for y, (side, of) in enumerate(sides.items()):
                values = of.scores(check.terms.scores)[score]
                _dots(ax, values, -y, looks[name][side].color)
            figure.labels[ax].update(xlabel=style.metric_label(metrics[name]), ylabel="")
            ax.set(ylim=(-1.6, 0.6))
            ax.set_yticks((0, -1), ("baseline", "now") if ax is scores[0] else ("", ""))
    return figure.about(
        "Check of learning curves", "Thin: seeds. Thick: their mean. Dots: seeds; bars: means."
    )


def _dots(ax: Axes, values: np.ndarray, y: float, color: str) -> None:
    style.dots(ax, values, np.full(len(values), y), color=color)
    if len(values):
        ax.plot([values.mean()] * 2, [y - 0.3, y + 0.3], color=color, linewidth=1.7)

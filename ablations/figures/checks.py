"""The figure of a check: the old and the new curves."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ablations.figures import style
from ablations.figures.learning import draw_lines
from ablations.figures.style import Drawing, Group, line_key
from ablations.regression.check import Check


@style.applied()
def checks(results: Mapping[str, Check], metric: str, width: float | str = style.TEXT) -> Drawing:
    """Draw the curves of each check, a panel per group of runs.

    Args:
        results: checks by the name of the group.
        metric: of the curves.
        width: in inches, or a name such as "icml-column".
    """
    looks = style.looks_of([["baseline", "now"]])
    titles = [": ".join(filter(None, (name, check.verdict))) for name, check in results.items()]
    keys = [line_key(side, look) for side, look in looks.items()]
    groups = [Group(titles, keys, "steps", style.metric_label(metric))]
    figure, (axes,) = style.panels(groups, width, 1.25)
    for ax, check in zip(axes, results.values(), strict=True):
        points = [
            pd.DataFrame({"variant": side, "seed": seed, "step": run.steps, "value": run.values})
            for side, of in (("baseline", check.baseline), ("now", check.now))
            for seed, run in of.at(check.baseline.steps).runs.items()
        ]
        draw_lines(ax, pd.concat(points), looks, each_seed=True)
        style.steps_axis(ax)
    return figure.about("Check of learning curves", "Thin: seeds. Thick: their mean.")

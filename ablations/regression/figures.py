"""Both curves of every check, and the scores of their seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ablations.curve import on_common_steps
from ablations.regression.check import Check
from ablations.regression.curves import Curves, scores
from ablations.regression.messages import score_name
from ablations.report.figures import paper
from ablations.report.figures.marks import (
    Axis,
    Entry,
    Figure,
    Interval,
    Legend,
    Line,
    Mark,
    Panel,
    Points,
    spread,
)
from ablations.report.formats.numbers import estimate
from ablations.report.series import label

BEFORE = "v0"
AFTER = {"worse": "worse", "better": "better"}


def draw(
    name: str,
    checks: Mapping[str, Check],
    metrics: Mapping[str, str],
    path: Path,
    formats: Sequence[str],
) -> list[Path]:
    """Draw checks as `<path>.<format>`, its name without odd characters. See `checks_figure`."""
    figure = checks_figure(name, checks, metrics)
    return paper.write(figure, path.parent, re.sub(r"[^\w.-]+", "_", path.name), formats)


def checks_figure(name: str, checks: Mapping[str, Check], metrics: Mapping[str, str]) -> Figure:
    """Return the figure of a baseline's checks: curves, and beside them the scores of each seed.

    Args:
        name: the title.
        checks: name -> what was found.
        metrics: name of a check -> what its curves show.
    """
    most = max(len(check.rows) for check in checks.values())
    panels: list[Panel | None] = []
    legends: dict[str, tuple[Entry, ...]] = {}
    for where, check in checks.items():
        after = AFTER.get(check.verdict, "v1")
        sides = ((check.baseline, BEFORE, "baseline"), (check.now, after, "now"))
        legends[where] = tuple(
            Entry(f"{side}, {len(curves)} seeds", color, width=2.0) for curves, color, side in sides
        )
        panels.append(
            Panel(
                title=f"{where}: {check.verdict}" if where else check.verdict,
                x=Axis("steps", limits=(0, None), format="steps"),
                y=Axis(label(metrics[where])),
                marks=tuple(mark for side in sides for mark in _curves(*side[:2])),
                width=5.0,
                height=2.7,
                group=where,
            )
        )
        old, new = (scores(side, check.terms.scores) for side in (check.baseline, check.now))
        panels += [_scores(score_name(s), old[s], new[s], after, where) for s in old]
        panels += [None] * (most - len(old))
    return Figure(
        title=name,
        caption="Thin: seeds. Thick: their mean. Dots: seeds; bars: means.",
        panels=tuple(panels),
        columns=1 + most,
        legend=Legend(legends, "inside"),
        around=0.7,
        variants=False,
    )


def _curves(curves: Curves, color: str) -> Iterator[Mark]:
    for run in curves.runs:
        seen = ~np.isnan(run.values)
        yield Line(run.steps[seen], run.values[seen], color, width=0.7, alpha=0.22)
    if not curves.seeds:
        return
    steps, values = on_common_steps(curves.runs)
    counts = np.sum(~np.isnan(values), axis=0)
    seen = 2 * counts >= max(1, len(curves.seeds))
    means = np.nansum(values[:, seen], axis=0) / np.maximum(counts[seen], 1)
    hover = tuple(map(estimate, means))
    yield Line(steps[seen], means, color, width=2.0, hover=hover)


def _scores(
    title: str, before: NDArray[np.float64], after: NDArray[np.float64], color: str, group: str
) -> Panel:
    marks: list[Mark] = []
    for place, (values, shade) in enumerate(((before, BEFORE), (after, color))):
        marks.append(Points(place + spread(values, 0.26), values, shade, size=3.5, alpha=0.5))
        if len(values):
            mean, ends = float(values.mean()), (place - 0.36, place + 0.36)
            marks.append(Interval(place, mean, *ends, shade, symbol=None, hover=estimate(mean)))
    ticks = ((0.0, "baseline"), (1.0, "now"))
    x = Axis(limits=(-0.6, 1.6), ticks=ticks, names=True)
    return Panel(title, x, Axis(), tuple(marks), 2.0, 2.7, group)

"""The entrance exam of tasks: evaluations over training against policies that learn nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ablations.report.exam import AT_CEILING, PLACE, Task
from ablations.report.figures.curves import curve
from ablations.report.figures.style import (
    COLORS,
    DASHES,
    Drawing,
    Style,
    finish,
    key,
    panels,
    shade,
    steps,
    styled,
)
from ablations.report.series import label
from ablations.report.statistics import interval
from ablations.report.tables.entries import policy_text
from ablations.report.units import LEAD


class Level(NamedTuple):
    """A level line of a task. at: None where a task has none."""

    name: str
    at: float | None
    style: Style


@styled
def exam(tasks: Sequence[Task]) -> Drawing:
    """Draw a panel per task: the mean of each candidate's evaluations, and what it has to pass.

    Level lines are the policies that learn nothing, `LEAD` deviations of the best candidate above
    them, the share of the way to the best score, and the ceiling where there is one.
    """
    variants = list(dict.fromkeys(variant for task in tasks for variant in task.curves))
    styles = {
        variant: Style(shade(place, len(variants)), DASHES[place % len(DASHES)])
        for place, variant in enumerate(variants)
    }
    levels: dict[str, Level] = {}
    drawing, axes = panels(len(tasks), None, (3.6, 2.4), columns=3)
    for here, task in zip(axes, tasks, strict=True):
        last = max((steps[-1] for of in task.curves.values() for steps, _ in of), default=1)
        for name, at, style in _levels(task):
            if at is not None:
                levels[name] = Level(name, at, style)
                ends = (0, float(last))
                here.plot(ends, (at, at), color=style.color, linestyle=style.dash, linewidth=0.8)
        for variant, of in task.curves.items():
            if of:
                values = np.array([returns for _, returns in of])
                bounds = (values.mean(axis=0), *interval(values.T, "mean", replicates=2000))
                curve(here, (of[0][0], *bounds), variant, styles[variant])
        steps(here)
        here.set(title=task.name, xlabel="environment steps", ylabel=label(task.metric))
    entries = [key(variant, styles[variant]) for variant in variants]
    entries += [key(level.name, level.style, 0.8) for level in levels.values()]
    return finish(
        drawing,
        "Entrance exam of tasks",
        "Mean over seeds of the baseline's evaluations, pointwise 95% interval. A task "
        "passes with scores above both thresholds, and at a ceiling on at most "
        f"{100 * AT_CEILING:.0f}% of its seeds.",
        legend={"": entries},
    )


def _levels(task: Task) -> list[Level]:
    ended = [candidate for candidate in task.candidates if len(candidate.scores) > 1]
    best = max(ended, key=lambda candidate: candidate.mean, default=None)
    lead = None if best is None else task.floor + LEAD * best.deviation
    place = None if best is None else task.floor + PLACE * (task.best - task.floor)
    quiet, unstable = COLORS["quiet"], COLORS["unstable"]
    return [
        *(
            Level(policy_text(policy), score, Style(quiet, dash))
            for (policy, score), dash in zip(task.trivial.items(), DASHES[2:0:-1], strict=False)
        ),
        Level(f"{LEAD:g} SD above the better", lead, Style(unstable, DASHES[2])),
        Level(f"{100 * PLACE:.0f}% of the way to the best", place, Style(unstable, DASHES[1])),
        Level("ceiling", task.ceiling, Style(COLORS["better"], DASHES[3])),
    ]

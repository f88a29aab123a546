"""The entrance exam of tasks: evaluations over training against policies that learn nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ablations.report.exam import AT_CEILING, PLACE, Task
from ablations.report.figures.curves import curve
from ablations.report.figures.marks import Axis, Entry, Figure, Legend, Line, Mark, Panel, room
from ablations.report.figures.palette import DASHES, Style, shade
from ablations.report.formats.numbers import estimate
from ablations.report.series import label
from ablations.report.statistics import interval
from ablations.report.tables.entries import policy_text
from ablations.report.units import LEAD


class Level(NamedTuple):
    """A level line of a task. at: None where a task has none."""

    name: str
    at: float | None
    color: str
    dash: int


def exam(tasks: Sequence[Task]) -> Figure:
    """Return a panel per task: the mean of each candidate's evaluations, and what it has to pass.

    Level lines are the policies that learn nothing, `LEAD` deviations of the best candidate above
    them, the share of the way to the best score, and the ceiling where there is one.
    """
    variants = list(dict.fromkeys(variant for task in tasks for variant in task.curves))
    styles = {
        variant: Style(shade(place, len(variants)), place % len(DASHES))
        for place, variant in enumerate(variants)
    }
    levels = [_levels(task) for task in tasks]
    named = {level.name: level for of in levels for level in of if level.at is not None}
    entries = (
        *(Entry(variant, *styles[variant]) for variant in variants),
        *(Entry(level.name, level.color, level.dash, 1.1) for level in named.values()),
    )
    return Figure(
        title="Entrance exam of tasks",
        caption="Mean over seeds of the baseline's evaluations, pointwise 95% interval. A task "
        "passes with scores above both thresholds, and at a ceiling on at most "
        f"{100 * AT_CEILING:.0f}% of its seeds.",
        panels=tuple(_panel(task, of, styles) for task, of in zip(tasks, levels, strict=True)),
        columns=min(3, len(tasks)),
        legend=Legend({"": entries}),
        beside=room([entry.label for entry in entries]),
        variants=False,
    )


def _panel(task: Task, levels: Sequence[Level], styles: dict[str, Style]) -> Panel:
    last = max((steps[-1] for of in task.curves.values() for steps, _ in of), default=1)
    return Panel(
        title=task.name,
        x=Axis("environment steps", limits=(0, None), format="steps"),
        y=Axis(label(task.metric)),
        marks=(*_lines(levels, float(last)), *_curves(task, styles)),
        width=3.5,
        height=2.5,
    )


def _lines(levels: Sequence[Level], steps: float) -> Iterator[Mark]:
    for level in levels:
        if level.at is not None:
            hover = (f"{level.name}: {estimate(level.at)}",) * 2
            yield Line([0, steps], [level.at] * 2, level.color, level.dash, 1.1, hover=hover)


def _curves(task: Task, styles: dict[str, Style]) -> Iterator[Mark]:
    for variant, of in task.curves.items():
        if of:
            values = np.array([returns for _, returns in of])
            bounds = (values.mean(axis=0), *interval(values.T, "mean", replicates=2000))
            yield from curve((of[0][0], *bounds), variant, styles[variant])


def _levels(task: Task) -> list[Level]:
    ended = [candidate for candidate in task.candidates if len(candidate.scores) > 1]
    best = max(ended, key=lambda candidate: candidate.mean, default=None)
    lead = None if best is None else task.floor + LEAD * best.deviation
    place = None if best is None else task.floor + PLACE * (task.best - task.floor)
    return [
        *(
            Level(policy_text(policy), score, "quiet", dash)
            for (policy, score), dash in zip(task.trivial.items(), (2, 1), strict=False)
        ),
        Level(f"{LEAD:g} SD above the better", lead, "unstable", 2),
        Level(f"{100 * PLACE:.0f}% of the way to the best", place, "unstable", 1),
        Level("ceiling", task.ceiling, "better", 3),
    ]

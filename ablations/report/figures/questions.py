"""Effects in % of the unit: of a question on all tasks and on each, and of all questions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ablations.core.verdict import MARGIN
from ablations.report.figures.style import (
    COLORS,
    Drawing,
    finish,
    interval,
    panels,
    rows,
    styled,
)
from ablations.report.questions.judge import Found
from ablations.report.questions.measures import FEWEST, Bound, bound_ends

_LEAST = 12.0  # % of the unit on each side
_PLOT, _LETTER = 3.4, 0.068  # inches of the plot, and of a letter of the names beside it


def one_question(found: Found) -> Drawing:
    """Draw a question that has run; hollow: one seed, which tells nothing yet."""
    shown = [on for on in found.tasks if on.share is not None]
    names = [f"{on.task.name}, {on.seeds} seed{'s' * (on.seeds != 1)}" for on in shown]
    bounds = [(on.share, on.seeds) for on in shown]
    if len(found.over) > 1:
        names.insert(0, f"mean of {len(found.over)} tasks")
        bounds.insert(0, (found.share, found.seeds))
    return _figure(names, [(bound, seeds) for bound, seeds in bounds if bound is not None])


def all_questions(found: Sequence[Found]) -> Drawing:
    """Draw all questions that have run, the largest effect first."""
    ran = [(one, one.share) for one in found if one.answer is not None and one.share is not None]
    ran.sort(key=lambda pair: -pair[1].value)
    return _figure(
        [one.question.change.partition(" instead of ")[0] for one, _ in ran],
        [(share, one.seeds) for one, share in ran],
    )


@styled
def _figure(names: Sequence[str], bounds: Sequence[tuple[Bound, int]]) -> Drawing:
    ends = [abs(100 * end) for bound, _ in bounds for end in bound_ends(bound)]
    reach = max([_LEAST, *(1.1 * end for end in ends)])
    width = max(5.6, _PLOT + _LETTER * max(map(len, names)))
    drawing, (axes,) = panels(1, width, (width, 0.24 * len(names) + 0.45), columns=1)
    axes.axvspan(-100 * MARGIN, 100 * MARGIN, color=COLORS["margin"], zorder=0)
    axes.axvline(0, color=COLORS["v0"], linewidth=0.8, zorder=1)
    for row, (bound, seeds) in enumerate(bounds):
        value, low, high = (100 * x for x in bound_ends(bound))
        hollow = seeds < FEWEST
        color = "undecided" if hollow or low <= 0 <= high else "better" if low > 0 else "worse"
        if not hollow and max(abs(low), abs(high)) <= 100 * MARGIN:
            color = "equivalent"
        interval(axes, value, row, (low, high), COLORS[color], hollow=hollow)
    rows(axes, names)
    axes.set_yticks(range(len(names)), names)  # whole, each on its line
    axes.spines["left"].set_visible(False)
    axes.set_xticks(*zip(*_ticks(reach), strict=True))
    label = f"effect in % of the unit (shaded: \u00b1{100 * MARGIN:g}%)"
    axes.set(xlim=(-reach, reach), xlabel=label)
    return finish(drawing, "", "")


def _ticks(reach: float) -> tuple[tuple[float, str], ...]:
    step = next(s for s in (5, 10, 20, 25, 50, 100, 200, 500, 1000, math.inf) if reach / s <= 4)
    if math.isinf(step):
        return ((0.0, "0"),)
    most = int(reach // step)
    return tuple((k * step, f"{k * step:+g}" if k else "0") for k in range(-most, most + 1))

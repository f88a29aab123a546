"""Effects in % of the unit: of a question on all tasks and on each, and of all questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ablations.core.verdict import MARGIN
from ablations.report.figures.marks import Axis, Figure, Interval, Mark, Panel, Rule, Span, rows
from ablations.report.questions.judge import Found
from ablations.report.questions.measures import FEWEST, Bound, bound_ends
from ablations.report.questions.words import share_text

_LEAST = 12.0  # % of the unit on each side
_PLOT, _LETTER = 3.4, 0.068  # inches of the plot, and of a letter of the names beside it


def one_question(found: Found) -> Figure:
    """Return the figure of a question that has run; hollow: one seed, which tells nothing yet."""
    shown = [on for on in found.tasks if on.share is not None]
    names = [f"{on.task.name}, {on.seeds} seed{'s' * (on.seeds != 1)}" for on in shown]
    bounds = [(on.share, on.seeds) for on in shown]
    if len(found.over) > 1:
        names.insert(0, f"mean of {len(found.over)} tasks")
        bounds.insert(0, (found.share, found.seeds))
    return _figure(names, [(bound, seeds) for bound, seeds in bounds if bound is not None])


def all_questions(found: Sequence[Found]) -> Figure:
    """Return the figure of all questions that have run, the largest effect first."""
    ran = [(one, one.share) for one in found if one.answer is not None and one.share is not None]
    ran.sort(key=lambda pair: -pair[1].value)
    return _figure(
        [one.question.change.partition(" instead of ")[0] for one, _ in ran],
        [(share, one.seeds) for one, share in ran],
    )


def _figure(names: Sequence[str], bounds: Sequence[tuple[Bound, int]]) -> Figure:
    ends = [abs(100 * end) for bound, _ in bounds for end in bound_ends(bound)]
    reach = max([_LEAST, *(1.1 * end for end in ends)])
    marks: list[Mark] = [Span(-100 * MARGIN, 100 * MARGIN), Rule(0.0, color="v0", width=0.8)]
    for row, (bound, seeds) in enumerate(bounds):
        marks += _row(bound, row, hollow=seeds < FEWEST)
    label = f"effect in % of the unit (shaded: \u00b1{100 * MARGIN:g}%)"
    return Figure(
        title="",
        caption="",
        panels=(
            Panel(
                title="",
                x=Axis(label, limits=(-reach, reach), ticks=_ticks(reach)),
                y=rows(names),
                marks=tuple(marks),
                width=max(5.6, _PLOT + _LETTER * max(map(len, names))),
                height=0.3 * len(names),
                frame=("bottom",),
            ),
        ),
        around=0.8,
    )


def _row(bound: Bound, row: int, *, hollow: bool) -> Iterator[Mark]:
    value, low, high = (100 * x for x in bound_ends(bound))
    color = "undecided" if hollow or low <= 0 <= high else "better" if low > 0 else "worse"
    if not hollow and max(abs(low), abs(high)) <= 100 * MARGIN:
        color = "equivalent"
    yield Interval(
        *(value, row, low, high, color), width=1.8, size=5.0, hollow=hollow, hover=share_text(bound)
    )


def _ticks(reach: float) -> tuple[tuple[float, str], ...]:
    step = next(s for s in (5, 10, 20, 25, 50, 100, 200, 500, 1000, math.inf) if reach / s <= 4)
    if math.isinf(step):
        return ((0.0, "0"),)
    most = int(reach // step)
    return tuple((k * step, f"{k * step:+g}" if k else "0") for k in range(-most, most + 1))

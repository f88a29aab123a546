"""Claims that ran, in margins.

All in one figure, each comparison with its interval and each claim with its verdict; and each claim
by itself, a row per comparison.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from ablations.report.claims.found import Judged, Part
from ablations.report.claims.words import Stand, stand, verdict
from ablations.report.figures.marks import (
    Axis,
    Entry,
    Figure,
    Interval,
    Legend,
    Mark,
    Panel,
    Points,
    Rule,
    Span,
    Symbol,
    Text,
)

STAND_COLORS: dict[Stand, str] = {
    "holds": "equivalent",
    "no difference": "worse",
    "opposite": "worse",
    "differs": "worse",
    "amount": "undecided",
    "undecided": "undecided",
    "unstable": "unstable",
    "not run": "undecided",
}
_REACH = 12.0  # margins on each side; what lies beyond stands at the edge
_ROW = 0.27  # inches
_LETTERS = 48  # of a name in a line
_SYMBOLS: tuple[Symbol, ...] = (
    *("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"),
)
_TICKS = (-10, -5, -2, -1, 0, 1, 2, 5, 10)


def all_claims(claims: Sequence[Judged]) -> Figure:
    """Return the figure of the claims that ran, a row for each."""
    ran = [claim for claim in claims if claim.ran]
    tasks = list(dict.fromkeys(part.task for claim in ran for part in claim.parts if part.ran))
    symbols = {task: _SYMBOLS[k % len(_SYMBOLS)] for k, task in enumerate(tasks)}
    marks: list[Mark] = []
    for row, claim in enumerate(ran):
        if row % 2:
            marks.append(Span(row - 0.5, row + 0.5, "y", "stripe"))
        shown = [part for part in claim.parts if part.effect is not None]
        places = np.linspace(-0.28, 0.28, len(shown)) if len(shown) > 1 else np.zeros(1)
        for part, aside in zip(shown, places, strict=False):
            color = STAND_COLORS[stand(part.word, claim.claim.direction)]
            marks += _interval(part, row + float(aside), color, symbols[part.task], len(shown) > 4)
        marks.append(Text(_EDGE * 1.04, row, verdict(claim), _color(claim)))
    stands: dict[str, Stand] = {
        "the sentence holds": "holds",
        "it does not": "opposite",
        "undecided": "undecided",
    }
    entries = [Entry(text, STAND_COLORS[each], width=2) for text, each in stands.items()]
    entries += [Entry(task, "quiet", symbol=symbol) for task, symbol in symbols.items()]
    count = len(ran)
    label = "effect in margins: what the sentence names, minus what it compares with"
    return Figure(
        title=f"{count} published claims"
        if count == len(claims)
        else f"{count} of {len(claims)} claims have run",
        caption="A line per comparison: its estimate and the interval that holds for all "
        "comparisons of its claim at once with 95%. Grey: the margin, within which a difference "
        "does not matter. Of a spread: the logarithm of the ratio. Scale: linear to 1, logarithmic "
        f"beyond; an arrow: beyond {_REACH:g}.",
        panels=(_panel([claim.claim.title for claim in ran], label, marks, 11.0, _ROW * count),),
        legend=Legend({"": tuple(entries)}, "above", columns=4),
        around=1.6,
    )


def one_claim(claim: Judged) -> Figure:
    """Return the figure of a claim, a row for each comparison."""
    names = [f"{part.task}, {part.label}" if part.label else part.task for part in claim.parts]
    wrapped = [textwrap.fill(name, _LETTERS, break_long_words=False) for name in names]
    lines = max(name.count("\n") + 1 for name in wrapped)
    letters = max(len(line) for name in wrapped for line in name.split("\n"))
    marks: list[Mark] = []
    for row, part in enumerate(claim.parts):
        if part.effect is not None:
            color = STAND_COLORS[stand(part.word, claim.claim.direction)]
            marks += _interval(part, row, color, _SYMBOLS[0], small=False)
        marks.append(Text(_EDGE * 1.06, row, part.word))
    label = (
        "effect in margins, which are shaded; blue: the sentence holds, orange: not, grey: open;\n"
        f"scale: linear to 1, logarithmic beyond; an arrow: beyond {_REACH:g}"
    )
    height = (_ROW + 0.13 * (lines - 1)) * len(names)
    return Figure(
        title="",
        caption="",
        panels=(_panel(wrapped, label, marks, 6.6 + 0.07 * letters, height),),
        around=0.9,
    )


def _panel(
    names: Sequence[str], label: str, marks: Sequence[Mark], width: float, height: float
) -> Panel:
    """Return a panel of effects in margins, a row for each name."""
    ticks = tuple((_place(tick), f"{tick}") for tick in _TICKS)
    return Panel(
        title="",
        x=Axis(label, limits=(-_EDGE, _EDGE), ticks=ticks),
        y=Axis(limits=(len(names) - 0.4, -0.6), ticks=tuple(enumerate(names)), names=True),
        marks=(Span(_place(-1.0), _place(1.0)), Rule(0.0, color="v0", width=0.8), *marks),
        width=width,
        height=height,
        frame=("bottom",),
    )


def _place(effect: float) -> float:
    """Scale an effect: linear within a margin, logarithmic beyond."""
    size = abs(effect)
    return math.copysign(size if size <= 1 else 1 + math.log2(size), effect)


_EDGE = _place(_REACH)


def _interval(part: Part, row: float, color: str, symbol: Symbol, small: bool) -> Iterator[Mark]:
    """Yield an interval; what reaches beyond the edge ends there in an arrow."""
    assert part.effect is not None
    low = part.effect if part.effect_low is None else part.effect_low
    high = part.effect if part.effect_high is None else part.effect_high
    size = 2.8 if small else 4.2
    ends = [_place(min(max(x, -_REACH), _REACH)) for x in (low, high)]
    yield Interval(
        _place(part.effect),
        row,
        ends[0],
        ends[1],
        color,
        width=0.8 if small else 1.6,
        alpha=0.85,
        symbol=symbol if abs(part.effect) <= _REACH else None,
        size=size,
        hover=f"{part.task}: {part.effect:+.2f} [{low:+.2f}, {high:+.2f}], {part.word}",
    )
    if low < -_REACH:
        yield Points((-_EDGE,), (row,), color, "left", size, 1.0)
    if high > _REACH:
        yield Points((_EDGE,), (row,), color, "right", size, 1.0)


def _color(claim: Judged) -> str:
    stands = {stand(part.word, claim.claim.direction) for part in claim.parts}
    if stands == {"holds"}:
        return STAND_COLORS["holds"]
    if stands <= {"no difference", "opposite", "differs"}:
        return STAND_COLORS["opposite"]
    return "quiet"

"""Claims that ran, in margins: all in one figure, each comparison with its interval and each claim
with its verdict; and each claim by itself, a row per comparison."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ablations.report.claims.found import Judged, Part
from ablations.report.claims.words import Stand, stand, verdict
from ablations.report.figures.style import COLORS, UNDECIDED, footnote, save, style, title

_SAYS: dict[Stand, str] = {
    "holds": "#0072B2",
    "no difference": "#D55E00",
    "opposite": "#D55E00",
    "differs": "#D55E00",
    "amount": UNDECIDED,
    "undecided": UNDECIDED,
    "unstable": "#CC79A7",
    "not run": UNDECIDED,
}
_REACH = 12.0  # margins on each side; what lies beyond stands at the edge
_ROW = 0.27  # inches
_LETTERS = 48  # of a name in a line
_MARKERS = "osD^vPX*"
_TICKS = (-10, -5, -2, -1, 0, 1, 2, 5, 10)


def write(folder: Path, found: Sequence[Judged], stem: str) -> list[Path]:
    """Draws the claims into a folder as SVG, and each into a folder `stem` there; the files."""
    ran = [one for one in found if one.ran]
    with style():
        files = save(_all(ran, len(found)), folder, stem, ["svg"])
        for one in ran:
            files += save(_alone(one), folder / stem, one.claim.id, ["svg"])
    return files


def _all(found: Sequence[Judged], of: int) -> Figure:
    count = len(found)
    drawn = Figure(figsize=(11.0, 1.6 + _ROW * count), layout="constrained")
    panel = _panel(drawn, count)
    tasks = list(dict.fromkeys(part.task for one in found for part in one.parts if part.ran))
    markers = {task: _MARKERS[k % len(_MARKERS)] for k, task in enumerate(tasks)}
    for row, one in enumerate(found):
        if row % 2:
            panel.axhspan(row - 0.5, row + 0.5, color="#F7F7F7", zorder=-1)
        shown = [part for part in one.parts if part.effect is not None]
        places = np.linspace(-0.28, 0.28, len(shown)) if len(shown) > 1 else np.zeros(1)
        for part, aside in zip(shown, places, strict=False):
            look = (_SAYS[stand(part.word, one.claim.direction)], markers[part.task])
            _interval(panel, part, row + float(aside), look, small=len(shown) > 4)
        said = verdict(one)
        panel.text(_EDGE * 1.04, row, said, va="center", fontsize=8.5, color=_color(one, said))
    panel.set_yticks(range(count), [one.claim.title for one in found])
    panel.set_xlabel("effect in margins: what the sentence names, minus what it compares with")
    entries: dict[str, Stand] = {
        "the sentence holds": "holds",
        "it does not": "opposite",
        "undecided": "undecided",
    }
    handles = [
        Line2D([], [], color=_SAYS[each], linewidth=2, label=text) for text, each in entries.items()
    ]
    handles += [
        Line2D([], [], color="#444444", marker=marker, linewidth=0, markersize=4.5, label=task)
        for task, marker in markers.items()
    ]
    panel.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.3, 1.0), ncols=4, frameon=False
    )
    title(drawn, f"{count} published claims" if count == of else f"{count} of {of} claims have run")
    footnote(
        drawn,
        "A line per comparison: its estimate and the interval that holds for all comparisons of "
        "its claim at once with 95%. Grey: the margin, within which a difference does not matter. "
        "Of a spread: the logarithm of the ratio. Scale: linear to 1, logarithmic beyond; an "
        f"arrow: beyond {_REACH:g}.",
    )
    return drawn


def _alone(one: Judged) -> Figure:
    names = [f"{part.task}, {part.label}" if part.label else part.task for part in one.parts]
    wrapped = [textwrap.fill(name, _LETTERS, break_long_words=False) for name in names]
    lines = max(name.count("\n") + 1 for name in wrapped)
    letters = max(len(line) for name in wrapped for line in name.split("\n"))
    size = (6.6 + 0.07 * letters, 0.9 + (_ROW + 0.13 * (lines - 1)) * len(names))
    drawn = Figure(figsize=size, layout="constrained")
    panel = _panel(drawn, len(names))
    for row, part in enumerate(one.parts):
        if part.effect is not None:
            color = _SAYS[stand(part.word, one.claim.direction)]
            _interval(panel, part, row, (color, _MARKERS[0]), small=False)
        panel.text(_EDGE * 1.06, row, part.word, va="center", fontsize=8.5, color="#444444")
    panel.set_yticks(range(len(names)), wrapped)
    panel.set_xlabel(
        "effect in margins, which are shaded; blue: the sentence holds, orange: not, grey: open;\n"
        f"scale: linear to 1, logarithmic beyond; an arrow: beyond {_REACH:g}"
    )
    return drawn


def _panel(drawn: Figure, rows: int) -> Any:
    """An axis of effects in margins, with room for so many rows."""
    panel = drawn.subplots()
    panel.axvspan(_place(-1.0), _place(1.0), color="#EFEFEF", zorder=0)
    panel.axvline(0.0, color=COLORS[0], linewidth=0.8, zorder=1)
    panel.set_ylim(rows - 0.4, -0.6)
    panel.set_xlim(-_EDGE, _EDGE)
    panel.set_xticks([_place(tick) for tick in _TICKS], [f"{tick}" for tick in _TICKS])
    panel.tick_params(axis="y", length=0)
    panel.xaxis.grid(visible=True)
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    return panel


def _place(effect: float) -> float:
    """Linear within a margin, logarithmic beyond."""
    size = abs(effect)
    return float(np.sign(effect) * (size if size <= 1 else 1 + np.log2(size)))


_EDGE = _place(_REACH)


def _interval(panel: Any, part: Part, row: float, look: tuple[str, str], small: bool) -> None:
    """look: colour and marker. What reaches beyond the edge ends there in an arrow."""
    assert part.effect is not None
    color, marker = look
    low = part.effect if part.effect_low is None else part.effect_low
    high = part.effect if part.effect_high is None else part.effect_high
    drawn = [(part.effect, marker)] if abs(part.effect) <= _REACH else []
    drawn += [(-_REACH, "<")] if low < -_REACH else []
    drawn += [(_REACH, ">")] if high > _REACH else []
    ends = [_place(min(max(x, -_REACH), _REACH)) for x in (low, high)]
    panel.hlines(row, *ends, color=color, linewidth=0.8 if small else 1.6, alpha=0.85)
    for effect, shape in drawn:
        panel.plot(
            _place(effect),
            row,
            shape,
            color=color,
            markersize=2.8 if small else 4.2,
            mew=0,
            clip_on=False,
            zorder=3,
        )


def _color(one: Judged, said: str) -> str:
    kinds = {stand(part.word, one.claim.direction) for part in one.parts}
    if kinds == {"holds"}:
        return _SAYS["holds"]
    if kinds <= {"no difference", "opposite", "differs"}:
        return _SAYS["opposite"]
    return "#444444"

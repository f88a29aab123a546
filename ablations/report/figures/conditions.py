"""Claims under other settings as a heat map: a row per comparison, a column per condition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from ablations.report.claims.conditions import Again
from ablations.report.claims.entries import OWN
from ablations.report.claims.words import Stand
from ablations.report.figures.style import COLORS, footnote, save, style

_FILL: dict[Stand, str] = {
    "holds": "#9CCBE8",
    "no difference": "#F2B98F",
    "opposite": "#F2B98F",
    "differs": "#F2B98F",
    "amount": "#E4E4E4",
    "undecided": "#E4E4E4",
    "unstable": "#E9BFD6",
}
_ROW, _COLUMN = 0.25, 0.85  # inches


def write(folder: Path, found: Sequence[Again], stem: str) -> list[Path]:
    """Draws what ran under conditions into a folder as SVG; the files."""
    with style():
        return save(_draw(found), folder, stem, ["svg"])


def _draw(found: Sequence[Again]) -> Figure:
    tasks = list(dict.fromkeys(one.task for one in found))
    rows = list(dict.fromkeys((one.claim.id, one.label) for one in found))
    names = {(one.claim.id, one.label): _name(one) for one in found}
    columns = {task: _columns(found, task) for task in tasks}
    width = _COLUMN * sum(len(of) for of in columns.values())
    drawn = Figure(figsize=(4.2 + width, 1.9 + _ROW * len(rows)), layout="constrained")
    ratios = [len(columns[task]) for task in tasks]
    panels = drawn.subplots(1, len(tasks), sharey=True, squeeze=False, width_ratios=ratios)[0]
    for task, panel in zip(tasks, panels, strict=True):
        for one in found:
            if one.task == task:
                _cells(panel, one, columns[task], rows.index((one.claim.id, one.label)))
        panel.set_title(task, pad=8)
        panel.set_xlim(-0.5, len(columns[task]) - 0.5)
        panel.set_ylim(len(rows) - 0.5, -0.5)
        panel.set_xticks(range(len(columns[task])), [_broken(name) for name in columns[task]])
        panel.set_yticks(range(len(rows)), [names[row] for row in rows])
        panel.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
        for side in panel.spines.values():
            side.set_visible(False)
    colors: dict[str, Stand] = {
        "the sentence holds": "holds",
        "it does not": "opposite",
        "undecided": "undecided",
        "runs fail": "unstable",
    }
    handles = [Patch(color=_FILL[each], label=text) for text, each in colors.items()]
    handles += [
        Patch(fill=False, edgecolor=COLORS[0], label="another effect than at the own settings")
    ]
    drawn.legend(
        handles=handles, loc="outside upper center", ncols=5 if width > 5 else 2, frameon=False
    )
    footnote(
        drawn,
        "Numbers: the effect in margins (beyond -1 and 1 it matters), shares of what was learned "
        "there. Framed: the interval of the change excludes 0; those of one condition on one task "
        "hold at once with 95%.",
    )
    return drawn


def _columns(found: Sequence[Again], task: str) -> list[str]:
    """OWN and the conditions that ran on the task, in their order."""
    mine = [one for one in found if one.task == task]
    names = dict.fromkeys(name for one in mine for name in one.parts)
    return [
        name
        for name in names
        if name == OWN or any(one.parts[name].ran for one in mine if name in one.parts)
    ]


def _cells(panel: Any, one: Again, columns: Sequence[str], row: int) -> None:
    for column, name in enumerate(columns):
        part = one.parts.get(name)
        if part is None or not part.ran:
            continue
        corner = (column - 0.48, row - 0.45)
        fill = _FILL[one.stand(name)]
        panel.add_patch(Rectangle(corner, 0.96, 0.9, facecolor=fill, linewidth=0))
        if one.moved(name):
            panel.add_patch(Rectangle(corner, 0.96, 0.9, fill=False, edgecolor=COLORS[0]))
        if part.effect is not None:
            text = f"{round(part.effect, 1) or 0.0:+.1f}"
            panel.text(column, row, text, ha="center", va="center", fontsize=7.5)


def _name(one: Again) -> str:
    return f"{one.claim.title}: {one.label}" if one.label else one.claim.title


def _broken(name: str) -> str:
    """In two lines."""
    words = name.split()
    half = (len(words) + 1) // 2
    return (
        "\n".join((" ".join(words[:half]), " ".join(words[half:]))) if half < len(words) else name
    )

"""Claims under other settings as a heat map: a row per comparison, a column per condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablations.report.claims.conditions import Again
from ablations.report.claims.entries import OWN
from ablations.report.claims.words import Stand
from ablations.report.figures.claims import STAND_COLORS
from ablations.report.figures.marks import Axis, Cell, Entry, Figure, Legend, Matrix, Panel

_ROW, _COLUMN = 0.25, 0.85  # inches


def conditions(comparisons: Sequence[Again]) -> Figure:
    """Return the heat map of what ran under conditions, a panel for each task."""
    names = {(again.claim.id, again.label): _name(again) for again in comparisons}
    keys = list(names)
    axis = Axis(limits=(len(keys) - 0.5, -0.5), ticks=tuple(enumerate(names.values())), names=True)
    panels = []
    for task in dict.fromkeys(again.task for again in comparisons):
        on_task = [again for again in comparisons if again.task == task]
        columns = _columns(on_task)
        cells = [
            cell
            for again in on_task
            for cell in _cells(again, columns, keys.index((again.claim.id, again.label)))
        ]
        panels.append(
            Panel(
                title=task,
                x=Axis(
                    limits=(-0.5, len(columns) - 0.5),
                    ticks=tuple((k, _broken(name)) for k, name in enumerate(columns)),
                    names=True,
                    above=True,
                ),
                y=axis,
                marks=(Matrix(tuple(cells)),),
                width=_COLUMN * len(columns),
                height=_ROW * len(keys),
                frame=(),
            )
        )
    stands: dict[str, Stand] = {
        "the sentence holds": "holds",
        "it does not": "opposite",
        "undecided": "undecided",
        "runs fail": "unstable",
    }
    entries = [Entry(text, _fill(each), patch="filled") for text, each in stands.items()]
    entries.append(Entry("another effect than at the own settings", "v0", patch="outline"))
    return Figure(
        title="",
        caption="Numbers: the effect in margins (beyond -1 and 1 it matters), shares of what was "
        "learned there. Framed: the interval of the change excludes 0; those of one condition on "
        "one task hold at once with 95%.",
        panels=tuple(panels),
        legend=Legend(
            {"": tuple(entries)}, "top", 5 if sum(panel.width for panel in panels) > 5 else 2
        ),
        beside=4.2,
        around=1.9,
        share="all",
    )


def _fill(stand: Stand) -> str:
    return f"{STAND_COLORS[stand]}-back"


def _columns(comparisons: Sequence[Again]) -> list[str]:
    """Return OWN and the conditions that ran on a task, in their order."""
    names = dict.fromkeys(name for again in comparisons for name in again.parts)
    return [
        name
        for name in names
        if name == OWN or any(again.parts[name].ran for again in comparisons if name in again.parts)
    ]


def _cells(again: Again, columns: Sequence[str], row: int) -> Iterator[Cell]:
    for column, name in enumerate(columns):
        part = again.parts.get(name)
        if part is not None and part.ran:
            yield Cell(
                row,
                column,
                _fill(again.stand(name)),
                "" if part.effect is None else f"{round(part.effect, 1) or 0.0:+.1f}",
                framed=again.moved(name),
                hover=f"{name}: {part.word}",
            )


def _name(again: Again) -> str:
    return f"{again.claim.title}: {again.label}" if again.label else again.claim.title


def _broken(name: str) -> str:
    """Break a name in two lines."""
    words = name.split()
    half = (len(words) + 1) // 2
    return " ".join(words[:half]) + "\n" + " ".join(words[half:]) if half < len(words) else name

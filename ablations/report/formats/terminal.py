"""A comparison as a terminal shows it: the answer first, no wider than the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ablations.core.verdict import Verdict
from ablations.errors import count, printable
from ablations.report.formats.numbers import Digits, seeds_text, verdict_text
from ablations.report.formats.words import answer, effect
from ablations.report.tables.entries import ALL_TASKS, Entry, Table

NARROWEST = 60
_GAP = "  "


class _Mark(NamedTuple):
    sign: str
    style: str


_SAME, _OPEN = _Mark("=", "cyan"), _Mark("?", "yellow")
_BETTER, _WORSE, _OTHER = _Mark("▲", "green"), _Mark("▼", "red"), _Mark("!", "magenta")


def terminal(table: Table, width: int = 80) -> list[Text]:
    """Return the lines of a table, none wider than `width` where that is `NARROWEST` or more.

    In order: the study, the answer with its bound, and for each task what the baseline learned and
    a row per variant: mean with its 95% interval, the effect in percent of what was learned with
    its joint interval, and the verdict.
    """
    width = max(width, NARROWEST)
    seeds = max((row.n_planned for row in table.rows), default=0)
    lines = [
        _ends(f"{table.study} · {table.title}", count(seeds, "paired seed"), width),
        *_wrapped(answer(table), width),
    ]
    names = max((cell_len(row.variant) for row in table.rows), default=0)
    for task in table.places:
        rows = table.of(task)
        lines += [Text(), _ends(task, _unit(rows), width)]
        lines += _rows(rows, min(names, width // 3), width)
    return lines


def print_in_terminal(table: Table, *, caption: bool = False) -> None:
    """Print a table as wide as the terminal is; caption: and below it what its numbers mean."""
    console = Console(highlight=False)
    for line in terminal(table, console.width):
        console.print(line)
    console.print()
    if caption:
        for text in (table.caption, *table.notes):
            console.print(Text(printable(text)), end="\n\n")
    elif table.notes:
        notes = count(len(table.notes), "note")
        console.print(Text(f"{notes}: --caption; all numbers: --wide", "dim"))


def _rows(rows: Sequence[Entry], names: int, width: int) -> Iterator[Text]:
    digits = Digits(rows)
    cells = [(" ".join(digits.score(row)).strip(), effect(row), *_verdict(row)) for row in rows]
    means = max((cell_len(mean) for mean, *_ in cells), default=0)
    effects = max((cell_len(change) for _, change, *_ in cells), default=0)
    for row, (mean, change, mark, verdict) in zip(rows, cells, strict=True):
        line = Text(_GAP)
        if cell_len(row.variant) > names:  # a name that is long has a line of its own
            yield Text(_GAP + _cut(row.variant, width - len(_GAP)))
            line.append(" " * names)
        else:
            line.append(row.variant + " " * (names - cell_len(row.variant)))
        if 2 * len(_GAP) + names + means + effects + 16 > width:
            mean = mean.partition(" [")[0]
            line.append(f"{_GAP}{mean}{_GAP}{change}")
        else:
            line.append(f"{_GAP}{mean:<{means}}{_GAP}{change:<{effects}}")
        word = Text(f"{_GAP}{mark.sign} {verdict}" if verdict else "", mark.style)
        if line.cell_len + word.cell_len > width:
            yield line
            line = Text(" " * (len(_GAP) + names))
            word.truncate(width - line.cell_len, overflow="ellipsis")
        line.append_text(word)
        line.rstrip()
        yield line


def _verdict(row: Entry) -> tuple[_Mark, str]:
    if row.baseline is None or row.verdict is None:
        return _Mark(" ", "dim"), verdict_text(row) or ("" if row.baseline else "baseline")
    text = verdict_text(row)
    if row.n_failed or row.n_missing:
        text += f" · {seeds_text(row)} seeds"
    if row.verdict.same:
        return _SAME, text
    if row.verdict.sign:
        return (_BETTER if row.verdict.sign > 0 else _WORSE), text
    return (_OPEN if row.verdict is Verdict.UNDECIDED or row.verdict.too_few else _OTHER), text


def _unit(rows: Sequence[Entry]) -> str:
    head = next((row for row in rows if row.unit), None)
    if head is None or head.unit is None or head.task == ALL_TASKS:
        return ""
    margin = next((row.margin for row in rows if row.margin), None)
    unit = f"learned {head.unit:,.3g}"
    return f"{unit}; margin {100 * margin / head.unit:.3g}% of it" if margin else unit


def _ends(head: str, right: str, width: int) -> Text:
    """Return a line with text at both of its ends; the right one goes where there is no room."""
    line = Text.assemble((_cut(head, width), "bold"))
    room = width - line.cell_len - cell_len(right)
    if right and room >= len(_GAP):
        line.append(" " * room + right, "dim")
    return line


def _cut(text: str, width: int) -> str:
    cut = Text(text)
    cut.truncate(width, overflow="ellipsis")
    return cut.plain


def _wrapped(text: str, width: int) -> Iterator[Text]:
    yield from Text(printable(text)).wrap(Console(width=width), width)

"""The layout of a command's help: two columns of plain text, 80 wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from cyclopts.help import HelpEntry, HelpPanel
from rich.console import Console, ConsoleOptions

from ablations.parameters import RARE

WIDTH = 80
LEFT = 24


class Screens:
    """A help formatter of cyclopts. rare: show the rare flags too."""

    def __init__(self, *, rare: bool) -> None:
        """Make a formatter for one screen."""
        self.rare = rare

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print the parameters of a group."""
        if panel.title == RARE.name and not self.rare:
            return
        entries = [entry for entry in panel.entries if "--help" not in entry.names]
        if entries:
            self._print(console, [f"{panel.title}:"])
        for entry in entries:
            self._print(console, _lines(entry))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the first line."""
        self._print(console, [str(usage).strip()])

    def render_description(
        self, console: Console, options: ConsoleOptions, description: Any
    ) -> None:
        """Print what the command does."""
        self._print(console, ["", _filled(description.primary_renderable.plain), ""])

    def _print(self, console: Console, lines: Iterable[str]) -> None:
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def _filled(text: str, left: int = 0) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH - left, break_on_hyphens=False)


def _lines(entry: HelpEntry) -> list[str]:
    value = "|".join(entry.choices) if entry.choices else entry.metavar
    label = entry.positional_label or " ".join(filter(None, [*entry.names[:1], value]))
    text = entry.description.primary_renderable.plain if entry.description else ""
    left = " " * (LEFT + 2)
    first, *rest = _filled(text, LEFT + 2).splitlines() or [""]
    fits = len(label) < LEFT
    heads = [f"  {label:<{LEFT - 1}} {first}"] if fits else [f"  {label}", left + first]
    return [*heads, *(left + line for line in rest)]

"""The layout of a command's help: two columns of plain text, 80 wide."""

from __future__ import annotations

import textwrap
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
        entries = [entry for entry in panel.entries if "--help" not in entry.names]
        if entries and (self.rare or panel.title != RARE.name):
            _print(console, f"{panel.title}:", *map(_entry, entries))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the first line."""
        _print(console, str(usage).strip())

    def render_description(self, console: Console, options: ConsoleOptions, text: Any) -> None:
        """Print what the command does."""
        _print(console, "", _filled(text.primary_renderable.plain), "")


def _print(console: Console, *lines: str) -> None:
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _filled(text: str, first: str = "", left: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=left, break_on_hyphens=False
    )


def _entry(entry: HelpEntry) -> str:
    value = "|".join(entry.choices) if entry.choices else entry.metavar
    label = entry.positional_label or " ".join(filter(None, [*entry.names[:1], value]))
    text = entry.description.primary_renderable.plain if entry.description else ""
    left = " " * (LEFT + 2)
    fits = len(label) < LEFT
    filled = _filled(text, f"  {label:<{LEFT - 1}} " if fits else left, left)
    return filled if fits else f"  {label}\n{filled}"

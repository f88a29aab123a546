"""The command `completion`: a script by which a shell completes commands, flags and names."""

from __future__ import annotations

import argparse

from ablations import plugins
from ablations.cli import parser
from ablations.cli.arguments import Parser
from ablations.cli.catalogue import catalogue

SHELLS = ("bash", "zsh", "tcsh")
# Destination of an argument -> the kind of `list` whose names complete it.
NAMED = {
    "studies": "studies",
    "study": "studies",
    "tasks": "tasks",
    "task": "tasks",
    "preset": "presets",
    "base": "presets",
    "against": "presets",
    "presets": "presets",
}


def add_completion(command: Parser) -> None:
    """Add the flags of `completion`."""
    command.add_argument("shell", choices=SHELLS)


def run_completion(options: argparse.Namespace) -> None:
    """Print the script of a shell."""
    import shtab

    plugins.load()
    names = {kind: list(catalogue(kind)) for kind in set(NAMED.values())}
    root = parser()
    for each in root.every():
        for action in each._actions:
            kind = None if action.choices else NAMED.get(action.dest)
            if kind is not None and not (kind == "presets" and each.prog.endswith("gate")):
                action.choices = names[kind]
            elif action.type is not None and getattr(action.type, "__name__", "") == "Path":
                vars(action)["complete"] = shtab.FILE
    print(shtab.complete(root, options.shell))

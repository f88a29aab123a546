"""The command `completion`: a script by which a shell completes commands, flags and names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from ablations.cli.arguments import Commands, Parser, add_command, load_installed_plugins

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


def add_commands(commands: Commands) -> None:
    """Add the command `completion`."""
    summary = 'a script for a shell: eval "$(ablations completion bash)"'
    command = add_command(commands, "completion", _completion, summary, reads_records="none")
    command.add_argument("shell", choices=SHELLS)


def _completion(options: argparse.Namespace) -> None:
    import shtab

    from ablations.cli import parser
    from ablations.cli.catalogue import catalogue

    load_installed_plugins()
    names = {kind: list(catalogue(kind)) for kind in set(NAMED.values())}
    root = parser()
    for each in _parsers(root):
        for action in each._actions:
            kind = None if action.choices else NAMED.get(action.dest)
            if kind is not None and not (kind == "presets" and each.prog.endswith("gate")):
                action.choices = names[kind]
            elif action.type is not None and getattr(action.type, "__name__", "") == "Path":
                vars(action)["complete"] = shtab.FILE
    print(shtab.complete(root, options.shell))


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below: Sequence[Parser] = list(action.choices.values())
            for command in below:
                yield from _parsers(command)

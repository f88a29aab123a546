"""The command `tune`: what a study's variants are run at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.cli.arguments import (
    Commands,
    add_command,
    add_flags,
    load_installed_plugins,
    positive,
)
from ablations.cli.output import add_json, print_json
from ablations.core.decode import as_json
from ablations.errors import UserError

if TYPE_CHECKING:
    from ablations.studies.tuned import Tuned


def add_commands(commands: Commands) -> None:
    """Add the command `tune`."""
    command = add_command(
        commands,
        "tune",
        _tune,
        "choose each variant's learning rate, or what a study tunes, on seeds of its own",
    )
    command.add_argument("study", metavar="STUDY")
    add_flags(
        command,
        {"--tasks T": "these alone", "--variants V": "these alone"},
        nargs="+",
        action="extend",
    )
    add_flags(command, {"--output FILE": "default: the file that the study reads"}, type=Path)
    add_flags(command, {"--show": "print what was chosen, and run nothing"}, action="store_true")
    add_flags(command, {"--workers N": "default: one per core"}, type=positive)
    add_flags(command, {"--quiet": "no progress display"}, action="store_true")
    add_json(command)


def _tune(options: argparse.Namespace) -> None:
    from ablations import studies, tuning

    load_installed_plugins()
    if options.show:
        tuning_of_study = studies.study(options.study).tuning
        tuned: Tuned = tuning_of_study.read() if tuning_of_study else {}
        if not tuned:
            raise UserError(f"nothing was tuned for '{options.study}'")
    else:
        tuned = tuning.tune(
            options.study,
            options.results,
            tasks=options.tasks,
            variants=options.variants,
            output=options.output,
            workers=options.workers,
            quiet=options.quiet or options.json,
        )
    if options.json:
        print_json(as_json(tuned))
    else:
        print(tuning.table(tuned), end="")

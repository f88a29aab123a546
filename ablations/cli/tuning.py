"""The command `tune`: what a study's variants are run at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.cli.arguments import Commands, add_command, load_installed_plugins, positive
from ablations.cli.output import add_json, print_json
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
    command.add_argument("--tasks", nargs="+", action="extend", metavar="T", help="these alone")
    command.add_argument("--variants", nargs="+", action="extend", metavar="V", help="these alone")
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="default: the file that the study reads"
    )
    command.add_argument(
        "--show", action="store_true", help="print what was chosen, and run nothing"
    )
    command.add_argument("--workers", type=positive, metavar="N", help="default: one per core")
    command.add_argument("--quiet", action="store_true", help="no progress display")
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
        print_json(tuned)
    else:
        print(tuning.table(tuned), end="")

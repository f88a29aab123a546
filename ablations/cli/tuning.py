"""The command `tune`: what a study's variants are run at."""

from __future__ import annotations

import argparse
from pathlib import Path

from ablations import plugins, studies, tuning
from ablations.cli.arguments import Parser, add_flags, positive
from ablations.cli.output import add_json, print_json
from ablations.core.decode import as_json
from ablations.errors import UserError
from ablations.studies.tuned import Tuned


def add_tune(command: Parser) -> None:
    """Add the flags of `tune`."""
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


def run_tune(options: argparse.Namespace) -> None:
    """Tune the variants of a study, or print what was chosen."""
    plugins.load()
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

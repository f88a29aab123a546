"""The commands `validate` and `tune`: which tasks can judge a detail, and at which settings.

`validate` is the validation of tasks (`ablations.validate`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ablations import plugins, studies, tune, validate
from ablations.cli.arguments import Parser, add_flags, positive, whole
from ablations.cli.output import add_format, add_json, alone, print_json
from ablations.cli.running import add_running, run_and_show
from ablations.core.decode import as_json
from ablations.errors import UserError
from ablations.request import parse_settings, seeds_of
from ablations.studies.library_defaults import DEFAULTS
from ablations.studies.tuned import Tuned
from ablations.tables import format_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


def add_validate(command: Parser) -> None:
    """Add the flags of `validate`."""
    command.add_argument("tasks", nargs="+", metavar="TASK")
    add_flags(command, {"--study S": "its baseline is validated; default: PPO's"}, default="exam")
    add_flags(command, {"--profile": "of the study; default: paper"}, default="paper")
    add_flags(
        command, {"--rates A,B,...": "learning rates of the baseline; default: 3e-4,1e-3,3e-3"}
    )
    add_flags(command, {"--presets P": "libraries, whose scores count for the best one"}, nargs="*")
    add_flags(command, {"--steps N": "of the longest run"}, type=whole)
    add_flags(command, {"--seeds N|FIRST-LAST": "default: 1000-1004, tuning's"}, type=seeds_of)
    add_flags(
        command, {"--set NAME=VALUE": "a setting of the baseline"}, nargs="+", action="extend"
    )
    add_format(command)
    add_running(command)
    command.set_defaults(until=None)


def run_validate(options: argparse.Namespace) -> int:
    """Run the missing runs of a validation, and print its table; return the exit code."""
    plugins.load()
    alone(options)
    planned = validate.plans(
        validate.requests(
            options.tasks,
            rates=_rates(options.rates),
            presets=() if options.presets is None else tuple(options.presets or DEFAULTS),
            seeds=options.seeds or validate.SEEDS,
            steps=options.steps,
            profile=options.profile,
            settings=parse_settings(options.set or []),
            study=options.study,
        )
    )

    def drawn() -> DataFrame:
        runs = validate.read(planned, options.results)
        frame = validate.table(runs)
        _draw(validate.figure(runs, frame.attrs["levels"]), options.results / "figures")
        return frame

    return run_and_show(options, planned, drawn)


def _draw(figure: Figure, folder: Path) -> None:
    from ablations.figures import write

    try:
        paths = write(figure, folder / "validation")
    except OSError as error:
        raise UserError(f"cannot write into '{folder}': {error.strerror}") from None
    print(*paths, sep="\n", file=sys.stderr)  # beside a table that another program may read


def _rates(given: str | None) -> tuple[float, ...]:
    if given is None:
        return validate.RATES
    try:
        rates = tuple(float(rate) for rate in given.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(rate > 0 for rate in rates):
        raise UserError(f"--rates takes numbers above 0 such as 3e-4,1e-3, not '{given}'")
    return rates


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
        tuned = tune.tune(
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
        print(format_table(tune.table(tuned)))

"""The command `exam`: whether tasks can judge a detail."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.cli.arguments import Commands, add_command, load_installed_plugins, whole
from ablations.cli.output import add_format, alone
from ablations.cli.running import add_running, run_and_show
from ablations.errors import UserError
from ablations.request import parse_settings, seeds_of

if TYPE_CHECKING:
    from ablations.report.exam import Task
    from ablations.report.tables.entries import Sheet


def add_commands(commands: Commands) -> None:
    """Add `exam` to the parser."""
    command = add_command(
        commands, "exam", _exam, "whether a baseline learns enough on tasks to judge details there"
    )
    command.add_argument("tasks", nargs="+", metavar="TASK")
    command.add_argument(
        "--study", default="exam", metavar="S", help="whose baseline; default: PPO's own"
    )
    command.add_argument("--profile", default="paper", help="whose settings; default: paper")
    command.add_argument(
        "--rates", metavar="A,B,...", help="learning rates of the baseline; default: 3e-4,1e-3,3e-3"
    )
    command.add_argument(
        "--presets", nargs="*", metavar="P", help="libraries that the best score is sought among"
    )
    command.add_argument("--steps", type=whole, metavar="N", help="of the longest run")
    command.add_argument(
        "--seeds", type=seeds_of, metavar="N|FIRST-LAST", help="default: 1000-1004, tuning's"
    )
    command.add_argument(
        "--set", nargs="+", action="extend", metavar="NAME=VALUE", help="a setting of the baseline"
    )
    add_format(command)
    add_running(command)
    command.set_defaults(until=None)


def _exam(options: argparse.Namespace) -> int:
    from ablations import exam
    from ablations.report.exam import sheet

    load_installed_plugins()
    alone(options)
    planned = exam.plans(
        exam.requests(
            options.tasks,
            rates=_rates(options.rates),
            presets=_presets(options.presets),
            seeds=options.seeds or exam.SEEDS,
            steps=options.steps,
            profile=options.profile,
            settings=parse_settings(options.set or []),
            study=options.study,
        )
    )

    def drawn() -> Sheet:
        tasks = exam.results_of(planned, options.results)
        _draw(tasks, options.results / "figures")
        return sheet(tasks)

    return run_and_show(options, planned, drawn)


def _draw(tasks: Sequence[Task], folder: Path) -> None:
    from ablations.report.figures.files import write_exam

    try:
        paths = write_exam(tasks, folder)
    except OSError as error:
        raise UserError(f"cannot write into '{folder}': {error.strerror}") from None
    print(*paths, sep="\n", file=sys.stderr)  # beside a table that another program may read


def _rates(given: str | None) -> tuple[float, ...]:
    from ablations import exam

    if given is None:
        return exam.RATES
    try:
        return tuple(float(rate) for rate in given.split(","))
    except ValueError:
        raise UserError(f"--rates takes numbers such as 3e-4,1e-3, not '{given}'") from None


def _presets(given: list[str] | None) -> tuple[str, ...]:
    """Return the presets of control that were named; every one where none was."""
    from ablations.studies.library_defaults import DEFAULTS

    return () if given is None else tuple(given or DEFAULTS)

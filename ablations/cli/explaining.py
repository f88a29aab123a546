"""The command `explain`: which details make the gap between two presets or variants."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ablations.cli.arguments import add_command, add_selection, load_installed_plugins, selection
from ablations.cli.running import add_running, carry_out
from ablations.request import Request

if TYPE_CHECKING:
    from ablations.records import Plan


def add_commands(commands: object) -> None:
    one = add_command(
        commands,
        "explain",
        _explain,
        "which details make the gap between two presets, or two variants of studies",
    )
    one.add_argument("start", metavar="A", help="a preset, or a variant such as gae/brax")
    one.add_argument("end", metavar="B")
    add_selection(one)
    one.add_argument(
        "--task", nargs="+", action="extend", dest="tasks", metavar="T", help="same as --tasks"
    )
    one.add_argument(
        "--together",
        action="append",
        default=[],
        metavar="NAME,NAME,...",
        help="details to switch as one; repeatable",
    )
    add_running(one)


def _explain(options: argparse.Namespace) -> int:
    from ablations.sweep import explanation

    load_installed_plugins()
    given = {name: value for name, value in selection(options).items() if value is not None}
    plan = explanation.plan(
        Request(
            explanation.name_of(options.start, options.end),
            explain=(options.start, options.end),
            together=tuple(tuple(names.split(",")) for names in options.together),
            **given,
        )
    )
    return carry_out(options, [plan])

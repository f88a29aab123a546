"""The command `sweep`: values of any setting, or libraries, without a study file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ablations import plugins
from ablations.cli.arguments import Parser, add_selection, selection
from ablations.cli.output import add_format, alone
from ablations.cli.running import add_running, run_and_show
from ablations.errors import UserError
from ablations.presets import presets as known
from ablations.request import parse_levels
from ablations.runs import Runs
from ablations.sweep.plan import comparison_request, plan
from ablations.tables import table_of


def add_sweep(command: Parser) -> None:
    """Add the flags of `sweep`."""
    command.add_argument(
        "compared",
        nargs="+",
        metavar="NAME=A,B|PRESET",
        help="a setting and its values, the first of them the baseline; or presets, such as sb3 "
        "cleanrl",
    )
    add_selection(command)
    add_format(command)
    add_running(command)


def run_sweep(options: argparse.Namespace) -> int:
    """Run what a comparison lacks, and print its table; return the exit code."""
    plugins.load()
    alone(options)
    if options.vary:
        raise UserError("--vary is for studies: name what is to be compared instead")
    compared = plan(comparison_request(_levels(options.compared), selection(options)))
    return run_and_show(options, [compared], lambda: table_of(Runs.read(options.results, compared)))


def _require_pair(presets: Sequence[str]) -> None:
    """Raise UserError for what stands alone: a setting without values, a single library."""
    if len(presets) != 1:
        return
    (name,) = presets
    if name.lower() in known():
        other = next(each for each in known() if each != name.lower())
        raise UserError(f"name at least two presets, for example {name} {other}")
    raise UserError(f"'{name}' has no values: name two or more, such as {name}=A,B; or two presets")


def _levels(compared: Sequence[str]) -> dict[str, list[Any]]:
    """Return what is varied, over which values."""
    presets = [text for text in compared if "=" not in text]
    _require_pair(presets)
    levels = parse_levels(text for text in compared if "=" in text)
    return levels | ({"preset": presets} if presets else {})

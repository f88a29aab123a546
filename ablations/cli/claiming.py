"""The command `claims`: published claims, judged by the records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import add_command
from ablations.errors import UserError, unknown

if TYPE_CHECKING:
    from ablations.records import Plan
    from ablations.report.claims.entries import Claim

COMPILE_SECONDS = 80.0  # of a Brax task, see docs/performance.md


def add_commands(commands: Any) -> None:
    one = add_command(commands, "claims", _claims, "published claims, judged by the records")
    one.add_argument(
        "--file", type=Path, metavar="FILE", help="default: claims.toml in the results folder"
    )
    one.add_argument("--cost", action="store_true", help="what their runs cost, and nothing else")
    one.add_argument(
        "--rate",
        nargs="+",
        action="extend",
        default=[],
        metavar="TASK=N",
        help="of --cost: steps per second of one core; default: as measured, else assumed",
    )


def _claims(options: argparse.Namespace) -> None:
    from ablations.report.claims.entries import read

    claims = read(options.file or options.results / "claims.toml")
    if options.rate and not options.cost:
        raise UserError("--rate is for --cost")
    if options.cost:
        _cost(options, claims)
        return


def _cost(options: argparse.Namespace, claims: list[Claim]) -> None:
    from ablations.report import formats
    from ablations.report.claims.cost import commands, cost_sheet

    plans = _plans(claims, options.results)
    rates = _rates(options, list(plans.values()))
    sheet = cost_sheet(list(plans.values()), rates, COMPILE_SECONDS)
    print(formats.render(sheet, "markdown"))
    for profile in dict.fromkeys(profile for _, profile in plans):
        mine = [plan for (_, asked), plan in plans.items() if asked == profile]
        print(*commands(mine, profile), sep="\n")


def _plans(claims: list[Claim], results: Path) -> dict[tuple[str, str], Plan]:
    """(study, profile) -> its plan, in the order in which claims first ask for it."""
    from ablations.sweep.planned import planned

    asked = dict.fromkeys((claim.study, claim.profile) for claim in claims)
    return {
        (study, profile): planned([study], results, {"profile": profile})[0]
        for study, profile in asked
    }


def _rates(options: argparse.Namespace, plans: list[Plan]) -> dict[str, float]:
    from ablations.sweep.cell import cells_of
    from ablations.sweep.slurm import packing

    first = {cell.task: cell for plan in plans for cell in cells_of(plan)}
    given = {}
    for text in options.rate:
        task, equals, number = text.partition("=")
        try:
            given[task] = float(number.replace("_", ""))
        except ValueError:
            given[task] = 0.0
        if not equals or not 0 < given[task] < float("inf"):
            raise UserError(f"--rate takes TASK=N, such as hopper=35000, not '{text}'")
        if task not in first:
            raise unknown("task of the claims", task, first)
    rest = [cell for task, cell in first.items() if task not in given]
    found = packing.speeds(options.results, rest, accelerator=False)
    return {cell.task: found[cell.program()].rate for cell in rest} | given

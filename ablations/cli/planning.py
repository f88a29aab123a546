"""The command `seeds`: how many a comparison needs, without a study."""

from __future__ import annotations

import argparse

from ablations.cli.arguments import Commands, add_command, positive, warn
from ablations.cli.output import add_format, print_table
from ablations.errors import UserError


def add_commands(commands: Commands) -> None:
    """Add the command `seeds`."""
    command = add_command(
        commands,
        "seeds",
        _seeds,
        "how many seeds a comparison needs, from a standard deviation or from runs",
        reads_records="none",
    )
    command.add_argument(
        "files", nargs="*", metavar="FILE|FOLDER", help="runs, as `ablations import` reads them"
    )
    command.add_argument("--metric", help="their column or tag; default: the return")
    command.add_argument("--sd", type=float, metavar="X", help="standard deviation between seeds")
    command.add_argument(
        "--of", type=positive, metavar="N", help="seeds that --sd was estimated from"
    )
    command.add_argument(
        "--margin", type=float, required=True, metavar="X", help="a difference that matters"
    )
    command.add_argument(
        "--correlation",
        type=float,
        default=0.0,
        metavar="R",
        help="of the two sides on equal seeds; default: 0, nothing gained by pairing",
    )
    command.add_argument("--power", type=float, default=0.8, help="default: 0.8")
    add_format(command)


def _seeds(options: argparse.Namespace) -> None:
    from ablations.exchange.sources import final_scores
    from ablations.report.tables.seeds import Spread, seeds_sheet, spread_of

    if bool(options.files) == (options.sd is not None):
        raise UserError("give a FILE of runs, or --sd")
    if options.files:
        scores, notes = final_scores(options.files, options.metric)
        warn(notes)
        spreads = {place: spread_of(of_seeds) for place, of_seeds in scores.items()}
    elif not 0 < options.sd < float("inf") or options.of == 1:
        raise UserError("--sd is a positive number, of two seeds or more")
    else:
        spreads = {("", ""): Spread(options.sd, options.of)}
    sheet = seeds_sheet(
        spreads, options.margin, correlation=options.correlation, power=options.power
    )
    print_table(sheet, options.format)

"""The command `seeds`: how many a comparison needs, without a study."""

from __future__ import annotations

import argparse

from ablations.cli.arguments import Parser, add_flags, positive, warn
from ablations.cli.output import add_format
from ablations.errors import UserError
from ablations.exchange.sources import final_scores
from ablations.report.formats import render
from ablations.report.tables.seeds import Spread, seeds_sheet, spread_of


def add_seeds(command: Parser) -> None:
    """Add the flags of `seeds`."""
    command.add_argument(
        "files", nargs="*", metavar="FILE|FOLDER", help="runs, as `ablations import` reads them"
    )
    add_flags(command, {"--metric": "their column or tag; default: the return"})
    add_flags(command, {"--sd X": "standard deviation between seeds"}, type=float)
    add_flags(command, {"--of N": "seeds that --sd was estimated from"}, type=positive)
    add_flags(command, {"--margin X": "a difference that matters"}, type=float, required=True)
    add_flags(
        command,
        {
            "--correlation R": "of the two sides on equal seeds; default: 0, nothing gained by "
            "pairing"
        },
        type=float,
        default=0.0,
    )
    add_flags(command, {"--power": "default: 0.8"}, type=float, default=0.8)
    add_format(command)


def run_seeds(options: argparse.Namespace) -> None:
    """Print how many seeds a comparison needs."""
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
    print(render(sheet, options.format))

"""The command `seeds`: how many a comparison needs, without a study."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ablations.cli.arguments import add_command, positive
from ablations.cli.results import FORMATS
from ablations.errors import UserError


def add_commands(commands: Any) -> None:
    one = add_command(
        commands,
        "seeds",
        _seeds,
        "how many seeds a comparison needs, from a standard deviation or a CSV of runs",
        reads_records="none",
    )
    one.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="CSV with run, seed, step, return"
    )
    one.add_argument("--metric", help="the file's column; default: the return")
    one.add_argument("--sd", type=float, metavar="X", help="standard deviation between seeds")
    one.add_argument("--of", type=positive, metavar="N", help="seeds that --sd was estimated from")
    one.add_argument(
        "--margin", type=float, required=True, metavar="X", help="a difference that matters"
    )
    one.add_argument(
        "--correlation",
        type=float,
        default=0.0,
        metavar="R",
        help="of the two sides on equal seeds; default: 0, nothing gained by pairing",
    )
    one.add_argument("--power", type=float, default=0.8, help="default: 0.8")
    one.add_argument("--format", choices=FORMATS, default="markdown")


def _seeds(options: argparse.Namespace) -> None:
    from ablations.report import formats
    from ablations.report.tables.seeds_planned import Spread, seeds_sheet, spreads_in

    if (options.file is None) == (options.sd is None):
        raise UserError("give a FILE of runs, or --sd")
    if options.file is not None:
        spreads = spreads_in(options.file, options.metric)
    elif not 0 < options.sd < float("inf") or options.of == 1:
        raise UserError("--sd is a positive number, of two seeds or more")
    else:
        spreads = {("", ""): Spread(options.sd, options.of)}
    made = seeds_sheet(
        spreads, options.margin, correlation=options.correlation, power=options.power
    )
    print(formats.render(made, options.format))

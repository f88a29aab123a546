"""The command `seeds`: how many a comparison needs, without a study."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ablations.cli.arguments import Commands, add_command, positive
from ablations.cli.output import add_format
from ablations.errors import UserError

if TYPE_CHECKING:
    from ablations.report.tables.seeds_planned import Spread


def add_commands(commands: Commands) -> None:
    """Add the command `seeds`."""
    one = add_command(
        commands,
        "seeds",
        _seeds,
        "how many seeds a comparison needs, from a standard deviation or from runs",
        reads_records="none",
    )
    one.add_argument(
        "files", nargs="*", metavar="FILE|FOLDER", help="runs, as `ablations import` reads them"
    )
    one.add_argument("--metric", help="their column or tag; default: the return")
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
    add_format(one)


def _spreads(options: argparse.Namespace) -> dict[tuple[str, str], Spread]:
    """Return the spread of each task and run, by the means of the last tenth of each curve."""
    import numpy as np

    from ablations.exchange.sources import Rule, read_all
    from ablations.report.tables.seeds_planned import spread_of

    notes: list[str] = []
    scores: dict[tuple[str, str], list[float]] = {}
    for read in read_all(options.files, Rule(metric=options.metric), notes):
        for (task, run, seed), curve in read.curves.items():
            last = curve.values[read.metric][10 * curve.steps >= 9 * curve.steps[-1]]
            last = last[~np.isnan(last)]
            if not len(last) or np.isinf(last).any():
                raise UserError(
                    f"'{run}' on '{task}', seed {seed}, has no finite {read.metric} in the last "
                    f"tenth of its steps ({curve.source}): leave it out or train it again"
                )
            scores.setdefault((task, run), []).append(float(last.mean()))
    for note in notes:
        print(note, file=sys.stderr)
    return {place: spread_of(of_seeds) for place, of_seeds in scores.items()}


def _seeds(options: argparse.Namespace) -> None:
    from ablations.report import formats
    from ablations.report.tables.seeds_planned import Spread, seeds_sheet

    if bool(options.files) == (options.sd is not None):
        raise UserError("give a FILE of runs, or --sd")
    if options.files:
        spreads = _spreads(options)
    elif not 0 < options.sd < float("inf") or options.of == 1:
        raise UserError("--sd is a positive number, of two seeds or more")
    else:
        spreads = {("", ""): Spread(options.sd, options.of)}
    made = seeds_sheet(
        spreads, options.margin, correlation=options.correlation, power=options.power
    )
    print(formats.render(made, options.format))

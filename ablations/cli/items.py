"""The command `items`: success rates, and two evaluations compared item by item."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ablations.cli.arguments import Parser, add_flags
from ablations.cli.output import add_format
from ablations.errors import UserError
from ablations.exchange.items import Columns, on_both, read_items
from ablations.gate.items import ItemTest, items_sheet, rates_sheet
from ablations.gate.question import CODES, Margin
from ablations.report.formats import render


def add_items(command: Parser) -> None:
    """Add the flags of `items`."""
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="CSV or JSON lines")
    add_flags(
        command, {"--against FILE": "the baseline's, on the same items"}, nargs="+", type=Path
    )
    add_flags(command, {"--item NAME": "column; default: item"}, default="item")
    add_flags(command, {"--metric NAME": "column: a number or true"}, required=True)
    add_flags(
        command,
        {
            "--cluster NAME": "column of what items share: a passage, a repository",
            "--margin SIZE": "the difference that does not matter: 0.02, or 2%% of the "
            "baseline's mean; default: 0.02",
        },
    )
    add_flags(command, {"--better": None}, choices=("higher", "lower"), default="higher")
    add_flags(
        command,
        {"--require": "pass only what gains; default: what is no worse"},
        choices=("better",),
    )
    add_format(command)


def run_items(options: argparse.Namespace) -> int:
    """Print rates, or compare two evaluations; return the exit code."""
    columns = Columns(options.item, options.metric, options.cluster)
    ours = read_items(options.files, columns)
    if options.against is None:
        if options.margin or options.require:
            raise UserError("nothing to compare: --against FILE")
        print(render(rates_sheet(options.metric, ours.scores, ours.clusters), options.format))
        return 0
    theirs = read_items(options.against, columns)
    both = on_both(ours, theirs)
    if left := len({*ours.names} ^ {*theirs.names}):
        print(f"ablations: left out: {left} items that one side has alone", file=sys.stderr)
    if both[0].clusters != both[1].clusters:
        raise UserError(f"an item has another {options.cluster} on the other side")
    test = ItemTest(
        options.metric,
        both[0].scores,
        both[1].scores,
        both[0].clusters,
        Margin.read(options.margin or "0.02"),
        better=options.require == "better",
        lower=options.better == "lower",
    )
    print(render(items_sheet(test), options.format))
    return CODES[test.word]

"""`check --history`, one run a night, and `check --paper`, a published mean ± SD."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ablations.cli.arguments import positive
from ablations.cli.shares import share
from ablations.errors import UserError
from ablations.regression import EFFECT

OF_HISTORY = ("nights", "rate", "night", "since", "better")
_OF_BASELINES = ("alpha", "seeds", "paired", "exact", "records", "figures", "workers")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add what `check` takes for nights and papers."""
    group = command.add_argument_group("one run a night, in place of a baseline")
    group.add_argument(
        "--history",
        type=Path,
        metavar="FILE",
        help="a table or JSON lines with a row a night, or a folder with a run a night: is tonight "
        "worse than the nights before, and do they drift",
    )
    group.add_argument("--metric", metavar="NAME", help="column or tag of the history or the runs")
    group.add_argument("--better", choices=("higher", "lower"), help="default: higher")
    group.add_argument(
        "--nights", type=positive, metavar="N", help="that tonight is compared with; default: 39"
    )
    group.add_argument(
        "--rate", type=share, metavar="SHARE", help="of false alarms, of each night; default: 5%%"
    )
    group.add_argument("--night", metavar="NAME", help="column with the names of the nights")
    group.add_argument("--since", metavar="NIGHT", help="leave out the nights before this one")
    group = command.add_argument_group("a paper's result, in place of a baseline")
    group.add_argument(
        "--paper",
        metavar="RESULT",
        help="'3200 ± 450 / 5', mean ± SD / seeds, against the runs that are named",
    )


def refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raise UserError for the first of the flags that was given."""
    for name in names:
        if getattr(options, name) not in (None, False):
            raise UserError(f"--{name} {why}")


def effect_of(options: argparse.Namespace) -> float:
    """Return --effect, or its default. Raises UserError for one that is not above 0."""
    effect: float = EFFECT if options.effect is None else options.effect
    if not 0 < effect < float("inf"):
        raise UserError(f"--effect must be above 0, not {effect:g}")
    return effect


def check_history(options: argparse.Namespace) -> int:
    """Print whether tonight is as the nights before; return the exit code."""
    from ablations.regression import history
    from ablations.regression.nights import read_nights

    if options.baselines:
        raise UserError("--history is in place of a baseline: leave one of them out")
    refuse(options, ("paper",), "is in place of --history: leave one of them out")
    why = "is of a baseline: --history takes --nights, --rate and --better"
    refuse(options, (*_OF_BASELINES, "effect"), why)
    if options.metric is None:
        raise UserError("--history needs --metric, the column of a night's result")
    read = read_nights(options.history, options.metric, options.night)
    if options.since is not None:
        read = read.since(options.since)
    terms = history.Terms(
        options.nights or history.NIGHTS,
        options.rate or history.RATE,
        lower_is_better=options.better == "lower",
    )
    for note in read.notes:
        print(note, file=sys.stderr)
    check = history.check_nights(read.values, terms, read.names)
    _print(options, options.metric, check.text)
    return 1 if check.failed else 0


def check_against_paper(options: argparse.Namespace) -> int:
    """Print whether runs are compatible with a paper's result; return the exit code."""
    from ablations.exchange.sources import final_scores
    from ablations.regression.paper import check_paper, read_paper

    paper = read_paper(options.paper)
    if not options.baselines:
        raise UserError("--paper needs the files or folders of your runs")
    why = "is not of --paper, which takes --effect and --metric"
    refuse(options, (*OF_HISTORY, *_OF_BASELINES), why)
    effect = effect_of(options)
    scores, notes = final_scores(options.baselines, options.metric)
    for note in notes:
        print(note, file=sys.stderr)
    codes = []
    for (task, run), values in scores.items():
        check = check_paper(values, paper, effect)
        text = f"{check.text}; {len(values)} seeds against {paper.n}"
        _print(options, f"{run} on {task}", text)
        codes.append(check.code)
    return max(codes, key=lambda code: (code == 1, code), default=0)


def _print(options: argparse.Namespace, name: str, text: str) -> None:
    print(f"- **{name}**: {text}" if options.format == "markdown" else f"{name}: {text}")

"""The command `render`: episodes of saved policies."""

from __future__ import annotations

import argparse
from pathlib import Path

from ablations import plugins
from ablations.cli.arguments import Parser, add_flags, add_studies, positive, whole
from ablations.cli.selected import plans


def add_render(command: Parser) -> None:
    """Add the flags of `render`."""
    add_studies(command, 1)
    add_flags(command, {"--task T": "may be left out where the study has one"})
    add_flags(command, {"--variant V": "several: side by side; default: the baseline"}, nargs="+")
    add_flags(command, {"--seed S": "default: 0"}, type=whole, default=0)
    add_flags(
        command,
        {
            "--snapshot best|last|all|N": "which saved policies of a run, by step, several side "
            "by side; default: best"
        },
        nargs="+",
        default=["best"],
    )
    add_flags(command, {"--format": "default: html"}, choices=("html", "gif"))
    add_flags(command, {"--length N": "steps of an episode at most"}, type=positive)
    add_flags(command, {"--output FILE": "default: under render/ in the results folder"}, type=Path)


def run_render(options: argparse.Namespace) -> None:
    """Write episodes of saved policies."""
    plugins.load()
    (plan,) = plans(options)
    from ablations.episode.render import Selected, render

    selected = Selected(
        task=options.task,
        variants=options.variant or [None],
        seed=options.seed,
        snapshots=options.snapshot,
        length=options.length,
    )
    print(render(plan, options.results, selected, format=options.format, output=options.output))

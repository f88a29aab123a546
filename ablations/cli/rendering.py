"""The command `render`: episodes of saved policies."""

from __future__ import annotations

import argparse
from pathlib import Path

from ablations import plugins
from ablations.cli.arguments import Parser, add_flags, add_studies, positive, selection, whole
from ablations.cli.selected import plans
from ablations.errors import UserError
from ablations.trainers.control.brax_checkpoints import brax_checkpoints


def add_render(command: Parser) -> None:
    """Add the flags of `render`."""
    add_studies(command, 1)
    add_flags(command, {"--task T": "may be left out where the study has one"})
    add_flags(
        command,
        {
            "--variant V": "several: side by side; default: the baseline. Checkpoints of Brax's "
            "PPO, by their folder, here or in place of the study"
        },
        nargs="+",
    )
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
    (name,) = options.studies
    if brax_checkpoints(name):
        plan, variants = None, [name, *(options.variant or [])]
    else:
        _require_no_path(name)
        (plan,), variants = plans(options), options.variant or [None]
    from ablations.episode import render as rendering

    selected = rendering.Selected(
        task=options.task,
        variants=variants,
        seed=options.seed,
        snapshots=options.snapshot,
        length=options.length,
        settings=None if plan else selection(options).get("set"),
    )
    path = rendering.render(
        plan, options.results, selected, format=options.format, output=options.output
    )
    print(path)


def _require_no_path(name: str) -> None:
    """Raise UserError for a path that holds no checkpoint of Brax's PPO."""
    if Path(name).name != name:
        raise UserError(
            f"'{name}' holds no checkpoint of Brax's PPO: name a folder that does, or a study or "
            f"cell that ran"
        )

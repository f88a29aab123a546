"""The commands `render` and `policies`: what was trained, to watch and to take along."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ablations import plugins, policies
from ablations.cli.arguments import Parser, add_flags, add_studies, positive, selection, whole
from ablations.cli.output import add_json, print_json
from ablations.cli.selected import plans
from ablations.errors import UserError
from ablations.request import parse_settings
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


def add_policies(command: Parser) -> None:
    """Add the flags of `policies`."""
    command.add_argument(
        "name",
        metavar="STUDY|CELL|FOLDER",
        help="a study's last plan, a cell's hash, or a folder of checkpoints of Brax's PPO",
    )
    add_flags(
        command,
        {
            "--task T": "needed where the study ran on several, and for a folder",
            "--variant V": "default: the baseline",
        },
    )
    add_flags(
        command,
        {"--set NAME=VALUE": "settings of a folder's task, such as backend=mjx"},
        nargs="+",
        action="extend",
    )
    add_flags(command, {"--seed S": "default: 0"}, type=whole, default=0)
    add_flags(command, {"--step best|last|N": "which to export; default: best"}, default="best")
    add_flags(command, {"--brax DIR": "write that one there, as Brax's own checkpoint"}, type=Path)
    add_json(command)


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


def run_policies(options: argparse.Namespace) -> None:
    """List the saved policies of a cell, or write one for Brax."""
    of_brax = brax_checkpoints(options.name)
    cell = Path(options.name) if of_brax else _cell(options)
    if options.brax is None and not of_brax:
        _list(options, policies.saved(cell))
        return
    from ablations import loading

    settings = parse_settings(options.set or [])
    if options.brax is None:
        _list(options, loading.brax_saved(cell, options.task, settings))
        return
    step = int(options.step) if options.step.isdecimal() else options.step
    policy = loading.load_policy(cell, step, task=options.task, settings=settings)
    try:
        print(policy.save_for_brax(options.brax))
    except OSError as error:
        raise UserError(f"cannot write '{options.brax}': {error.strerror}") from None


def _cell(options: argparse.Namespace) -> Path:
    """Return the folder of the cell that is named by its hash, or by its study."""
    cell: Path = options.results / "cells" / options.name
    if options.name and (cell / "record.json").exists():
        return cell
    _require_no_path(options.name)
    where = {"task": options.task, "variant": options.variant, "seed": options.seed}
    return policies.find_cell(options.name, results=options.results, **where)


def _list(options: argparse.Namespace, saved: Sequence[policies.Saved]) -> None:
    if options.json:
        print_json([policy.data() for policy in saved])
    else:
        print(policies.listing(saved))


def _require_no_path(name: str) -> None:
    """Raise UserError for a path that holds no checkpoint of Brax's PPO."""
    if Path(name).name != name:
        raise UserError(
            f"'{name}' holds no checkpoint of Brax's PPO: name a folder that does, or a study or "
            f"cell that ran"
        )

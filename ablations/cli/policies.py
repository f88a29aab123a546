"""The commands `render` and `policies`: what was trained, to watch and to take along."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ablations import plugins, policies
from ablations.cli.arguments import Parser, add_flags, add_studies, positive, selection, whole
from ablations.cli.output import add_json, print_json
from ablations.cli.selected import plans
from ablations.episode import render as rendering
from ablations.errors import UserError
from ablations.policies import listing
from ablations.request import parse_settings

if TYPE_CHECKING:
    from ablations.policies import Policy, Saved


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
    if policies.brax_checkpoints(name):
        plan, variants = None, [name, *(options.variant or [])]
    else:
        _require_no_path(name)
        (plan,), variants = plans(options), options.variant or [None]
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
    step = int(options.step) if options.step.isdecimal() else options.step
    if policies.brax_checkpoints(options.name):
        settings = parse_settings(options.set or [])
        if options.brax is None:
            _list(options, policies.brax_saved(Path(options.name), options.task, settings))
            return
        policy = policies.load_policy(options.name, step, task=options.task, settings=settings)
        _export_to_brax(policy, options.brax)
        return
    where = {"task": options.task, "variant": options.variant, "seed": options.seed}
    cell = options.results / "cells" / options.name
    if not (options.name and (cell / "record.json").exists()):
        _require_no_path(options.name)
        cell = policies.find_cell(options.name, results=options.results, **where)
    if options.brax is None:
        _list(options, policies.saved(cell))
        return
    _export_to_brax(policies.load_policy(cell, step), options.brax)


def _list(options: argparse.Namespace, saved: Sequence[Saved]) -> None:
    if options.json:
        print_json([policy.data() for policy in saved])
    else:
        print(listing(saved))


def _require_no_path(name: str) -> None:
    """Raise UserError for a path that holds no checkpoint of Brax's PPO."""
    if Path(name).name != name:
        raise UserError(
            f"'{name}' holds no checkpoint of Brax's PPO: name a folder that does, or a study or "
            f"cell that ran"
        )


def _export_to_brax(policy: Policy, folder: Path) -> None:
    try:
        print(policy.save_for_brax(folder))
    except OSError as error:
        raise UserError(f"cannot write '{folder}': {error.strerror}") from None

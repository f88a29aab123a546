"""`list runs`, what ran in a results folder, and `remove`, how a study goes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ablations.cli.arguments import add_command
from ablations.errors import count, printable
from ablations.sweep.history import remove, stored_runs


def add_commands(commands: Any) -> None:
    one = add_command(
        commands,
        "remove",
        _remove,
        "delete a study's plans, and the cells that no other study has",
        reads_records="none",
    )
    one.add_argument("study", metavar="STUDY")
    one.add_argument("--yes", action="store_true", help="delete them; without it they are listed")


def run_lines(results: Path) -> Iterator[str]:
    """Describe every plan that is stored, the newest first, with the command that ran it."""
    runs = stored_runs(results)
    if not runs:
        yield f"nothing has run in '{results}'"
    for run in runs:
        done = f"{run.done:,} of {count(len(run.plan.cells), 'cell')}"
        yield printable(
            f"{_time(run.when)}  {done:<20} {'last' if run.last else '':<5}{run.command}"
        )


def runs_as_data(results: Path) -> list[dict[str, object]]:
    """Return every plan that is stored, as `run_lines` has them."""
    return [
        {
            "study": run.plan.study.name,
            "command": run.command,
            "when": _time(run.when),
            "cells": len(run.plan.cells),
            "done": run.done,
            "last": run.last,
        }
        for run in stored_runs(results)
    ]


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _remove(options: argparse.Namespace) -> None:
    going = remove(options.results, options.study, dry_run=not options.yes)
    cells = count(len(going) - 1, "cell")
    if options.yes:
        print(f"'{options.study}' is gone, with {cells}")
    else:
        print(f"{going[0]}\n{cells} that no other study has")
        print(f"`ablations remove {options.study} --yes` deletes these")

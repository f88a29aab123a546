"""`list runs`, what ran in a results folder; `remove`, how a study goes; `clean`, what may."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from ablations.cli.arguments import Commands, add_command, add_flags
from ablations.cli.output import add_json, print_json
from ablations.core.decode import Json
from ablations.errors import count, printable
from ablations.sweep.history import remove, stored_runs

MOST_PATHS = 20  # that `clean` lists, the largest


def add_commands(commands: Commands) -> None:
    """Add the commands `remove` and `clean`."""
    command = add_command(
        commands,
        "remove",
        _remove,
        "delete a study's plans, and the cells that no other study has",
        reads_records="none",
    )
    command.add_argument("study", metavar="STUDY")
    add_flags(command, {"--yes": "delete them; without it they are listed"}, action="store_true")
    add_json(command)

    command = add_command(
        commands, "clean", _clean, "what may be deleted, and its size", reads_records="none"
    )
    add_flags(command, {"--yes": "delete it"}, action="store_true")
    add_json(command)


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


def runs_as_data(results: Path) -> list[dict[str, Json]]:
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
    if options.json:
        print_json([str(path) for path in going])
        return
    cells = count(len(going) - 1, "cell")
    if options.yes:
        print(f"'{options.study}' is gone, with {cells}")
    else:
        print(f"{going[0]}\n{cells} that no other study has")
        print(f"`ablations remove {options.study} --yes` deletes these")


def _clean(options: argparse.Namespace) -> None:
    from ablations.sweep.clean import delete, size, waste
    from ablations.sweep.machine import programs_folder

    sizes = {path: size(path) / 1e6 for path in waste(options.results)}
    if options.json:
        if options.yes:
            delete(options.results, sizes)
        print_json({str(path): round(1e6 * megabytes) for path, megabytes in sizes.items()})
        return
    for path in sorted(sizes, key=sizes.__getitem__, reverse=True)[:MOST_PATHS]:
        print(f"{sizes[path]:9.1f} MB  {path}")
    total = f"{sum(sizes.values()):.1f} MB in all, which no table needs"
    if not sizes:
        print(f"nothing to clean in '{options.results}'")
    elif options.yes:
        delete(options.results, sizes)
        print(f"deleted: {total}")
    else:
        print(f"{total}; unfinished cells begin anew without theirs: `ablations clean --yes`")
    if (programs := programs_folder()) and (large := size(programs)):
        print(f"compiled programs of all your results: {large / 1e6:.1f} MB in '{programs}'")

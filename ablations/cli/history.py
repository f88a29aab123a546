"""The commands `remove`, how a study goes, and `clean`, what may."""

from __future__ import annotations

import argparse

from ablations.cli.arguments import Parser, add_flags
from ablations.cli.output import add_json, print_json
from ablations.errors import count
from ablations.sweep.clean import delete, size, waste
from ablations.sweep.history import remove
from ablations.sweep.machine import programs_folder

MOST_PATHS = 20  # that `clean` lists, the largest


def add_remove(command: Parser) -> None:
    """Add the flags of `remove`."""
    command.add_argument("study", metavar="STUDY")
    add_flags(command, {"--yes": "delete them; without it they are listed"}, action="store_true")
    add_json(command)


def add_clean(command: Parser) -> None:
    """Add the flags of `clean`."""
    add_flags(command, {"--yes": "delete it"}, action="store_true")
    add_json(command)


def run_remove(options: argparse.Namespace) -> None:
    """Delete a study, or list what would go."""
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


def run_clean(options: argparse.Namespace) -> None:
    """Delete what no table needs, or list it."""
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

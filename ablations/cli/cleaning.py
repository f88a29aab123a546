"""The command `clean`: delete what no table needs, or a study."""

from __future__ import annotations

import argparse

from ablations.cli.arguments import Parser, add_flags
from ablations.cli.output import add_json, print_json
from ablations.sweep.clean import delete, size, waste
from ablations.sweep.history import remove
from ablations.sweep.machine import programs_folder

MOST_PATHS = 20  # that are listed, the largest


def add_clean(command: Parser) -> None:
    """Add the flags of `clean`."""
    command.add_argument(
        "study", nargs="?", metavar="STUDY", help="its plans, and the runs that no other study has"
    )
    add_flags(command, {"--yes": "delete them; without it they are listed"}, action="store_true")
    add_json(command)


def run_clean(options: argparse.Namespace) -> None:
    """Delete temporary files or a study, or list them."""
    if options.study:
        going, what = remove(options.results, options.study, dry_run=True), "no other study has"
    else:
        going, what = waste(options.results), "no table needs"
    sizes = {path: size(path) / 1e6 for path in going}
    if options.yes and options.study:
        remove(options.results, options.study, dry_run=False)
    elif options.yes:
        delete(options.results, sizes)
    if options.json:
        print_json({str(path): round(1e6 * megabytes) for path, megabytes in sizes.items()})
        return
    for path in sorted(sizes, key=sizes.__getitem__, reverse=True)[:MOST_PATHS]:
        print(f"{sizes[path]:9.1f} MB  {path}")
    total = f"{len(sizes)} files and folders of {sum(sizes.values()):.1f} MB, which {what}"
    if not sizes:
        print(f"nothing to clean in '{options.results}'")
    elif options.yes:
        print(f"deleted: {total}")
    elif options.study:
        print(f"{total}: `ablations clean {options.study} --yes` deletes them")
    else:
        print(f"{total}; unfinished cells begin anew without theirs: `ablations clean --yes`")
    if (programs := programs_folder()) and (large := size(programs)):
        print(f"compiled programs of all your results: {large / 1e6:.1f} MB in '{programs}'")

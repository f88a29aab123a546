"""Output of commands: a table in a format, a list as lines or as data.

Every command that prints a table or a list has `--json`, which puts the same on stdout as data.
Where the answer is a description (`show`), a path (`figure`), or a report and an exit code
(`check`), there is none.
"""

from __future__ import annotations

import argparse
import json
import shlex

from ablations.core.decode import Json

FORMATS = {"markdown": "md", "latex": "tex", "csv": "csv", "html": "html", "json": "json"}


def add_format(
    parser: argparse.ArgumentParser, summary: str = "of the table", default: str | None = "markdown"
) -> None:
    """Add `--format`, and `--json` for the one that programs read."""
    parser.add_argument("--format", choices=FORMATS, default=default, help=summary)
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="same as --format json"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json` to a command that prints a list."""
    parser.add_argument("--json", action="store_true", help="as data")


def print_json(value: Json) -> None:
    """Print a value as one JSON document."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def alone(options: argparse.Namespace) -> None:
    """Have a command that runs cells print nothing beside its table, where that is data."""
    options.quiet = options.quiet or options.format == "json"


def folder_flag(options: argparse.Namespace) -> str:
    """Return the flag of another results folder than the usual one, for a command to run next."""
    folder = str(options.results)
    return "" if folder == "results" else f" --results {shlex.quote(folder)}"

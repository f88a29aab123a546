"""The archives of a results folder, unpacked as far as a command reads them."""

from __future__ import annotations

import argparse
import errno
from collections.abc import Collection
from pathlib import Path

from ablations.cli.arguments import selection
from ablations.exchange import restorable, restore
from ablations.request import selects


def unpack(options: argparse.Namespace) -> None:
    """Unpack what a command reads of the archives.

    The plan of a selection that never ran may share cells with any of them.
    """
    own = options.command.unpacks == "of its studies" and not selects(selection(options))
    only_reads = options.command.only_reads and not getattr(options, "answers", False)
    options.results = unpacked(options.results, options.studies if own else (), only_reads)


def unpacked(results: Path, studies: Collection[str], only_reads: bool = True) -> Path:
    """Unpack the archives of studies and return the folder: a copy if it can only be read."""
    try:
        restore(results, studies)
        return results
    except OSError as error:
        unwritable = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
        if not unwritable or not only_reads:
            raise
    copy = restorable(results)
    restore(copy, studies)
    return copy

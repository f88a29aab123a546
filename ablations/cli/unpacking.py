"""The archives of a results folder, unpacked as far as a command reads them."""

from __future__ import annotations

import argparse
import errno

from ablations.cli.arguments import selection
from ablations.exchange import restorable, restore
from ablations.request import selects


def unpack(options: argparse.Namespace) -> None:
    """Unpack what a command reads of the archives.

    The plan of a selection that never ran may share cells with any of them.
    """
    own = options.command.unpacks == "of its studies" and not selects(selection(options))
    studies = options.studies if own else ()
    try:
        restore(options.results, studies)
    except OSError as error:
        unwritable = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
        if not unwritable or not options.command.only_reads or getattr(options, "write", False):
            raise
        options.results = restorable(options.results)
        restore(options.results, studies)

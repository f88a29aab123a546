"""The plans that the flags of a command select, and the archives that hold them."""

from __future__ import annotations

import argparse
import errno
from collections.abc import Collection
from pathlib import Path

from ablations import plugins, presets
from ablations.cli.arguments import selection, warn
from ablations.exchange import restorable, restore
from ablations.records import Plan
from ablations.request import selects
from ablations.sweep import planned as planning
from ablations.sweep.outdated import edited, outdated
from ablations.trainers import trainer
from ablations.trainers.field_names import FIELD_NAMES


def is_setting(name: str) -> bool:
    """Return whether a trainer of ours, or of the field, has a setting of that name."""
    return name in FIELD_NAMES or name in trainer("ppo").settings


def plans(options: argparse.Namespace) -> list[Plan]:
    """Return the plans that every command but `run` is about."""
    return planning.planned(options.studies, options.results, selection(options))


def shown(options: argparse.Namespace) -> list[Plan]:
    """Return the plans whose results a command shows.

    Says on stderr which cells of them earlier code computed.
    """
    planned = plans(options)
    warn(filter(None, (outdated(plan, options.results) for plan in planned)))
    return planned


def shown_with_edits(options: argparse.Namespace) -> list[Plan]:
    """Return `shown`; say also which plugins were edited between cells.

    For a command that shows no notes and has no records at hand.
    """
    planned = shown(options)
    warn(line for plan in planned for line in edited(plan, options.results))
    return planned


def resolved(options: argparse.Namespace) -> list[Plan]:
    """Return the plans that `run` runs."""
    wanted = getattr(options, "preset", ())
    if wanted:
        plugins.load()
    for name in wanted:
        presets.preset(name)
    planned = planning.resolved([*options.studies, *wanted], selection(options))
    for task, stored in ((t, s) for plan in planned for t, s in plan.tasks.items()):
        if options.steps and stored.steps != options.steps:
            warn([f"{options.steps:,} steps on {task} are {stored.steps:,}: iterations are whole"])
    return planned


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

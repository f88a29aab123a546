"""The plans that the flags of a command select, what is old in them, and their archives."""

from __future__ import annotations

import argparse
import errno
import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from ablations import plugins, presets
from ablations.cli.arguments import selection, warn
from ablations.errors import count
from ablations.io.archives import restorable, restore
from ablations.records import Plan, cell_folder, usable_record
from ablations.request import Request, selects
from ablations.sweep import stored as planning
from ablations.trainers import trainer
from ablations.trainers.revisions import current, differences
from ablations.trainers.values import FIELD_NAMES


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


def outdated(plan: Plan, results: Path) -> str | None:
    """Return a line on the records that earlier code computed; None where there are none.

    Starts no JAX.
    """
    now = current()
    there = {cell.hash: (cell.task, cell.variant) for cell in plan.cells}
    configs = {(cell.task, cell.variant): cell.config for cell in plan.cells}
    of_places = {place: differences(config, now) for place, config in configs.items()}
    found = [
        of_places[place]
        for name, place in there.items()
        if of_places[place] and cell_folder(results, name).exists()
    ]
    if not found:
        return None
    what = "; ".join(Counter(one for differing in found for one in differing))
    return (
        f"{plan.study.name}: {len(found)} of {count(len(there), 'cell')} are of earlier code "
        f"({what}) and shown as they were; `{_command(plan)}` computes them again"
    )


def edited(plan: Plan, results: Path) -> list[str]:
    """Return a line for each plugin that was edited between the cells of a plan.

    A cell that rests on a plugin has it in its record, and so has every cell of its task and
    variant: of the others one record is read.
    """
    used: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for cell in plan.cells:
        of = used.setdefault((cell.task, cell.variant), [])
        if of[:1] != [{}] and (record := usable_record(results, cell.hash)) is not None:
            of.append(record.provenance.get("plugins", {}))
    lines = plugins.edited(one for of in used.values() for one in of)
    return [f"{plan.study.name}: {line}" for line in lines]


def _command(plan: Plan) -> str:
    """Return the command that runs a plan, with the plugins of this process."""
    name = plan.study.name
    command = Request.of(name, plan.request).command()
    asked = ["run", plan.study.file or name]
    if ends := plan.request.get("explain"):
        asked = ["explain", *ends]
    loaded = "".join(f" --plugin {shlex.quote(one)}" for one in plugins.loaded())
    return command.replace(f"run {name}", shlex.join(asked), 1) + loaded

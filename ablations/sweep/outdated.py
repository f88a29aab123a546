"""Find the cells of a plan that earlier code computed, and that `run` would compute again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ablations import plugins
from ablations.errors import count
from ablations.records import Plan, cell_folder, usable_record
from ablations.request import Request
from ablations.trainers.revisions import current, differences


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

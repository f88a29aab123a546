"""Runs cells on this machine: one worker per core, or one on the accelerator. Never starts JAX
itself.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablations import plugins
from ablations.errors import UserError
from ablations.records import (
    Plan,
    Record,
    read_record,
)
from ablations.sweep import provenance
from ablations.sweep.config import program_of
from ablations.sweep.crew import Crew
from ablations.sweep.machine import cores, has_accelerator, use_cache
from ablations.sweep.order import Keeping, Order
from ablations.sweep.prepare import look
from ablations.sweep.progress import Progress
from ablations.trainers.composition import fixed_axes

ACCELERATOR_LANES = 16


@dataclass
class Outcome:
    """What a run found and did, in cells."""

    cells: int
    found: int
    done: int = 0
    failed: list[tuple[Mapping[str, Any], Record]] = field(default_factory=list)
    seconds: float = 0.0


def run(
    plans: Sequence[Plan],
    results: Path,
    *,
    workers: int | None = None,
    lanes: int | None = None,
    in_process: bool = False,
    quiet: bool = False,
    keeping: Keeping | None = None,
    fresh: bool = False,
    only: Collection[str] | None = None,
) -> Outcome:
    """Runs whatever the plans need and nobody has. Returns when every cell has a record.

    workers: processes (default: one per core on CPU, one on an accelerator). lanes: cells side by
    side in one worker (default: 1 on CPU, 16 on an accelerator). in_process: no worker processes,
    for debuggers. keeping: how often state is saved. fresh: computes everything again; what was
    there is set aside. only: hashes of the cells to look at. Raises UserError when the results
    folder cannot be written, KeyboardInterrupt after a clean stop.
    """
    started = time.monotonic()
    work = look(plans, results, fresh=fresh, only=only)
    cells, todo = work.cells, work.todo
    outcome = Outcome(cells=len(cells), found=len(cells) - len(todo))
    if todo:
        accelerator = has_accelerator()
        checkout = provenance.of_checkout()
        provenance.keep_difference(results, checkout)
        order = Order(
            run=uuid.uuid4().hex[:8],
            results=str(results),
            cells=tuple({"hash": cell["hash"], "config": cell["config"]} for cell in todo),
            plugins=plugins.loaded(),
            lanes=lanes or (min(len(todo), ACCELERATOR_LANES) if accelerator else 1),
            accelerator=accelerator,
            metric=plans[0].study["metric"],
            keeping=keeping or Keeping(),
            provenance=checkout,
        )
        workers = min(
            workers or (1 if accelerator else cores()), math.ceil(len(todo) / order.lanes)
        )
        _announce(plans, cells, todo, order, 0 if in_process else workers, quiet)
        if in_process:
            _run_in_process(order)
        else:
            Crew(order, workers, results).work(Progress(plans, todo, results, quiet=quiet))
    elif not quiet:
        print(f"{_names(plans)}: all {len(cells)} cells are done; nothing to run", flush=True)
    for cell in cells:
        record = read_record(results, cell["hash"])
        if record is None:
            raise UserError(
                f"the record of {cell['variant']} on {cell['task']}, seed {cell['seed']}, was set "
                f"aside by another run meanwhile: run it again"
            )
        if record.status == "done":
            outcome.done += 1
        else:
            outcome.failed.append((cell, record))
    outcome.seconds = time.monotonic() - started
    return outcome


def _run_in_process(order: Order) -> None:
    from ablations.sweep.worker import Worker

    use_cache(order.results)
    worker = Worker(order, 0)
    try:
        worker.run()
    finally:
        worker.release()


def _announce(
    plans: Sequence[Plan],
    cells: Sequence[Mapping[str, Any]],
    todo: Sequence[Mapping[str, Any]],
    order: Order,
    workers: int,
    quiet: bool,
) -> None:
    if quiet:
        return
    programs = {
        program_of(c["config"], fixed_axes(c["config"], accelerator=order.accelerator))
        for c in todo
    }
    tasks = {cell["task"] for cell in cells}
    how = (
        f"{_count(workers, 'worker')} of {_count(order.lanes, 'lane')}"
        if workers
        else "in this process"
    )
    print(
        f"{_names(plans)}: {_count(len(cells), 'cell')} on {_count(len(tasks), 'task')}"
        f" ({', '.join(sorted(tasks))}): {len(cells) - len(todo)} done, {len(todo)} to run;"
        f" {_count(len(programs), 'program')} to compile; {how}",
        flush=True,
    )


def _names(plans: Sequence[Plan]) -> str:
    return ", ".join(f"{plan.study['name']} ({plan.request['profile']})" for plan in plans)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

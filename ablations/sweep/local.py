"""Runs cells on this machine: one worker per core, or one on the accelerator. Never starts JAX
itself.
"""

from __future__ import annotations

import math
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rich.console import Console

from ablations import plugins
from ablations.errors import UserError, count
from ablations.records import Plan, Record, read_record
from ablations.sweep import provenance
from ablations.sweep.cell import Cell
from ablations.sweep.claims import running
from ablations.sweep.crew import Crew
from ablations.sweep.machine import (
    NO_PROGRAMS,
    accelerators,
    cores,
    even_lanes,
    left_out_of_workers,
    programs_folder,
)
from ablations.sweep.order import Keeping, Order
from ablations.sweep.prepare import Work, prepare
from ablations.sweep.progress import Progress

ACCELERATOR_LANES = 16


@dataclass
class Outcome:
    """What a run found and did, in cells. stopped: before all of them had a record."""

    cells: int
    found: int
    done: int = 0
    failed: list[tuple[Cell, Record]] = field(default_factory=list)
    seconds: float = 0.0
    stopped: bool = False

    @property
    def computed(self) -> int:
        return self.done + len(self.failed) - self.found


def run(
    plans: Sequence[Plan],
    results: Path,
    *,
    workers: int | None = None,
    lanes: int | None = None,
    threads: int | None = None,
    in_process: bool = False,
    quiet: bool = False,
    keeping: Keeping | None = None,
    fresh: bool = False,
    deadline: float | None = None,
) -> Outcome:
    """Runs whatever the plans need and nobody has. Returns when every cell has a record, or at the
    deadline (of `time.monotonic`), with the state of what ran saved.

    workers: processes (default: one per core on CPU, one for all accelerators). lanes: cells side
    by side in one worker (default: 1 on CPU, 16 per accelerator), rounded up to deal evenly.
    threads: of each command (default: its share of the cores). in_process: no worker processes,
    for debuggers. keeping: how often state is saved. fresh: computes everything again; what was
    there is set aside. Raises UserError when the results folder cannot be written,
    KeyboardInterrupt after a clean stop.
    """
    names = ", ".join(f"{plan.study.name} ({plan.request['profile']})" for plan in plans)
    return carry_out(
        prepare(plans, results, fresh=fresh),
        results,
        names,
        workers=workers,
        lanes=lanes,
        threads=threads,
        in_process=in_process,
        quiet=quiet,
        keeping=keeping or Keeping(),
        deadline=deadline,
    )


def carry_out(
    work: Work,
    results: Path,
    names: str,
    *,
    workers: int | None,
    lanes: int | None,
    keeping: Keeping,
    threads: int | None = None,
    in_process: bool = False,
    quiet: bool = False,
    output: TextIO | None = None,
    deadline: float | None = None,
) -> Outcome:
    """Has a crew do what is to do, and says what became of it.

    names: of the work, for people. output: where its progress is shown; default: stdout.
    """
    started = time.monotonic()
    output = output or sys.stdout
    if work.todo:
        order = _order(work.todo, results, workers, lanes, keeping, threads)
        if not quiet:
            print(_announcement(work, order, names, in_process), file=output, flush=True)
            if (left := left_out_of_workers()) and not (in_process or order.commands):
                print(f"of this shell's settings workers have no {', '.join(left)}", file=output)
            if not order.commands and programs_folder() is None:
                print(NO_PROGRAMS, file=output)
        with running(results):
            if in_process:
                _run_in_process(order)
            else:
                console = Console(file=output, quiet=quiet, highlight=False)
                path = order.write(results / "work" / "orders" / f"{order.run}.json")
                try:
                    Crew(order, path).work(
                        Progress(work.todo, results, console=console),
                        lambda: deadline is not None and time.monotonic() >= deadline,
                    )
                finally:
                    path.unlink(missing_ok=True)
    elif not quiet:
        line = f"{names}: all {count(len(work.cells), 'cell')} are done; nothing to run"
        print(line, file=output, flush=True)
    stopped = deadline is not None and time.monotonic() >= deadline
    outcome = outcome_of(work, results, stopped=stopped)
    outcome.seconds = time.monotonic() - started
    return outcome


def _order(
    todo: Sequence[Cell],
    results: Path,
    workers: int | None,
    lanes: int | None,
    keeping: Keeping,
    threads: int | None,
) -> Order:
    commands = any(cell.is_command for cell in todo)
    if commands and not all(cell.is_command for cell in todo):
        raise UserError("commands and trainers of ours run one after the other: name either")
    devices = 0 if commands else accelerators()
    lanes = lanes or (min(len(todo), ACCELERATOR_LANES * devices) if devices else 1)
    if commands:
        from ablations.sweep.command.repository import noted

        todo, lanes = noted(todo, results), 1
    workers = workers or (1 if devices else cores())
    checkout = provenance.of_checkout()
    provenance.keep_difference(results, checkout)
    return Order(
        run=uuid.uuid4().hex[:8],
        results=str(results),
        cells=tuple(todo),
        workers=min(workers, math.ceil(len(todo) / lanes)),
        lanes=even_lanes(lanes, devices),
        accelerator=devices > 0,
        threads=threads,
        plugins=plugins.loaded(),
        keeping=keeping,
        provenance=checkout,
    )


def _run_in_process(order: Order) -> None:
    from ablations.sweep.worker import Worker

    worker = Worker(order, 0)
    try:
        worker.run()
    finally:
        worker.release()


def outcome_of(work: Work, results: Path, *, stopped: bool = False) -> Outcome:
    """What became of the cells. stopped: the run was told to end, so that some may have no record
    yet; else that is an error."""
    outcome = Outcome(cells=len(work.cells), found=len(work.cells) - len(work.todo))
    for cell in work.cells:
        record = read_record(results, cell.hash)
        if record is None and stopped:
            outcome.stopped = True
        elif record is None:
            raise UserError(
                f"the record of {cell.variant} on {cell.task}, seed {cell.seed}, was set aside by "
                f"another run meanwhile: run it again"
            )
        elif record.status == "done":
            outcome.done += 1
        else:
            outcome.failed.append((cell, record))
    return outcome


def _announcement(work: Work, order: Order, names: str, in_process: bool) -> str:
    programs = {cell.program(accelerator=order.accelerator) for cell in order.cells}
    compiled = f" {count(len(programs), 'program')} to compile;"
    tasks = sorted({cell.task for cell in work.cells})
    how = (
        "in this process"
        if in_process
        else f"{count(order.workers, 'worker')} of {count(order.lanes, 'lane')}"
    )
    if order.commands:
        compiled, how = "", how.removesuffix(" of 1 lane")
    return (
        f"{names}: {count(len(work.cells), 'cell')} on {count(len(tasks), 'task')}"
        f" ({', '.join(tasks)}): {len(work.cells) - len(work.todo)} done, {len(work.todo)} to run;"
        f"{compiled} {how}"
    )

"""Runs cells on this machine: one worker per core, or one on the accelerator. Never starts JAX
itself.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablations import plugins
from ablations.errors import UserError
from ablations.records import (
    DamagedRecord,
    Plan,
    Record,
    cell_folder,
    read_record,
    verify_curve,
    write_atomically,
    write_plan,
)
from ablations.sweep import provenance
from ablations.sweep.claims import hold, published, work_folder
from ablations.sweep.plan import program_of
from ablations.sweep.progress import Progress
from ablations.sweep.worker import CANNOT_WRITE, Keeping, Order

POLL_SECONDS = 0.25
STOP_SECONDS = 5.0
ACCELERATOR_LANES = 16
MAX_DEATHS = 3


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
) -> Outcome:
    """Runs whatever the plans need and nobody has. Returns when every cell has a record.

    workers: processes (default: one per core on CPU, one on an accelerator). lanes: cells side by
    side in one worker (default: 1 on CPU, 16 on an accelerator). in_process: no worker processes,
    for debuggers. keeping: how often state is saved. fresh: computes everything again; what was
    there is set aside. Raises UserError when the results folder cannot be written,
    KeyboardInterrupt after a clean stop.
    """
    started = time.monotonic()
    _require_writable(results)
    for plan in plans:
        write_plan(results, plan)
    cells = list({cell["hash"]: cell for plan in plans for cell in plan.cells}.values())
    if fresh:
        for cell in cells:
            _start_over(results, cell["hash"])
    todo = [cell for cell in cells if not _has_result(results, cell["hash"])]
    outcome = Outcome(cells=len(cells), found=len(cells) - len(todo))
    if todo:
        accelerator = has_accelerator()
        order = Order(
            run=uuid.uuid4().hex,
            results=str(results),
            cells=tuple({"hash": cell["hash"], "config": cell["config"]} for cell in todo),
            plugins=plugins.loaded(),
            lanes=lanes or (min(len(todo), ACCELERATOR_LANES) if accelerator else 1),
            accelerator=accelerator,
            metric=plans[0].study["metric"],
            keeping=keeping or Keeping(),
            provenance=provenance.of_checkout(),
        )
        workers = min(
            workers or (1 if accelerator else cores()), math.ceil(len(todo) / order.lanes)
        )
        _announce(plans, cells, todo, order, 0 if in_process else workers, quiet)
        if in_process:
            _run_in_process(order)
        else:
            _Crew(order, workers, results).work(Progress(plans, todo, results, quiet=quiet))
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


def cores() -> int:
    """Cores that this process may use: its affinity, cut to the container's quota where there is
    one.
    """
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        available = min(available, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return available


def has_accelerator() -> bool:
    """Whether JAX would find a GPU or TPU. Asks a process of its own, and only if a plugin is
    installed.
    """
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms:
        return platforms.split(",")[0] != "cpu"
    if not (importlib.util.find_spec("jax_plugins") or importlib.util.find_spec("libtpu")):
        return False
    probe = "import jax; print(jax.default_backend())"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )
    return done.returncode == 0 and done.stdout.split()[-1:] not in (["cpu"], [])


class _Crew:
    """The worker processes of one run: started, watched, replaced when they die, stopped."""

    def __init__(self, order: Order, workers: int, results: Path):
        self.order = order
        self.results = results
        self.folder = results / "work"
        self.path = self.folder / "orders" / f"{order.run}.json"
        write_atomically(self.path, order.text())
        self.deaths = 0
        self._read: dict[int, int] = {}
        self.processes = [self._start(index) for index in range(workers)]

    def work(self, progress: Progress) -> None:
        try:
            with progress:
                while True:
                    self._pass_on_notices(progress)
                    self._replace_the_dead()
                    progress.update()
                    if all(process.poll() == 0 for process in self.processes):
                        break
                    time.sleep(POLL_SECONDS)
                self._pass_on_notices(progress)
                progress.update()
        finally:
            self._stop()
            self.path.unlink(missing_ok=True)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        log = self._log(index)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ablations.sweep.worker", str(self.path), str(index)]
        with log.open("ab") as file:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=worker_environment(accelerator=self.order.accelerator),
                start_new_session=True,  # Ctrl-C reaches the parent alone, which stops them
            )

    def _log(self, index: int) -> Path:
        return self.folder / "logs" / f"{self.order.run[:8]}-{index}.log"

    def _pass_on_notices(self, progress: Progress) -> None:
        for index in range(len(self.processes)):
            with self._log(index).open("rb") as log:
                log.seek(self._read.get(index, 0))
                lines = log.read().split(b"\n")
                self._read[index] = log.tell() - len(lines.pop())  # the last is not whole yet
            for line in lines:
                if line.startswith(b"notice: "):
                    progress.say(line.removeprefix(b"notice: ").decode(errors="replace"))

    def _replace_the_dead(self) -> None:
        for index, process in enumerate(self.processes):
            code = process.poll()
            if code in (None, 0):
                continue
            last = self._last_line(index)
            if code == CANNOT_WRITE:
                if not last.startswith("cannot write"):  # the log had no room for it either
                    last = f"cannot write to '{self.results}'"
                raise UserError(
                    f"{last}: make room or give another --results; what is done is safe"
                )
            self.deaths += 1
            finished = sum(published(self.results, cell["hash"]) for cell in self.order.cells)
            if self.deaths > MAX_DEATHS * (len(self.processes) + finished):
                raise UserError(
                    f"workers die before they finish a cell (exit code {code}): "
                    f"{last or 'no output'}; see '{self._log(index)}'"
                )
            self.processes[index] = self._start(index)

    def _last_line(self, index: int) -> str:
        lines = self._log(index).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _stop(self) -> None:
        running = [process for process in self.processes if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def worker_environment(*, accelerator: bool) -> dict[str, str]:
    """One core and one XLA device per worker: faster over all cells, and a cell's bits then depend
    on neither the cores nor the neighbours."""
    environment = dict(os.environ)
    if not accelerator:
        environment |= {"NPROC": "1", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    return environment


def _run_in_process(order: Order) -> None:
    from ablations.sweep.worker import Worker, use_cache

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
    from ablations.sweep.program import fixed_axes

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


def _require_writable(results: Path) -> None:
    try:
        for folder in (results / "cells", results / "work"):
            folder.mkdir(parents=True, exist_ok=True)
        write_atomically(results / "work" / ".writable", "")
        (results / "work" / ".writable").unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write to the results folder '{results}': {error.strerror}; "
            f"give another one with --results"
        ) from None


def _has_result(results: Path, cell: str) -> bool:
    """Whether a cell needs no run. What is damaged, or failed for no reason of its own, is set
    aside.
    """
    try:
        record = read_record(results, cell)
        if record is not None:
            verify_curve(results, record)
    except DamagedRecord as damaged:
        print(f"{str(damaged).partition(';')[0]}: set aside, to be computed again", flush=True)
    else:
        if record is None:
            return False
        if record.failure != "error":
            if work_folder(results, cell).is_dir() and (held := hold(results, cell)):
                held.finish()  # left by one that was killed right after it wrote the record
            return True
    _set_aside(results, cell, cell_folder(results, cell))
    return False


def _set_aside(results: Path, cell: str, path: Path) -> None:
    """Moves it out of the way, if no other run did or is at work on the cell."""
    if held := hold(results, cell):
        aside = results / "set-aside" / f"{cell}-{uuid.uuid4().hex[:8]}"
        aside.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, aside)
        held.release()


def _start_over(results: Path, cell: str) -> None:
    """Sets aside how far a cell came, unless somebody runs it now."""
    for path in (cell_folder(results, cell), work_folder(results, cell) / "checkpoints"):
        if path.is_dir():
            _set_aside(results, cell, path)

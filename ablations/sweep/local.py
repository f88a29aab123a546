"""Run the missing runs of plans on this machine: start, watch, replace and stop workers.

Starts no JAX.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TextIO

from rich.console import Console

from ablations import plugins
from ablations.errors import UserError, count
from ablations.records import Plan, Record, read_record
from ablations.sweep import provenance
from ablations.sweep.claims import running
from ablations.sweep.estimate import Estimate, Resources, compile_seconds, estimate
from ablations.sweep.job import CANNOT_GO_ON, NO_ROOM_HINT, Cell, Keeping, Order, backend_of_all
from ablations.sweep.machine import cores
from ablations.sweep.prepare import Work, prepare
from ablations.sweep.progress import Progress
from ablations.sweep.provenance import OUR_ROOT
from ablations.sweep.worker import Worker

POLL_SECONDS = 0.25
# The code is that of this process, wherever it came from: `-m` alone would import from the current
# folder first, whatever lies there.
_WORKER = (
    "import runpy, sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "runpy.run_module('ablations.sweep.worker', run_name='__main__', alter_sys=True)"
)
MAX_DEATHS = 3


class Crew:
    """The worker processes of an order. path: its file, which stays there."""

    def __init__(self, order: Order, path: Path):
        """Start the workers."""
        self.order = order
        self.path = path
        self.results = Path(order.results)
        self.logs = self.results / "work" / "logs"
        self.deaths = 0
        self._shown: dict[int, int] = {}  # how many bytes of a worker's log
        self.processes = [self._start(index) for index in range(order.workers)]

    def work(self, progress: Progress, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Wait until every worker has ended well, or until interrupted.

        Then each of them has the order's `stop_seconds` to save what it has. Raises UserError when
        they die without end, or say that none of them can go on, or that the rest would fail too.
        """
        try:
            with progress:
                while not interrupted():
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
        if (reason := self.order.stopped) is not None:
            raise UserError(reason)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        log = self._log(index)
        log.parent.mkdir(parents=True, exist_ok=True)
        told = (str(self.path), str(index), str(os.getpid()))
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-P", "-c", _WORKER, str(OUR_ROOT), *told],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self.order.backend.environment(self.order, index),
                start_new_session=True,  # Ctrl-C reaches the parent alone, which stops them
            )

    def _log(self, index: int) -> Path:
        return self.logs / f"{self.order.run}-{index}.log"

    def _pass_on_notices(self, progress: Progress) -> None:
        for index in range(len(self.processes)):
            with self._log(index).open("rb") as log:
                log.seek(self._shown.get(index, 0))
                lines = log.read().split(b"\n")
                self._shown[index] = log.tell() - len(lines.pop())  # the last is not whole yet
            for line in lines:
                if line.startswith(b"notice: "):
                    progress.say(line.removeprefix(b"notice: ").decode(errors="replace"))

    def _replace_the_dead(self) -> None:
        for index, process in enumerate(self.processes):
            code = process.poll()
            if code in (None, 0):
                continue
            last, whole = self._last_line(index)
            if code == CANNOT_GO_ON:
                _, _, why = last.partition("cannot go on: ")
                if not why or not whole:  # the log had no room for it either
                    why = f"cannot write to '{self.results}': {NO_ROOM_HINT}"
                raise UserError(why)
            self.deaths += 1
            finished = len(self.order.cells) - len(self.order.left)
            if self.deaths > MAX_DEATHS * (len(self.processes) + finished):
                raise UserError(
                    f"workers die before they finish a cell (exit code {code}): "
                    f"{last or 'no output'}; see '{self._log(index)}'"
                )
            self.processes[index] = self._start(index)

    def _last_line(self, index: int) -> tuple[str, bool]:
        """Return the last line of a worker's log, and whether it was written to its end."""
        text = self._log(index).read_text(errors="replace")
        lines = text.strip().splitlines()
        return (lines[-1] if lines else ""), text.endswith("\n")

    def _stop(self) -> None:
        running = [process for process in self.processes if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self.order.stop_seconds
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass
class Outcome:
    """The outcome of a run, in cells.

    found: those that had a record before. stopped: before all of them had one.
    """

    cells: int
    found: int
    done: int = 0
    failed: list[tuple[Cell, Record]] = field(default_factory=list)
    seconds: float = 0.0
    stopped: bool = False

    @property
    def computed(self) -> int:
        """Return the number of cells that were computed."""
        return self.done + len(self.failed) - self.found


@dataclass(frozen=True)
class Processes:
    """Worker processes of this machine.

    workers: default: one per core on CPU, one for all accelerators. lanes: cells side by side in
    one worker; default: 1 on CPU, 16 per accelerator; rounded up to deal evenly. threads: of each
    command; default: its share of the cores. keeping: how often state is saved. quiet: prints
    nothing. output: where progress is shown; default: stdout.
    """

    workers: int | None = None
    lanes: int | None = None
    threads: int | None = None
    keeping: Keeping = field(default_factory=Keeping)
    quiet: bool = False
    output: TextIO | None = None
    _here: ClassVar[str | None] = None

    def run(
        self,
        plans: Sequence[Plan],
        results: Path,
        *,
        fresh: bool = False,
        deadline: float | None = None,
    ) -> Outcome:
        """Run the missing cells of plans; return when every cell has a record.

        Args:
            plans: what to compute.
            results: the results folder.
            fresh: compute everything again; what was there is set aside.
            deadline: of `time.monotonic`, at which it ends with the state of what ran saved.

        Raises:
            UserError: the results folder cannot be written.
            KeyboardInterrupt: after a clean stop.
        """
        names = ", ".join(f"{plan.study.name} ({plan.request['profile']})" for plan in plans)
        return self.carry_out(prepare(plans, results, fresh=fresh), results, names, deadline)

    def estimate(self, cells: Sequence[Cell], results: Path) -> Estimate:
        """Return the jobs, one after the other, in which cells would run."""
        workers = min(self.workers or cores(), len(cells))
        devices = backend_of_all(cells).accelerators()
        return estimate(cells, results, Resources(workers, devices, self.lanes))

    def carry_out(
        self, work: Work, results: Path, names: str, deadline: float | None = None
    ) -> Outcome:
        """Run the cells that are to do, and return the outcome. names: of the plans, for people."""
        started = time.monotonic()
        if work.todo:
            order = self.order(work.todo, results)
            self._say(self._announced(work, order, names))
            with running(results):
                self._execute(order, deadline)
        else:
            cells = count(len(work.cells), "cell")
            self._say([f"{names}: all {cells} are done; nothing to run"])
        stopped = deadline is not None and time.monotonic() >= deadline
        outcome = outcome_of(work, results, stopped=stopped)
        outcome.seconds = time.monotonic() - started
        return outcome

    def order(self, todo: Sequence[Cell], results: Path) -> Order:
        """Return the work order of some cells. Raises UserError where nothing here can run them."""
        backend = backend_of_all(todo)
        backend.require_installed(todo)
        devices = backend.accelerators()
        workers, lanes = backend.shape(len(todo), cores(), devices, self.lanes)
        checkout = provenance.of_checkout()
        provenance.keep_difference(results, checkout)
        return Order(
            run=uuid.uuid4().hex[:8],
            results=str(results),
            cells=backend.ready(todo, results),
            workers=min(self.workers or workers, math.ceil(len(todo) / lanes)),
            lanes=lanes,
            accelerator=devices > 0,
            threads=self.threads,
            plugins=plugins.loaded(),
            keeping=self.keeping,
            provenance=checkout,
        )

    def _execute(self, order: Order, deadline: float | None) -> None:
        results = Path(order.results)
        console = Console(file=self.output or sys.stdout, quiet=self.quiet, highlight=False)
        path = order.write(results / "work" / "orders" / f"{order.run}.json")
        try:
            Crew(order, path).work(
                Progress(
                    order.cells, results, console=console, compile_seconds=compile_seconds(order)
                ),
                lambda: deadline is not None and time.monotonic() >= deadline,
            )
        finally:
            path.unlink(missing_ok=True)
            order.close()

    def _say(self, lines: Iterable[str]) -> None:
        for line in () if self.quiet else lines:
            print(line, file=self.output or sys.stdout, flush=True)

    def _announced(self, work: Work, order: Order, names: str) -> Iterator[str]:
        programs = {cell.program() for cell in order.cells}
        compiled = f" {count(len(programs), 'program')} to compile;"
        tasks = sorted({cell.task for cell in work.cells})
        again = sum(order.backend.has_run(cell, Path(order.results)) for cell in order.cells)
        read = f", {again} of them only to be read again" if again else ""
        yield (
            f"{names}: {count(len(work.cells), 'cell')} on {count(len(tasks), 'task')} "
            f"({', '.join(tasks)}): {len(work.cells) - len(work.todo)} done, {len(work.todo)} to "
            f"run{read};{compiled if order.backend.compiles else ''} "
            f"{self._here or order.backend.crew(order.workers, order.lanes)}"
        )
        yield from order.backend.notices(shell=self._here is None)


class ThisProcess(Processes):
    """This process, for debuggers."""

    _here = "in this process"

    def _execute(self, order: Order, deadline: float | None) -> None:
        worker = Worker(order, 0)
        try:
            worker.run()
            if (reason := order.stopped) is not None:
                raise UserError(reason)
        finally:
            worker.release()
            order.close()


def outcome_of(work: Work, results: Path, *, stopped: bool = False) -> Outcome:
    """Return the outcome of a run.

    stopped: the run was told to end, so that some may have no record yet; else that is an error.
    """
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

"""Train the missing runs of plans on this machine. Does not import JAX."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TextIO

from rich.console import Console

from ablations import plugins
from ablations.engine import machine, provenance
from ablations.engine.claims import running
from ablations.engine.estimate import Estimate, sized, speeds
from ablations.engine.job import (
    CANNOT_GO_ON,
    NO_ROOM_HINT,
    Cell,
    CheckpointPolicy,
    JobSpec,
    backend_of_all,
)
from ablations.engine.machine import cores, notices
from ablations.engine.prepare import Work, prepare
from ablations.engine.progress import Bar
from ablations.engine.provenance import OUR_ROOT
from ablations.engine.worker import Worker
from ablations.errors import UserError, count, duration
from ablations.records import Plan, Record, read_record

POLL_SECONDS = 0.25
SECONDS_PER_WORKER = 20.0  # of training that justify another worker, whose start takes 6 s
# Workers import the code of this process; `-m` alone would import from the current folder first.
_WORKER = (
    "import runpy, sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "runpy.run_module('ablations.engine.worker', run_name='__main__', alter_sys=True)"
)
MAX_DEATHS = 3


class Workers:
    """The worker processes of a job specification, whose file is at `path`.

    first: the number of the first worker, if other machines have workers of the same job.
    """

    def __init__(self, job: JobSpec, path: Path, first: int = 0):
        self.job = job
        self.path = path
        self.first = first
        self.results = Path(job.results)
        self.logs = self.results / "work" / "logs"
        self.deaths = 0
        self._shown: dict[int, int] = {}  # bytes of each worker's log
        self.processes = [self._start(index) for index in range(job.workers)]

    def work(self, bar: Bar, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Wait until every worker has succeeded, or until interrupted; then stop the workers.

        Raises UserError if workers die repeatedly or report that no worker can continue.
        """
        try:
            with bar:
                while not interrupted():
                    self._pass_on_notices(bar)
                    self._replace_the_dead()
                    bar.update()
                    if all(process.poll() == 0 for process in self.processes):
                        break
                    time.sleep(POLL_SECONDS)
                self._pass_on_notices(bar)
                bar.update()
        finally:
            self._stop()

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        log = self._log(index)
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = (str(self.path), str(self.first + index), str(os.getpid()))
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-P", "-c", _WORKER, str(OUR_ROOT), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self.job.backend.environment(self.job, index),
                start_new_session=True,  # Ctrl-C reaches only the parent, which stops the workers
            )

    def _log(self, index: int) -> Path:
        return self.logs / f"{self.job.run}-{self.first + index}.log"

    def _pass_on_notices(self, bar: Bar) -> None:
        for index in range(len(self.processes)):
            with self._log(index).open("rb") as log:
                log.seek(self._shown.get(index, 0))
                lines = log.read().split(b"\n")
                self._shown[index] = log.tell() - len(lines.pop())  # the last line is incomplete
            for line in lines:
                if line.startswith(b"notice: "):
                    bar.say(line.removeprefix(b"notice: ").decode(errors="replace"))

    def _replace_the_dead(self) -> None:
        for index, process in enumerate(self.processes):
            code = process.poll()
            if code in (None, 0):
                continue
            last, complete = self._last_line(index)
            if code == CANNOT_GO_ON:
                _, _, why = last.partition("cannot continue: ")
                if not why or not complete:  # the log had no room either
                    why = f"cannot write to '{self.results}': {NO_ROOM_HINT}"
                raise UserError(why)
            self.deaths += 1
            finished = len(self.job.cells) - len(self.job.left)
            if self.deaths > MAX_DEATHS * (len(self.processes) + finished):
                raise UserError(
                    f"workers die before they finish a run (exit code {code}): "
                    f"{last or 'no output'}; see '{self._log(index)}'"
                )
            self.processes[index] = self._start(index)

    def _last_line(self, index: int) -> tuple[str, bool]:
        """Return the last line of a worker's log, and whether the line is complete."""
        text = self._log(index).read_text(errors="replace")
        lines = text.strip().splitlines()
        return (lines[-1] if lines else ""), text.endswith("\n")

    def _stop(self) -> None:
        running = [process for process in self.processes if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self.job.stop_seconds
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass
class Outcome:
    """The outcome of some runs.

    found: the number of runs that had a record before. stopped: whether runs are left.
    """

    cells: int
    found: int
    done: int = 0
    failed: list[tuple[Cell, Record]] = field(default_factory=list)
    seconds: float = 0.0
    stopped: bool = False

    @property
    def computed(self) -> int:
        """Return the number of runs that were trained now."""
        return self.done + len(self.failed) - self.found


def job_spec(cells: Sequence[Cell], results: Path, estimated: Estimate, **options: Any) -> JobSpec:
    """Return the job specification of some runs. options: further fields of `JobSpec`."""
    return JobSpec(
        results=str(results),
        cells=tuple(cells),
        workers=estimated.workers,
        lanes=estimated.lanes,
        accelerator=estimated.gpus > 0,
        plugins=plugins.loaded(),
        provenance=provenance.of_checkout(results=results),
        **options,
    )


@dataclass(frozen=True)
class Processes:
    """Worker processes of this machine.

    workers: None: as many as the estimated time justifies, at most one per core, or one per
    accelerator; 0: only store the plans. lanes: parallel runs of a worker; None: 1 on a CPU, all
    runs on accelerators. threads: threads of each command; None: its share of the cores. output:
    where progress is printed; None: stdout. waits: whether to wait for runs that others compute.
    """

    workers: int | None = None
    lanes: int | None = None
    threads: int | None = None
    checkpoints: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    quiet: bool = False
    output: TextIO | None = None
    waits: bool = True
    _here: ClassVar[str | None] = None

    def run(
        self,
        plans: Sequence[Plan],
        results: Path,
        *,
        fresh: bool = False,
        deadline: float | None = None,
    ) -> Outcome:
        """Train the missing runs of plans; return when every run has a record.

        plans: the plans.
        results: the results folder.
        fresh: set existing records aside and compute everything again.
        deadline: a time of `time.monotonic` at which workers save their state and end.
        Raises KeyboardInterrupt: after a clean stop.
        """
        work = prepare(plans, results, fresh=fresh)
        return self.carry_out(work, results, names_of(plans), deadline)

    def estimate(self, cells: Sequence[Cell], results: Path) -> Estimate:
        """Return how long some runs would take."""
        backend = backend_of_all(cells)
        devices = machine.accelerators() if backend.compiles else 0
        known = speeds(results, cells, accelerator=devices > 0)
        workers = self.workers or cores()
        if not (self.workers or devices) and backend.compiles:
            training = sum(cell.steps / known[cell.program].rate for cell in cells)
            workers = min(workers, math.ceil(training / SECONDS_PER_WORKER))
        return sized(cells, known, cores=workers, gpus=devices, lanes=self.lanes)

    def carry_out(
        self, work: Work, results: Path, names: str, deadline: float | None = None
    ) -> Outcome:
        """Train runs; return the outcome. names: the plans as users read them."""
        started = time.monotonic()
        todo = work.todo
        if not todo:
            self._print(f"{names}: all {count(len(work.cells), 'run')} are done; nothing to run")
        elif self.workers == 0:
            self._print(f"{names}: {count(len(todo), 'run')} to do: `ablations work {results}`")
        else:
            backend = backend_of_all(todo)
            backend.require_installed(todo)
            estimated = self.estimate(todo, results)
            job = job_spec(
                todo,
                results,
                estimated,
                run=uuid.uuid4().hex[:8],
                threads=self.threads,
                waits=self.waits,
                checkpoints=self.checkpoints,
            )
            self._print(self._announcement(work, estimated, names))
            for line in notices(shell=self._here is None) if backend.compiles else ():
                self._print(line)
            with running(results):
                self._execute(job, estimated, deadline)
        outcome = outcome_of(work, results)
        outcome.seconds = time.monotonic() - started
        return outcome

    def _execute(self, job: JobSpec, estimated: Estimate, deadline: float | None) -> None:
        results = Path(job.results)
        bar = Bar(
            job.cells,
            results,
            console=Console(file=self.output or sys.stdout, quiet=self.quiet, highlight=False),
            programs={cell.hash: cell.program for cell in job.cells if cell.backend.compiles},
            compile_seconds=estimated.compile_seconds if estimated.measured else None,
            workers=job.workers,
        )
        path = job.write(results / "work" / "orders" / f"{job.run}.json")
        # Workers start with different programs, also on different machines.
        first = 0 if self.waits else random.randrange(1000)
        try:
            Workers(job, path, first).work(
                bar, lambda: deadline is not None and time.monotonic() >= deadline
            )
        finally:
            path.unlink(missing_ok=True)

    def _print(self, line: str) -> None:
        if not self.quiet:
            print(line, file=self.output or sys.stdout, flush=True)

    def _announcement(self, work: Work, estimated: Estimate, names: str) -> str:
        tasks = sorted({cell.task for cell in work.cells})
        about = f"; about {duration(estimated.seconds)}" if estimated.measured else ""
        return (
            f"{names}: {count(len(work.cells), 'run')} on {count(len(tasks), 'task')} "
            f"({', '.join(tasks)}): {len(work.cells) - len(work.todo)} done, {len(work.todo)} to "
            f"run; {self._here or estimated.size}{about}"
        )


class ThisProcess(Processes):
    """This process, for debuggers."""

    _here = "in this process"

    def _execute(self, job: JobSpec, estimated: Estimate, deadline: float | None) -> None:
        worker = Worker(job, 0)
        try:
            worker.run()
        finally:
            worker.release()


def names_of(plans: Sequence[Plan]) -> str:
    """Return the studies of plans with their profiles, as users read them."""
    return ", ".join(f"{plan.study.name} ({plan.request.get('profile')})" for plan in plans)


def outcome_of(work: Work, results: Path) -> Outcome:
    """Return the outcome of some runs."""
    outcome = Outcome(cells=len(work.cells), found=len(work.cells) - len(work.todo))
    for cell in work.cells:
        record = read_record(results, cell.hash)
        if record is None:
            outcome.stopped = True
        elif record.status == "done":
            outcome.done += 1
        else:
            outcome.failed.append((cell, record))
    return outcome

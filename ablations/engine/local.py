"""Train the missing runs of plans on this machine: start, watch, replace and stop workers.

Starts no JAX.
"""

from __future__ import annotations

import math
import os
import random
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
from ablations.engine import provenance
from ablations.engine.claims import published, running
from ablations.engine.estimate import Estimate, Resources, sized, speeds
from ablations.engine.job import (
    CANNOT_GO_ON,
    NO_ROOM_HINT,
    Cell,
    CheckpointPolicy,
    JobSpec,
    backend_of_all,
)
from ablations.engine.machine import cores
from ablations.engine.prepare import Work, needed, prepare
from ablations.engine.progress import Bar
from ablations.engine.provenance import OUR_ROOT
from ablations.engine.stored import to_work_on
from ablations.engine.worker import Worker
from ablations.errors import UserError, count, duration
from ablations.records import Plan, Record, read_record

POLL_SECONDS = 0.25
# A worker takes about 6 s of CPU to start: so much training is worth another.
SECONDS_PER_WORKER = 20.0
# The code is that of this process, wherever it came from: `-m` alone would import from the current
# folder first, whatever lies there.
_WORKER = (
    "import runpy, sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "runpy.run_module('ablations.engine.worker', run_name='__main__', alter_sys=True)"
)
MAX_DEATHS = 3


class Workers:
    """The worker processes of a job specification. path: its file, which stays there.

    first: the number of the first of them, where other machines have workers of the same file.
    """

    def __init__(self, job: JobSpec, path: Path, first: int = 0):
        """Start the workers."""
        self.job = job
        self.path = path
        self.first = first
        self.results = Path(job.results)
        self.logs = self.results / "work" / "logs"
        self.deaths = 0
        self._shown: dict[int, int] = {}  # how many bytes of a worker's log
        self.processes = [self._start(index) for index in range(job.workers)]

    def work(self, bar: Bar, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Wait until every worker has ended well, or until interrupted.

        Then each of them has the job's `stop_seconds` to save what it has. Raises UserError when
        they die without end, or say that none of them can go on, or that the rest would fail too.
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
        if (reason := self.job.stopped) is not None:
            raise UserError(reason)

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
                start_new_session=True,  # Ctrl-C reaches the parent alone, which stops them
            )

    def _log(self, index: int) -> Path:
        return self.logs / f"{self.job.run}-{self.first + index}.log"

    def _pass_on_notices(self, bar: Bar) -> None:
        for index in range(len(self.processes)):
            with self._log(index).open("rb") as log:
                log.seek(self._shown.get(index, 0))
                lines = log.read().split(b"\n")
                self._shown[index] = log.tell() - len(lines.pop())  # the last is not whole yet
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
                _, _, why = last.partition("cannot go on: ")
                if not why or not complete:  # the log had no room for it either
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
        """Return the last line of a worker's log, and whether it was written to its end."""
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
        """Return the number of runs that were trained."""
        return self.done + len(self.failed) - self.found


@dataclass(frozen=True)
class Processes:
    """Worker processes of this machine.

    workers: default: as many as the work is worth, at most one per core on CPU, one for all
    accelerators. lanes: parallel runs in one worker; default: 1 on CPU, 16 per accelerator; rounded
    up to deal evenly. threads: of each command; default: its share of the cores. checkpoints: how
    often state is saved. quiet: prints nothing. output: where progress is shown; default: stdout.
    waits: also for runs that others compute.
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

        Args:
            plans: what to compute.
            results: the results folder.
            fresh: compute everything again; what was there is set aside.
            deadline: of `time.monotonic`, at which it ends with the state of what ran saved.

        Raises:
            UserError: the results folder cannot be written.
            KeyboardInterrupt: after a clean stop.
        """
        work = prepare(plans, results, fresh=fresh)
        return self.carry_out(work, results, names_of(plans), deadline)

    def estimate(self, cells: Sequence[Cell], results: Path) -> Estimate:
        """Return how long some runs would take."""
        backend = backend_of_all(cells)
        devices = backend.accelerators()
        known = speeds(results, cells, accelerator=devices > 0)
        found = sized(cells, Resources(self.workers or cores(), devices, self.lanes), known)
        if self.workers or devices or not backend.compiles:
            return found
        training = sum(each.seconds for each in found.programs)
        worth = min(cores(), math.ceil(training / SECONDS_PER_WORKER))
        return sized(cells, Resources(worth, 0, self.lanes), known)

    def carry_out(
        self, work: Work, results: Path, names: str, deadline: float | None = None
    ) -> Outcome:
        """Train the runs that are to do; return the outcome. names: of the plans, for people."""
        started = time.monotonic()
        if not work.todo:
            self._say([f"{names}: all {count(len(work.cells), 'run')} are done; nothing to run"])
        elif self.workers == 0:
            self._say(
                [f"{names}: {count(len(work.todo), 'run')} to do: `ablations work {results}`"]
            )
        else:
            backend_of_all(work.todo).require_installed(work.todo)
            estimated = self.estimate(work.todo, results)
            job = self.job(work.todo, results, estimated)
            self._say(self._announced(work, job, estimated, names))
            with running(results):
                self._execute(job, estimated, deadline)
        stopped = deadline is not None and time.monotonic() >= deadline
        stopped |= not self.waits or self.workers == 0
        outcome = outcome_of(work, results, stopped=stopped)
        outcome.seconds = time.monotonic() - started
        return outcome

    def job(self, todo: Sequence[Cell], results: Path, estimated: Estimate) -> JobSpec:
        """Return the job specification of some runs."""
        checkout = provenance.of_checkout()
        provenance.keep_difference(results, checkout)
        return JobSpec(
            run=uuid.uuid4().hex[:8],
            results=str(results),
            cells=backend_of_all(todo).ready(todo, results),
            workers=estimated.workers,
            lanes=estimated.lanes,
            accelerator=estimated.gpus > 0,
            threads=self.threads,
            waits=self.waits,
            plugins=plugins.loaded(),
            checkpoints=self.checkpoints,
            provenance=checkout,
        )

    def _execute(self, job: JobSpec, estimated: Estimate, deadline: float | None) -> None:
        results = Path(job.results)
        console = Console(file=self.output or sys.stdout, quiet=self.quiet, highlight=False)
        seconds = estimated.compile_seconds if estimated.measured else None
        programs = {c.hash: c.program() for c in job.cells if job.backend.compiles}
        path = job.write(results / "work" / "orders" / f"{job.run}.json")
        # Workers begin with different programs; on other machines too, where they take what is left
        first = 0 if self.waits else random.randrange(1000)
        try:
            Workers(job, path, first).work(
                Bar(
                    job.cells,
                    results,
                    console=console,
                    programs=programs,
                    compile_seconds=seconds,
                    workers=job.workers,
                ),
                lambda: deadline is not None and time.monotonic() >= deadline,
            )
        finally:
            path.unlink(missing_ok=True)
            job.close()

    def _say(self, lines: Iterable[str]) -> None:
        for line in () if self.quiet else lines:
            print(line, file=self.output or sys.stdout, flush=True)

    def _announced(
        self, work: Work, job: JobSpec, estimated: Estimate, names: str
    ) -> Iterator[str]:
        programs = {cell.program() for cell in job.cells}
        compiled = f" {count(len(programs), 'program')} to compile;"
        tasks = sorted({cell.task for cell in work.cells})
        again = sum(job.backend.has_run(cell, Path(job.results)) for cell in job.cells)
        read = f", {again} of them only to be read again" if again else ""
        about = f"; about {duration(estimated.seconds)}" if estimated.measured else ""
        yield (
            f"{names}: {count(len(work.cells), 'run')} on {count(len(tasks), 'task')} "
            f"({', '.join(tasks)}): {len(work.cells) - len(work.todo)} done, {len(work.todo)} to "
            f"run{read};{compiled if job.backend.compiles else ''} "
            f"{self._here or job.backend.crew(job.workers, job.lanes)}{about}"
        )
        yield from job.backend.notices(shell=self._here is None)


class ThisProcess(Processes):
    """This process, for debuggers."""

    _here = "in this process"

    def _execute(self, job: JobSpec, estimated: Estimate, deadline: float | None) -> None:
        worker = Worker(job, 0)
        try:
            worker.run()
            if (reason := job.stopped) is not None:
                raise UserError(reason)
        finally:
            worker.release()
            job.close()


def names_of(plans: Sequence[Plan]) -> str:
    """Return the studies of plans with their profiles, for people."""
    return ", ".join(f"{plan.study.name} ({plan.request.get('profile')})" for plan in plans)


def outcome_of(work: Work, results: Path, *, stopped: bool = False) -> Outcome:
    """Return the outcome of some runs.

    stopped: some may have no record yet; else that is an error.
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


def work(
    folder: Path,
    studies: Sequence[str] = (),
    *,
    minutes: float | None = None,
    workers: int | None = None,
    lanes: int | None = None,
    quiet: bool = False,
) -> Outcome:
    """Train missing runs of stored plans, beside any number of other workers.

    `ablations run STUDY --workers 0` stores a plan. Each worker takes runs that nobody else
    computes and ends when none is left, so a job array of any scheduler may start as many as it
    likes. A worker that is ended saves its state, and its runs go on elsewhere.

    Args:
        folder: the results folder, which all workers see.
        studies: whose last plans are meant; none: all that are stored there. The study of a study
            file is named by its file, as commands in a results folder are never executed.
        minutes: when it ends, with the state of its runs saved; None: when nothing is left.
        workers: processes; None: as many as the work is worth.
        lanes: parallel runs of a process on accelerators.
        quiet: print nothing.

    Raises:
        UserError: nothing is stored there, or a plan runs commands and its file is not named.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    plans = to_work_on(studies, folder)
    cells = needed(plans)
    todo = tuple(cell for cell in cells if not published(folder, cell.hash))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # save, as after Ctrl-C
    executor = Processes(workers, lanes, quiet=quiet, waits=False)
    return executor.carry_out(Work(cells, todo), folder, names_of(plans), deadline)

"""Train runs, in a process that `Workers` starts on this machine or on a cluster.

A worker reads a job specification, locks free runs, and writes their records. A CPU worker trains
one run at a time on one core; an accelerator worker trains a batch of parallel runs. If another
worker dies, its runs continue here from their last checkpoint. The worker ends when every run has a
record, or, if `JobSpec.waits` is false, when no free run is left.

Output lines that start with "notice: " are shown to the user; the rest is the worker's log.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from ablations import plugins
from ablations.core.record import Provenance
from ablations.engine.backends import Prepared, RunningBatch
from ablations.engine.claims import Claim, checkpoint_points, claim, published, work_folder
from ablations.engine.job import (
    CANNOT_GO_ON,
    NO_ROOM_HINT,
    Cell,
    JobSpec,
    Kind,
    Result,
    TrainingFailed,
)
from ablations.engine.machine import slurm_job
from ablations.errors import UserError
from ablations.records import Record, write_record

MAX_TRIES = 3
LOG_LINES = 12
WAIT_SECONDS = 0.5
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class Worker:
    """One process of a job. index: its number, by which workers start with different programs."""

    def __init__(self, job: JobSpec, index: int):
        self.job = job
        self.backend = job.backend
        self.results = Path(job.results)
        self._program: tuple[str, Prepared] | None = None
        self._batch: RunningBatch | None = None
        # If Slurm requeues the job, all of its runs die: that is not the fault of any run.
        restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
        self._attempt = f"{job.run}/{slurm_job() or job.run}/{restarts}"
        self._claims: list[Claim] = []
        self._training = False
        self._stopping = False
        # Runs that may have no record, by hash. An OrderedDict, because iterating a plain dict
        # visits the slots of all deleted runs.
        kinds: dict[Kind, OrderedDict[str, Cell]] = {}
        for cell in job.cells:
            kinds.setdefault(cell.kind, OrderedDict())[cell.hash] = cell
        # Each worker starts with a different program: they compile in parallel.
        programs = list(dict.fromkeys(kind.program for kind in kinds))
        rank = {program: (i - index) % len(programs) for i, program in enumerate(programs)}
        self._waiting = dict(sorted(kinds.items(), key=lambda each: rank[each[0].program]))

    def run(self) -> None:
        """Train until no run is left."""
        while self._waiting:
            if block := self._claim_block():
                self._run_block(block)
            elif not self.job.waits:
                return
            elif self._waiting:
                time.sleep(WAIT_SECONDS)

    def release(self) -> None:
        """Release all unfinished runs; they do not count as tries."""
        if self._batch is not None:
            self._batch.abandon()
        while self._claims:
            self._claims.pop().release()

    def stop(self) -> bool:
        """End after the current chunk, with a checkpoint. Return whether the worker is training."""
        self._stopping = True
        return self._training

    def _claim_block(self) -> list[Cell]:
        """Lock at most `lanes` runs of one kind with equal progress."""
        for kind, waiting in [*self._waiting.items()]:
            loaded = self._program
            lanes = loaded[1].lanes if loaded and loaded[0] == kind.program else self.job.lanes
            block = self._claim_among(waiting, lanes)
            if not waiting:
                del self._waiting[kind]
            if block:
                return block
        return []

    def _claim_among(self, waiting: OrderedDict[str, Cell], lanes: int) -> list[Cell]:
        """Lock at most `lanes` runs, and delete runs with a record from `waiting`."""
        block: list[Cell] = []
        done: list[str] = []
        start = 0
        for cell in waiting.values():
            if published(self.results, cell.hash):
                done.append(cell.hash)
                continue
            if block and self._last_checkpoint(cell) != start:
                continue
            if held := claim(self.results, cell.hash):
                point = self._last_checkpoint(cell)
                if held.begin(self._attempt, point) > MAX_TRIES:
                    self._give_up(cell, held)
                    continue
                if not block:
                    start = point
                self._claims.append(held)
                block.append(cell)
                if len(block) == lanes:
                    break
        for name in done:
            del waiting[name]
        return block

    def _last_checkpoint(self, cell: Cell) -> int:
        return max(checkpoint_points(self.results, cell.hash), default=0)

    def _run_block(self, cells: list[Cell]) -> None:
        started = time.time()
        self._batch = None  # free its memory first
        for cell in cells:
            print(f"began {cell.hash}", flush=True)
        held = list(self._claims)
        phase = "compiling" if self.backend.compiles else "starting"
        try:
            for lock in held:
                lock.beat(phase, 0, cells[0].steps, 0.0, None, force=True)
            program, compile_seconds = self._program_for(cells[0])
            for lock in held[program.lanes :]:  # they do not fit into the memory
                self._claims.remove(lock)
                lock.release()
            cells, held = cells[: program.lanes], held[: program.lanes]
            self._batch = batch = program.training(cells, self.results)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise
            if not isinstance(error, UserError):
                traceback.print_exc()
            self._publish_failure(cells, held, error, {"started": started})
            return
        costs: Provenance = {
            "started": started,
            "compile_seconds": compile_seconds,
            "lanes": len(cells),
        }
        self._training = True
        try:
            results = batch.run(held, lambda: self._stopping)
        except TrainingFailed as failed:
            self._publish_failure(cells, held, failed.error, costs)
            return
        finally:
            self._training = False
        for cell, lock, (result, cost) in zip(cells, held, results, strict=True):
            self._publish(cell, lock, result, {**costs, **cost})
            lock.finish()

    def _program_for(self, cell: Cell) -> tuple[Prepared, float]:
        """Return the run's program, and the seconds that its compilation took now."""
        name = cell.program
        if self._program is not None and self._program[0] == name:
            return self._program[1], 0.0
        self._program = None  # free its memory first
        sharing = sum(other.program == name for other in self.job.cells)
        program = self.backend.prepare(cell, self.job, sharing)
        self._program = (name, program)
        print(f"program {name} ready in {program.compile_seconds:.1f} s", flush=True)
        return program, round(program.compile_seconds, 3)

    def _publish_failure(
        self, cells: Sequence[Cell], held: Sequence[Claim], error: Exception, about: Provenance
    ) -> None:
        """Record a failure, and keep checkpoints for another try."""
        result = Result({"step": []}, "error", _one_line(error))
        for cell, lock in zip(cells, held, strict=True):
            self._publish(cell, lock, result, {"log": _tail_of(error), **about})
            lock.release()

    def _give_up(self, cell: Cell, held: Claim) -> None:
        self._claims.append(held)
        reason = (
            f"its worker died {MAX_TRIES} times while running it (killed, out of memory, or a "
            f"crash in native code): see the logs under '{self.results / 'work' / 'logs'}'"
        )
        self._publish(cell, held, Result({"step": []}, "error", reason), {})
        held.release()

    def _publish(self, cell: Cell, held: Claim, result: Result, about: Provenance) -> None:
        ran = self.backend.provenance(cell, self.job)
        record = Record(
            cell.hash,
            cell.config,
            "failed" if result.failure else "done",
            result.failure,
            result.reason,
            result.failed_step,
            {**self.job.provenance, **ran, **about},
            policies=result.policies,
        )
        first = write_record(
            self.results,
            record,
            result.columns,
            result.folder,
            result.files,
            within=work_folder(self.results, cell.hash),
        )
        print(f"{'ended' if first else 'doubled'} {cell.hash}", flush=True)
        self._claims.remove(held)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300].encode(errors="backslashreplace").decode()
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _tail_of(error: BaseException) -> list[str]:
    """Return the last lines of a command's output, or of a traceback."""
    if (printed := getattr(error, "log", None)) is not None:
        return list(printed)
    text = "".join(traceback.format_exception(error))
    return text.rstrip().splitlines()[-LOG_LINES:]


def end_with_parent(release: Callable[[], None], parent: int) -> None:
    """End this process after its parent process, by id, has ended. release: called before."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        try:
            release()
        finally:
            os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _why(error: OSError | UserError, job: JobSpec) -> str:
    if isinstance(error, UserError):
        return str(error)
    reason = error.strerror or error
    if error.errno in NO_ROOM or not error.filename:
        return f"cannot write to '{job.results}': {reason}: {NO_ROOM_HINT}"
    return f"cannot read or write '{error.filename}': {reason}; what is done is safe"


def without_warp() -> None:
    """Hide NVIDIA Warp from MuJoCo MJX: its import takes seconds, and nothing here uses it."""
    sys.modules.setdefault("warp", None)  # type: ignore[arg-type]


def main(arguments: list[str]) -> int:
    """Work on a job. arguments: its file, the number of this worker, the parent's process id."""
    path, index, parent = arguments
    workers: list[Worker] = []

    def release() -> None:
        for worker in workers:
            worker.release()

    end_with_parent(release, int(parent))
    job = JobSpec.read(Path(path))
    plugins.load(job.plugins)
    without_warp()
    try:
        job.backend.require_device(job)
        worker = Worker(job, int(index))
        workers.append(worker)

        def stop(*_: int | FrameType | None) -> None:
            if not worker.stop():
                raise SystemExit(143)

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
        try:
            worker.run()
        finally:
            worker.release()
    except (OSError, UserError) as error:
        with contextlib.suppress(OSError):  # the log may be on the full disc
            print(f"cannot continue: {_why(error, job)}", file=sys.stderr)
        return CANNOT_GO_ON
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code == CANNOT_GO_ON:
        os._exit(code)  # flushing a log that cannot be written would change the code
    sys.exit(code)

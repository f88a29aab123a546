"""Train runs: the process that `Workers` starts.

The same on this machine and on a cluster. It reads a job specification, locks runs of it that
nobody has, and leaves records behind. On CPU it trains one run at a time on one core, on an
accelerator a batch of parallel runs. It ends when every run has a record, also those that others
compute: if one of those dies, its run is taken over, from its last checkpoint. (Where the job says
not to wait, it ends when no run is left that nobody computes.)

Lines of its output that start with "notice: " are for the user; the rest is its log.
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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from ablations import plugins
from ablations.core.record import Provenance
from ablations.engine.backends import Prepared
from ablations.engine.checkpoints import tidy
from ablations.engine.claims import Claim, checkpoint_points, claim, published, work_folder
from ablations.engine.job import CANNOT_GO_ON, NO_ROOM_HINT, Cell, JobSpec, Result, TrainingFailed
from ablations.engine.machine import slurm_job
from ablations.errors import UserError
from ablations.records import write_record

MAX_TRIES = 3
LOG_LINES = 12
WAIT_SECONDS = 0.5
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class Kind(NamedTuple):
    """What runs share that may train in parallel, once they are equally far."""

    program: str
    points: int
    measured: frozenset[int]


class Worker:
    """One process of a job."""

    def __init__(self, job: JobSpec, index: int):
        """Take the runs of a job. index: of the worker, which spreads workers over programs."""
        self.job = job
        self.backend = job.backend
        self.index = index
        self.results = Path(job.results)
        self._program: tuple[str, Prepared] | None = None
        # A job that Slurm puts back into its queue dies with all its runs: not the fault of one.
        restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
        self._attempt = f"{job.run}/{slurm_job() or job.run}/{restarts}"
        self._claims: list[Claim] = []
        self._training = False
        self._stopping = False
        self._programs = {cell.hash: cell.program() for cell in job.cells}
        # Kind -> hash -> run, of those that are not known to have a record. Iterating a plain dict
        # would visit the slots of all that were deleted.
        self._waiting: dict[Kind, OrderedDict[str, Cell]] = {}
        for cell in job.cells:
            self._waiting.setdefault(self._kind(cell), OrderedDict())[cell.hash] = cell

    def run(self) -> None:
        """Train until nothing is left to do, or no run is to be begun any more."""
        while self._waiting and self.job.stopped is None:
            block = self._claim_block()
            if block:
                self._run_block(block)
            elif self._waiting and not self.job.waits:
                return
            elif self._waiting:
                time.sleep(WAIT_SECONDS)

    def release(self) -> None:
        """Release all unfinished runs, as if they had never been begun."""
        if self._program is not None:
            self._program[1].abandon()
        while self._claims:
            self._claims.pop().release()

    def stop(self) -> bool:
        """Ask it to end after the current chunk, with a checkpoint.

        Return False where it is not training, so that nothing would answer.
        """
        self._stopping = True
        return self._training

    def _claim_block(self) -> list[Cell]:
        """Lock at most `lanes` runs that train in parallel: of one program, length and progress."""
        for kind in self._kinds():
            waiting = self._waiting[kind]
            block, done = self._claim_among(waiting.values())
            for cell in done:
                del waiting[cell.hash]
            if not waiting:
                del self._waiting[kind]
            if block:
                return block
        return []

    def _claim_among(self, cells: Iterable[Cell]) -> tuple[list[Cell], list[Cell]]:
        """Lock a batch of runs of one kind. Return it, and the runs that have a record."""
        block: list[Cell] = []
        done: list[Cell] = []
        start = 0
        for cell in cells:
            if published(self.results, cell.hash):
                done.append(cell)
                continue
            if block and self._last_checkpoint(cell) != start:
                continue
            if held := claim(self.results, cell.hash):
                point = self._last_checkpoint(cell)
                if held.tries(self._attempt, point) >= MAX_TRIES:
                    self._give_up(cell, held)
                    continue
                start = start if block else point
                held.begin(self._attempt, point)
                tidy(self.results, cell.hash)
                self._claims.append(held)
                block.append(cell)
                if len(block) == self._lanes(cell):
                    break
        return block, done

    def _kinds(self) -> list[Kind]:
        """Return the kinds of waiting runs, those of the loaded program first.

        Without one each worker starts with another, so that they compile in parallel.
        """
        kinds = list(self._waiting)
        programs = list(dict.fromkeys(kind.program for kind in kinds))
        at_hand = self._program[0] if self._program else None
        start = programs.index(at_hand) if at_hand in programs else self.index % len(programs)
        programs = [*programs[start:], *programs[:start]]
        place = {program: index for index, program in enumerate(programs)}
        return sorted(kinds, key=lambda kind: place[kind.program])

    def _lanes(self, cell: Cell) -> int:
        """Return how many runs may train in parallel, as far as the program knows."""
        if self._program is not None and self._program[0] == self._programs[cell.hash]:
            return self._program[1].lanes
        return self.job.lanes

    def _kind(self, cell: Cell) -> Kind:
        return Kind(self._programs[cell.hash], cell.points, cell.measured)

    def _last_checkpoint(self, cell: Cell) -> int:
        return max(checkpoint_points(self.results, cell.hash), default=0)

    def _run_block(self, cells: list[Cell]) -> None:
        started = time.time()
        for cell in cells:
            print(f"began {cell.hash}", flush=True)
        held = list(self._claims)
        phase = "compiling" if self.backend.compiles else "starting"
        try:
            for one in held:
                one.beat(phase, 0, cells[0].steps, 0.0, None, force=True)
            program, compile_seconds = self._program_for(cells[0])
            for one in held[program.lanes :]:  # they do not fit, and wait for the next batch
                self._claims.remove(one)
                one.release()
            cells, held = cells[: program.lanes], held[: program.lanes]
            training = program.training(cells, self.results, self.job.checkpoints)
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
            training.run(held, lambda: self._stopping)
        except TrainingFailed as failed:
            self._publish_failure(cells, held, failed.error, costs)
            if failed.stops:
                self.job.stop(f"{cells[0].name}: {failed}; {self.backend.mending}")
            return
        finally:
            self._training = False
        for index, (cell, one) in enumerate(zip(cells, held, strict=True)):
            self._publish(cell, one, training.result(index), {**costs, **training.cost(index)})
            one.finish()

    def _program_for(self, cell: Cell) -> tuple[Prepared, float]:
        """Return the run's program, and the seconds that it took to compile it."""
        name = self._programs[cell.hash]
        if self._program is None or self._program[0] != name:
            self._program = None  # frees the last one's memory first
            sharing = list(self._programs.values()).count(name)
            program = self.backend.prepare(cell, self.job, sharing)
            self._program = (name, program)
            print(f"program {name} ready in {program.compile_seconds:.1f} s", flush=True)
            return program, round(program.compile_seconds, 3)
        return self._program[1], 0.0

    def _publish_failure(
        self,
        cells: Sequence[Cell],
        held: Sequence[Claim],
        error: Exception,
        about: Provenance,
    ) -> None:
        """Record a failure. Checkpoints stay: another try may resume from them."""
        for cell, one in zip(cells, held, strict=True):
            self._publish(cell, one, _failed(_one_line(error)), {"log": _tail_of(error), **about})
            one.release()

    def _give_up(self, cell: Cell, held: Claim) -> None:
        self._claims.append(held)
        reason = (
            f"its worker died {MAX_TRIES} times while running it (killed, out of memory, or a "
            f"crash in native code): see the logs under '{self.results / 'work' / 'logs'}'"
        )
        self._publish(cell, held, _failed(reason), {})
        held.release()

    def _publish(self, cell: Cell, held: Claim, result: Result, about: Provenance) -> None:
        ran = self.backend.provenance(cell, self.job)
        first = write_record(
            self.results,
            result.record(cell, {**self.job.provenance, **ran, **about}),
            result.columns,
            result.folder,
            result.files,
            within=work_folder(self.results, cell.hash),
        )
        print(f"{'ended' if first else 'doubled'} {cell.hash}", flush=True)
        self._claims.remove(held)


def _failed(reason: str) -> Result:
    return Result({"step": []}, "error", reason)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300].encode(errors="backslashreplace").decode()
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _tail_of(error: BaseException) -> list[str]:
    """Return the end of what a command printed, or the innermost lines of a traceback.

    The log itself is deleted one day.
    """
    if (printed := getattr(error, "log", None)) is not None:
        return list(printed)
    text = "".join(traceback.format_exception(error))
    return text.rstrip().splitlines()[-LOG_LINES:]


def end_with_parent(release: Callable[[], None], parent: int) -> None:
    """End this process soon after its parent has ended, for whatever reason.

    No orphan keeps a core.

    Args:
        release: lets go of what this process holds.
        parent: process id.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        try:
            release()
        finally:
            os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _why(error: OSError | UserError, job: JobSpec) -> str:
    """Return a line on why the workers of a job had to stop."""
    if isinstance(error, UserError):
        return str(error)
    reason = error.strerror or error
    if error.errno in NO_ROOM or not error.filename:
        return f"cannot write to '{job.results}': {reason}: {NO_ROOM_HINT}"
    return f"cannot read or write '{error.filename}': {reason}; what is done is safe"


def without_warp() -> None:
    """Let MuJoCo MJX find no NVIDIA Warp: it takes seconds to import and computes nothing here."""
    sys.modules.setdefault("warp", None)  # type: ignore[arg-type]


def main(arguments: list[str]) -> int:
    """Work on a job. arguments: its file, the number of this worker, the parent's process id."""
    path, index, parent = arguments
    held: list[Worker] = []
    end_with_parent(lambda: _release(held), int(parent))
    job = JobSpec.read(Path(path))
    plugins.load(job.plugins)
    without_warp()
    try:
        _work(job, int(index), held)
    except (OSError, UserError) as error:
        with contextlib.suppress(OSError):  # the log may lie on the same full disc
            print(f"cannot go on: {_why(error, job)}", file=sys.stderr)
        return CANNOT_GO_ON
    return 0


def _release(held: Sequence[Worker]) -> None:
    for worker in held:
        worker.release()


def _work(job: JobSpec, index: int, held: list[Worker]) -> None:
    """Train the runs that are left.

    held: takes the worker, so that what it holds can be released. Raises OSError or UserError where
    another worker would not fare better.
    """
    job.backend.require_device(job)
    worker = Worker(job, index)
    held.append(worker)

    def stop(*_: int | FrameType | None) -> None:
        if not worker.stop():
            raise SystemExit(143)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    try:
        worker.run()
    finally:
        worker.release()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code == CANNOT_GO_ON:
        os._exit(code)  # to flush a log that cannot be written would change the code
    sys.exit(code)

"""The process that runs cells: `python -m ablations.sweep.worker ORDER.json`.

The same on this machine and on a cluster. It reads an order (a list of cells), claims what nobody
has, and leaves records behind; the order, the claims and the records are all that it shares with
anybody. On CPU it runs one lane on one core, on an accelerator a block of lanes. It ends when every
cell of the order has a record, also those that others run: if one of them dies, its cell is taken
over, and goes on from its last checkpoint. (Where it is not to be patient, it ends when nothing is
left that nobody runs.)

Lines of its output that start with "notice: " are for the user; the rest is its log.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from ablations import plugins
from ablations.records import Record, write_record
from ablations.sweep.claims import Claim, checkpoint_points, claim, published
from ablations.sweep.config import program_of, steps_of
from ablations.sweep.machine import use_cache
from ablations.sweep.order import CANNOT_WRITE, Keeping, Order
from ablations.trainers.composition import fixed_axes

if TYPE_CHECKING:
    from ablations.sweep.checkpoints import Checkpoint
    from ablations.sweep.program import Block, Lane, Program
    from ablations.sweep.snapshots import Snapshots

MAX_TRIES = 3
LOG_LINES = 12
WAIT_SECONDS = 0.5
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class Worker:
    def __init__(self, order: Order, index: int):
        self.order = order
        self.index = index
        self.results = Path(order.results)
        self._program: tuple[str, Program] | None = None
        # A job that Slurm puts back into its queue dies with all its cells: not the fault of one.
        self._attempt = f"{order.run}/{os.environ.get('SLURM_RESTART_COUNT', '0')}"
        self._claims: list[Claim] = []
        self._training = False
        self._stopping = False
        self._fixed = {
            cell["hash"]: fixed_axes(cell["config"], accelerator=order.accelerator)
            for cell in order.cells
        }
        self._programs = {
            cell["hash"]: program_of(cell["config"], self._fixed[cell["hash"]])
            for cell in order.cells
        }

    def run(self) -> None:
        waiting = list(self.order.cells)
        while waiting:
            waiting = [cell for cell in waiting if not published(self.results, cell["hash"])]
            block = self._claim_block(waiting)
            if block:
                self._run_block(block)
            elif waiting and not self.order.patient:
                return
            elif waiting:
                time.sleep(WAIT_SECONDS)

    def release(self) -> None:
        """Lets go of everything unfinished, as if it had never been begun."""
        while self._claims:
            self._claims.pop().release()

    def stop(self) -> bool:
        """Asks it to end after the chunk at hand, with a checkpoint. False where it is not
        training, so that nothing would answer."""
        self._stopping = True
        return self._training

    def _claim_block(self, waiting: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """At most `lanes` cells that run side by side: one program, one length, and so far the same
        way behind them."""
        from ablations.sweep.checkpoints import tidy

        block: list[Mapping[str, Any]] = []
        for cell in self._in_order_of_preference(waiting):
            if block and self._kind(cell) != self._kind(block[0]):
                continue
            if held := claim(self.results, cell["hash"]):
                point = max(checkpoint_points(self.results, cell["hash"]), default=0)
                if held.tries(self._attempt, point) >= MAX_TRIES:
                    self._give_up(cell, held)
                    continue
                held.begin(self._attempt, point)
                tidy(self.results, cell["hash"])
                self._claims.append(held)
                block.append(cell)
            if len(block) == self.order.lanes:
                break
        return block

    def _in_order_of_preference(
        self, waiting: Iterable[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """The program at hand first; else each worker starts with another one, to compile side by
        side.
        """
        programs = list(dict.fromkeys(self._programs[cell["hash"]] for cell in self.order.cells))
        at_hand = self._program[0] if self._program else programs[self.index % len(programs)]
        start = programs.index(at_hand)
        rank = {name: (i - start) % len(programs) for i, name in enumerate(programs)}
        return sorted(waiting, key=lambda cell: rank[self._programs[cell["hash"]]])

    def _kind(self, cell: Mapping[str, Any]) -> tuple[str, int, int, int]:
        run = cell["config"]["run"]
        point = max(checkpoint_points(self.results, cell["hash"]), default=0)
        return self._programs[cell["hash"]], run["points"], run["evaluations"], point

    def _run_block(self, cells: list[Mapping[str, Any]]) -> None:
        started = time.time()
        for cell in cells:
            print(f"began {cell['hash']}", flush=True)
        held = list(self._claims)
        try:
            for one in held:
                one.beat("compiling", 0, steps_of(cells[0]["config"]), 0.0, None, force=True)
            program, compile_seconds = self._program_for(cells[0])
            training = self._start(program, cells)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise
            traceback.print_exc()
            self._fail(cells, held, error, {"started": started})
            return
        provenance = {"started": started, "compile_seconds": compile_seconds, "lanes": len(cells)}
        try:
            self._train(training, held)
        except _ChunkFailed as failed:
            self._fail(cells, held, failed.error, provenance)
            return
        for index, (cell, one) in enumerate(zip(cells, held, strict=True)):
            lane, snapshots = training.block.lanes[index], training.snapshots[index]
            told = provenance | training.told(index)
            self._publish(cell, one, lane, None, told, snapshots)

    def _start(self, program: Program, cells: list[Mapping[str, Any]]) -> _Training:
        """The cells at their last checkpoint, or at their beginning."""
        from ablations.sweep.checkpoints import discard_after, newest
        from ablations.sweep.snapshots import Snapshots
        from ablations.trainers.leaves import Mismatch

        found, refused = newest(self.results, cells)
        configs = [cell["config"] for cell in cells]
        try:
            block = program.start(configs, [one.saved for one in found] if found else None)
        except Mismatch as why:
            refused.append(f"checkpoints of {cells[0]['hash']} are refused: {why}")
            found, block = None, program.start(configs)
        for cell in cells:
            discard_after(self.results, cell["hash"], block.point)
        for line in refused:
            print(f"notice: {line}", flush=True)
        if found or refused:
            where = f"go on at step {block.step:,}" if found else "start at the beginning"
            print(f"notice: {', '.join(cell['hash'] for cell in cells)} {where}", flush=True)
        evaluated = bool(configs[0]["run"]["evaluations"])
        metric = "evaluation/return" if evaluated else self.order.metric
        snapshots = [
            Snapshots(self.results, c["hash"], c["config"], metric, self.order.keeping.snapshots)
            for c in cells
        ]
        return _Training(block, found, snapshots)

    def _train(self, training: _Training, held: list[Claim]) -> None:
        block = training.block
        steps = block.points * block.steps_per_point
        for one in held:
            one.start = block.step
        self._training = True
        try:
            while not block.finished:
                try:
                    block.advance()
                except Exception as error:
                    traceback.print_exc()
                    raise _ChunkFailed(error) from error
                training.keep_policies()
                for lane, one in zip(block.lanes, held, strict=True):
                    score = lane.columns.get(self.order.metric, [None])[-1]
                    last = block.step == steps
                    one.beat("training", block.step, steps, training.rate, score, force=last)
                if self._stopping or training.due(self.order.keeping):
                    training.save(self.order.keeping.checkpoints)
                if self._stopping:
                    raise SystemExit(143)
        finally:
            self._training = False

    def _program_for(self, cell: Mapping[str, Any]) -> tuple[Program, float]:
        """The cell's program; compiled by one worker at a time, so that the others find it in the
        cache.
        """
        from ablations.sweep.program import Program

        name = self._programs[cell["hash"]]
        if self._program is None or self._program[0] != name:
            self._program = None  # frees the last one's memory first
            lock = self.results / "work" / "programs" / f"{name}-{self.order.lanes}.lock"
            lock.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(lock):
                program = Program(
                    cell["config"], lanes=self.order.lanes, fixed=self._fixed[cell["hash"]]
                )
            self._program = (name, program)
            print(f"program {name} ready in {program.compile_seconds:.1f} s", flush=True)
            return program, round(program.compile_seconds, 3)
        return self._program[1], 0.0

    def _publish(
        self,
        cell: Mapping[str, Any],
        held: Claim,
        lane: Lane | None,
        error: str | None,
        provenance: Mapping[str, Any],
        snapshots: Snapshots | None = None,
    ) -> None:
        if lane is None:
            outcome: dict[str, Any] = {"status": "failed", "failure": "error", "reason": error}
        elif lane.diverged:
            first, last = lane.diverged
            outcome = {
                "status": "failed",
                "failure": "diverged",
                "reason": f"parameters were no longer finite between steps {first} and {last}",
                "failed_step": last,
            }
        else:
            outcome = {"status": "done"}
        if lane and snapshots:
            outcome["policies"] = snapshots.finish(lane)
        whole = {**self.order.provenance, **_provenance(), **provenance}
        first = write_record(
            self.results,
            Record(cell["hash"], cell["config"], provenance=whole, **outcome),
            lane.columns if lane else {"step": []},
            snapshots.folder if snapshots else None,
        )
        print(f"{'ended' if first else 'doubled'} {cell['hash']}", flush=True)
        self._claims.remove(held)
        held.finish(keep_checkpoints=lane is None)

    def _fail(
        self,
        cells: Sequence[Mapping[str, Any]],
        held: Sequence[Claim],
        error: Exception,
        provenance: Mapping[str, Any],
    ) -> None:
        told = {"log": _tail_of(error), **provenance}
        for cell, one in zip(cells, held, strict=True):
            self._publish(cell, one, None, _one_line(error), told)

    def _give_up(self, cell: Mapping[str, Any], held: Claim) -> None:
        self._claims.append(held)
        self._publish(
            cell,
            held,
            None,
            f"its worker died {MAX_TRIES} times while running it (killed, out of memory, or a "
            f"crash in native code): see the logs under '{self.results / 'work' / 'logs'}'",
            {},
        )


class _ChunkFailed(Exception):
    """What a chunk of training raised: the cell's own failure, unlike a disc that is full."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error


class _Training:
    """A block of cells, and what it leaves on disk on its way."""

    def __init__(
        self, block: Block, found: list[Checkpoint] | None, snapshots: Sequence[Snapshots]
    ):
        from ablations.sweep.checkpoints import Spent

        self.block = block
        self.snapshots = snapshots
        self._spent = [one.spent for one in found] if found else [Spent() for _ in snapshots]
        if found:
            self._spent = [replace(one, resumed=(*one.resumed, block.step)) for one in self._spent]
        self._first_step = block.step
        self._began = self._last_save = time.monotonic()
        self._last_save_step = block.step

    @property
    def seconds(self) -> float:
        """Of training in this process."""
        return max(time.monotonic() - self._began, 1e-9)

    @property
    def rate(self) -> float:
        """Environment steps per second of each cell, in this process."""
        return (self.block.step - self._first_step) / self.seconds

    def told(self, index: int) -> dict[str, Any]:
        """For the provenance: how fast a cell ran here, and what it cost over all processes."""
        from ablations.sweep.checkpoints import as_provenance

        rate = round(self.rate * len(self.snapshots))
        return {"steps_per_second": rate} | as_provenance(self._spent[index], self.seconds)

    def keep_policies(self) -> None:
        for index, (snapshots, lane) in enumerate(
            zip(self.snapshots, self.block.lanes, strict=True)
        ):
            if snapshots.wanted(self.block.point, lane):
                snapshots.write(self.block.step, self.block.policy(index))

    def due(self, keeping: Keeping) -> bool:
        """Whether it is time for a checkpoint. The end needs none: the record is next."""
        if self.block.finished:
            return False
        minutes, steps = keeping.minutes, keeping.steps
        by_time = minutes and time.monotonic() - self._last_save >= 60 * minutes
        by_steps = steps and self.block.step - self._last_save_step >= steps
        return bool(by_time or by_steps)

    def save(self, keep: int) -> None:
        from ablations.sweep.checkpoints import Checkpoint, save

        for index, snapshots in enumerate(self.snapshots):
            lane = self.block.lanes[index]
            spent = replace(self._spent[index], seconds=self._spent[index].seconds + self.seconds)
            after = save(
                snapshots.results,
                snapshots.cell,
                snapshots.config,
                Checkpoint(self.block.saved(index), spent, snapshots.score(lane)),
                keep,
            )
            # seconds are those of earlier processes; this one's are added when they are told
            self._spent[index] = replace(after, seconds=self._spent[index].seconds)
            snapshots.prune(lane)
        self._last_save, self._last_save_step = time.monotonic(), self.block.step


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def _tail_of(error: BaseException) -> list[str]:
    """The innermost lines of a traceback: the log itself is deleted one day."""
    text = "".join(traceback.format_exception(error))
    return text.rstrip().splitlines()[-LOG_LINES:]


def _provenance() -> dict[str, Any]:
    import jax

    from ablations.sweep import provenance

    device = jax.devices()[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes; bytes on macOS
    return provenance.of_process() | {
        "device": device.device_kind,
        "devices": len(jax.devices()),
        "peak_megabytes": round(peak / (1024**2 if sys.platform == "darwin" else 1024)),
    }


def end_with_parent(release: Callable[[], None]) -> None:
    """Ends this process soon after its parent is gone, whatever killed it: no orphan keeps a
    core. release: lets go of what it holds.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        try:
            release()
        finally:
            os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> int:
    order = Order.read(Path(arguments[0]))
    plugins.load(order.plugins)
    use_cache(order.results)
    worker = Worker(order, int(arguments[1]) if len(arguments) > 1 else 0)

    def stop(*_: object) -> None:
        if not worker.stop():
            raise SystemExit(143)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    end_with_parent(worker.release)
    try:
        worker.run()
    except OSError as error:
        with contextlib.suppress(OSError):  # the log may lie on the same full disc
            print(f"cannot write to '{order.results}': {error.strerror or error}", file=sys.stderr)
        return CANNOT_WRITE
    finally:
        worker.release()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code == CANNOT_WRITE:
        os._exit(code)  # to flush a log that cannot be written would change the code
    sys.exit(code)

"""The process that runs cells: `python -m ablations.sweep.worker ORDER.json`.

The same on this machine and on a cluster. It reads an order (a list of cells), claims what nobody
has, and leaves records behind; the order, the claims and the records are all that it shares with
anybody. On CPU it runs one lane on one core, on an accelerator a block of lanes. It ends when every
cell of the order has a record, also those that others run: if one of them dies, its cell is taken
over.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from ablations import plugins
from ablations.records import Record, write_record
from ablations.sweep.claims import Claim, claim, published
from ablations.sweep.plan import program_of, steps_of

if TYPE_CHECKING:
    from ablations.sweep.program import Lane, Program

MAX_TRIES = 3
WAIT_SECONDS = 0.5
CANNOT_WRITE = 74  # EX_IOERR: another worker would not fare better


@dataclass(frozen=True)
class Order:
    """What a worker is told. cells: {"hash", "config"} each; metric: what the progress display
    shows.
    """

    run: str
    results: str
    cells: tuple[Mapping[str, Any], ...]
    plugins: tuple[str, ...] = ()
    lanes: int = 1
    accelerator: bool = False
    metric: str = "training/return"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, path: Path) -> Order:
        fields = json.loads(path.read_text())
        return cls(
            **fields | {"cells": tuple(fields["cells"]), "plugins": tuple(fields["plugins"])}
        )


class Worker:
    def __init__(self, order: Order, index: int):
        from ablations.sweep.program import fixed_axes

        self.order = order
        self.index = index
        self.results = Path(order.results)
        self._program: tuple[str, Program] | None = None
        self._claims: list[Claim] = []
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
            elif waiting:
                time.sleep(WAIT_SECONDS)

    def release(self) -> None:
        """Lets go of everything unfinished, as if it had never been begun."""
        while self._claims:
            self._claims.pop().release()

    def _claim_block(self, waiting: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """At most `lanes` cells that run side by side: one program, one length."""
        block: list[Mapping[str, Any]] = []
        for cell in self._in_order_of_preference(waiting):
            if block and self._kind(cell) != self._kind(block[0]):
                continue
            if held := claim(self.results, cell["hash"]):
                if held.tries(self.order.run) >= MAX_TRIES:
                    self._give_up(cell, held)
                    continue
                held.begin(self.order.run)
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

    def _kind(self, cell: Mapping[str, Any]) -> tuple[str, int, int]:
        run = cell["config"]["run"]
        return self._programs[cell["hash"]], run["points"], run["evaluations"]

    def _run_block(self, block: list[Mapping[str, Any]]) -> None:
        started = time.time()
        for cell in block:
            print(f"began {cell['hash']}", flush=True)
        steps = steps_of(block[0]["config"])
        held = list(self._claims)
        compile_seconds = None
        try:
            for one in held:
                one.beat("compiling", 0, steps, 0.0, None, force=True)
            program, compile_seconds = self._program_for(block[0])
            began = time.monotonic()

            def progress(step: int, metrics: Mapping[str, Any]) -> None:
                rate = step / max(time.monotonic() - began, 1e-9)
                for index, one in enumerate(held):
                    score = metrics.get(self.order.metric)
                    shown = None if score is None else float(score[index])
                    shown = None if shown is None or shown != shown else shown
                    one.beat("training", step, steps, rate, shown, force=step == steps)

            lanes: list[Lane | None] = list(program.run([c["config"] for c in block], progress))
            error, seconds = None, time.monotonic() - began
        except Exception as raised:
            traceback.print_exc()
            lanes, error, seconds = [None] * len(block), _one_line(raised), time.time() - started
        provenance = {
            **self.order.provenance,
            **_provenance(),
            "started": started,
            "seconds": round(seconds, 3),
            "steps_per_second": round(steps * len(block) / seconds),
            "compile_seconds": compile_seconds,
            "lanes": len(block),
        }
        for cell, one, lane in zip(block, held, lanes, strict=True):
            self._publish(cell, one, lane, error, provenance)

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
        columns = lane.columns if lane else {"step": []}
        write_record(
            self.results,
            Record(cell["hash"], cell["config"], provenance=provenance, **outcome),
            columns,
        )
        self._claims.remove(held)
        held.finish()

    def _give_up(self, cell: Mapping[str, Any], held: Claim) -> None:
        self._claims.append(held)
        self._publish(
            cell,
            held,
            None,
            f"its worker died {MAX_TRIES} times while running it (killed, out of memory, or a "
            f"crash in native code): see the logs under '{self.results / 'work' / 'logs'}'",
            dict(self.order.provenance),
        )


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def _provenance() -> dict[str, Any]:
    import jax

    from ablations.sweep import provenance

    device = jax.devices()[0]
    return provenance.of_process() | {"device": device.device_kind, "devices": len(jax.devices())}


def use_cache(order: Order) -> None:
    """Keeps compiled programs for the other workers and for the next run: beside the results, or
    where JAX_COMPILATION_CACHE_DIR says.
    """
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        cache = Path(order.results) / "cache"
        jax.config.update("jax_compilation_cache_dir", str(cache.resolve()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _end_with_parent(worker: Worker) -> None:
    """Ends this process soon after its parent is gone, whatever killed it: no orphan keeps a
    core.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        worker.release()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> int:
    order = Order.read(Path(arguments[0]))
    plugins.load(order.plugins)
    use_cache(order)
    worker = Worker(order, int(arguments[1]) if len(arguments) > 1 else 0)

    def stop(*_: object) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    _end_with_parent(worker)
    try:
        worker.run()
    except OSError as error:
        print(f"cannot write to '{order.results}': {error.strerror or error}", file=sys.stderr)
        return CANNOT_WRITE
    finally:
        worker.release()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

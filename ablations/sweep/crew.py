"""Start, watch, replace and stop the workers of an order on one machine. Starts no JAX."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ablations.errors import UserError
from ablations.sweep.order import CANNOT_GO_ON, NO_ROOM_HINT, Order
from ablations.sweep.progress import Progress
from ablations.sweep.provenance import OUR_ROOT

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

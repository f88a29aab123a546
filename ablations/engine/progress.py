"""Show the progress of all workers, from their records and heartbeats."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from ablations.engine.claims import Heartbeat, published, read_heartbeat
from ablations.engine.job import Cell
from ablations.errors import duration, printable
from ablations.records import read_record

LINE_SECONDS = 30.0  # between lines if the output is not a terminal


class Bar:
    """A progress bar: runs and steps done, steps per second of training, time left.

    programs: hash -> program of compiled runs. compile_seconds: the compilation time of similar
    programs; None: unknown. workers: how many programs are compiled at the same time.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        results: Path,
        *,
        console: Console | None = None,
        programs: Mapping[str, str] = MappingProxyType({}),
        compile_seconds: float | None = None,
        workers: int = 1,
    ):
        self.results = results
        self.console = console or Console(highlight=False)
        self._cells = {cell.hash: cell for cell in cells}
        self._waiting = dict.fromkeys(self._cells)
        self._in_steps = all(cell.steps for cell in cells)  # else in runs
        self._total = sum(cell.steps for cell in cells) if self._in_steps else len(cells)
        self._compiles = any(cell.backend.compiles for cell in cells)
        self._programs, self._to_compile = programs, {*programs.values()}
        self._compile_seconds, self._workers = compile_seconds, workers
        self._done_steps = self._steps = self._failed = 0
        self._first: dict[str, tuple[int, int]] = {}  # run -> its process, and its first step now
        self._training = self._compiling = 0.0  # seconds
        self._gained = 0  # steps that were trained now
        self._started = self._last_read = time.monotonic()
        self._began = time.time()  # heartbeats from before are of an earlier call
        self._last_line = 0.0
        self._bar = Progress(
            BarColumn(30), TextColumn("{task.description}"), console=self.console, transient=True
        )
        self._task = self._bar.add_task("", total=max(1, self._total))

    def __enter__(self) -> Bar:
        """Start the clock and the display."""
        self._started = self._last_read = time.monotonic()
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the display; print the last line."""
        self._bar.stop()
        if kind is None:
            self._read()
            self._print_line()

    @property
    def _live(self) -> bool:
        return self.console.is_terminal and not self.console.quiet

    @property
    def _done(self) -> int:
        return len(self._cells) - len(self._waiting)

    def update(self) -> None:
        """Read the state of the runs and show it."""
        self._read()
        if self._live:
            done = self._steps if self._in_steps else self._done
            self._bar.update(self._task, completed=done, description=self._line())
        elif time.monotonic() - self._last_line > LINE_SECONDS:
            self._print_line()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, markup=False, soft_wrap=True)

    def _read(self) -> None:
        """Read new records and heartbeats; count the seconds since the last call."""
        for name in sorted(_names(self.results / "cells") & self._waiting.keys()):
            if published(self.results, name):
                self._finish(self._cells[name])
        beats = self._beats()
        steps = self._done_steps + sum(beat.step for beat in beats.values())
        self._steps = max(self._steps, steps)  # a resumed run starts at its last checkpoint
        now_alive = {name: beat for name, beat in beats.items() if beat.time >= self._began}
        for name, beat in beats.items():
            if self._first.get(name, (0,))[0] != beat.pid:
                first = beat.start if name in now_alive else beat.step
                self._first[name] = beat.pid, first
        gained = steps - sum(first for _, first in self._first.values())
        trains = {name for name, beat in now_alive.items() if beat.phase == "training"}
        self._to_compile -= {self._programs[name] for name in trains & self._programs.keys()}
        now = time.monotonic()
        if trains or gained > self._gained:
            self._training += now - self._last_read
        else:
            self._compiling += now - self._last_read
        self._gained, self._last_read = max(gained, self._gained), now

    def _finish(self, cell: Cell) -> None:
        del self._waiting[cell.hash]
        self._done_steps += cell.steps
        self._to_compile -= {self._programs.get(cell.hash, "")}
        record = read_record(self.results, cell.hash)
        if record and record.status == "failed":
            self._failed += 1
            line = printable(f"failed: {cell.name}: {record.reason}")
            self.console.print(Text(line, style="red"), soft_wrap=True)

    def _beats(self) -> dict[str, Heartbeat]:
        names = _names(self.results / "work") & self._waiting.keys()
        beats = {name: read_heartbeat(self.results, name) for name in names}
        return {name: beat for name, beat in beats.items() if beat}

    def _line(self) -> str:
        parts = [f"{self._done}/{len(self._cells)} runs"]
        if self._in_steps:
            parts.append(f"{self._steps:,}/{self._total:,} steps")
        if self._in_steps and self._gained:
            parts.append(f"{self._gained / max(self._training, 1e-9):,.0f} steps/s")
        parts += [self._left()] if self._waiting else []
        parts += [f"{self._failed} failed"] if self._failed else []
        return ", ".join(parts)

    def _left(self) -> str:
        """Write the time left for steps and compilations."""
        left = None
        if self._in_steps and self._gained:
            left = (self._total - self._steps) * self._training / self._gained
        elif not self._in_steps and self._done:
            left = (time.monotonic() - self._started) * len(self._waiting) / self._done
        if left is not None:
            left += len(self._to_compile) / self._workers * (self._compile_seconds or 0)
            return f"{duration(left)} left"
        if not self._compiles:
            return "time left unknown"
        of = f" of about {duration(self._compile_seconds)}" if self._compile_seconds else ""
        return f"compiling for {duration(self._compiling)}{of}"

    def _print_line(self) -> None:
        self._last_line = time.monotonic()
        if not self.console.quiet:  # rich would wrap the line
            line = f"[{duration(self._last_line - self._started)}] {self._line()}"
            print(line, file=self.console.file, flush=True)


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()

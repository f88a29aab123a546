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
from ablations.records import Record, read_record

LINE_SECONDS = 10.0


class Bar:
    """A progress bar: runs and steps done, steps per second of training, time left.

    line_seconds: seconds between lines if the output is not a terminal. programs: hash -> program
    of compiled runs. compile_seconds: the compilation time of similar programs; None: unknown.
    workers: how many programs are compiled at the same time.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        results: Path,
        *,
        console: Console | None = None,
        line_seconds: float = LINE_SECONDS,
        programs: Mapping[str, str] = MappingProxyType({}),
        compile_seconds: float | None = None,
        workers: int = 1,
    ):
        self.results = results
        self.console = console or Console(highlight=False)
        self._line_seconds = line_seconds
        self._cells = {cell.hash: cell for cell in cells}
        self._waiting = dict.fromkeys(self._cells)
        self._total = sum(cell.steps for cell in cells)
        self._in_steps = all(cell.steps for cell in cells)  # else in runs
        self._compiles = any(cell.backend.compiles for cell in cells)
        self._programs, self._to_compile = programs, {*programs.values()}
        self._compile_seconds, self._workers = compile_seconds, workers
        self._done_steps = self._steps = self._failed = 0
        self._first_steps: dict[str, int] = {}  # where the processes of runs started
        self.training = self.compiling = 0.0  # seconds
        self.gained = 0  # steps that were trained now
        self._started = self._last_read = time.monotonic()
        self._last_line = 0.0
        self._bar = Progress(
            BarColumn(30), TextColumn("{task.description}"), console=self.console, transient=True
        )
        self._task = self._bar.add_task("", total=max(1, self._total or len(self._cells)))

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

    def update(self) -> None:
        """Read the state of the runs and show it."""
        self._read()
        if self._live:
            done = self._steps if self._in_steps else len(self._cells) - len(self._waiting)
            self._bar.update(self._task, completed=done, description=self._line())
        elif time.monotonic() - self._last_line > self._line_seconds:
            self._print_line()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, markup=False, soft_wrap=True)

    def _read(self) -> None:
        """Read new records and heartbeats; count the seconds since the last call."""
        for name in sorted(_names(self.results / "cells") & self._waiting.keys()):
            if published(self.results, name):
                self._finish(self._cells[name], read_record(self.results, name))
        beats = self._beats()
        steps = self._done_steps + sum(beat.step for beat in beats.values())
        self._steps = max(self._steps, steps)  # a resumed run starts at its last checkpoint
        self._first_steps |= {name: beat.start for name, beat in beats.items() if beat.start}
        gained = self._steps - sum(self._first_steps.values())
        trains = {name for name, beat in beats.items() if beat.phase == "training"}
        self._to_compile -= {self._programs[name] for name in trains & self._programs.keys()}
        now = time.monotonic()
        if trains or gained > self.gained:
            self.training += now - self._last_read
        else:
            self.compiling += now - self._last_read
        self.gained, self._last_read = max(gained, self.gained), now

    def _finish(self, cell: Cell, record: Record | None) -> None:
        del self._waiting[cell.hash]
        self._done_steps += cell.steps
        self._to_compile -= {self._programs.get(cell.hash, "")}
        if record and record.status == "failed":
            self._failed += 1
            line = printable(f"failed: {cell.name}: {record.reason}")
            self.console.print(Text(line, style="red"), soft_wrap=True)

    def _beats(self) -> dict[str, Heartbeat]:
        names = _names(self.results / "work") & self._waiting.keys()
        beats = {name: read_heartbeat(self.results, name) for name in names}
        return {name: beat for name, beat in beats.items() if beat}

    @property
    def rate(self) -> float:
        """Return the steps per second of training, or 0."""
        return self.gained / self.training if self.training else 0.0

    def _left(self) -> str:
        """Write the time left for steps and compilations."""
        done = len(self._cells) - len(self._waiting)
        if not self._in_steps:
            left = (time.monotonic() - self._started) * len(self._waiting) / done if done else None
        else:
            left = (self._total - self._steps) / self.rate if self.rate else None
        if left is not None:
            left += len(self._to_compile) / self._workers * (self._compile_seconds or 0)
            return f"{duration(left)} left"
        if not self._compiles:
            return "time left unknown"
        of = f" of about {duration(self._compile_seconds)}" if self._compile_seconds else ""
        return f"compiling for {duration(self.compiling)}{of}"

    def _line(self) -> str:
        parts = [f"{len(self._cells) - len(self._waiting)}/{len(self._cells)} runs"]
        if self._total:
            parts.append(f"{self._steps:,}/{self._total:,} steps")
        if self._total and self.gained:
            parts.append(f"{self.rate:,.0f} steps/s")
        parts += [self._left()] if self._waiting else []
        parts += [f"{self._failed} failed"] if self._failed else []
        return ", ".join(parts)

    def _print_line(self) -> None:
        self._last_line = time.monotonic()
        if not self.console.quiet:  # rich would wrap the line
            line = f"[{duration(self._last_line - self._started)}] {self._line()}"
            print(line, file=self.console.file, flush=True)


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()

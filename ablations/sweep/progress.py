"""Show the progress of all workers, from the records and heartbeats that they write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ablations.errors import printable
from ablations.records import Record, read_record
from ablations.sweep.claims import Arrivals, Heartbeat, published, read_heartbeat
from ablations.sweep.job import Cell

LINE_SECONDS = 10.0


@dataclass
class Clocks:
    """The time of training, and the time before and between in which programs are compiled.

    training, compiling: seconds. gained: steps that were trained meanwhile.
    """

    training: float = 0.0
    compiling: float = 0.0
    gained: int = 0

    def pass_on(self, seconds: float, gained: int, *, trains: bool) -> None:
        """Count some seconds in which `gained` steps became known. trains: a cell is training."""
        if trains or gained > self.gained:
            self.training += seconds
        else:
            self.compiling += seconds
        self.gained = max(gained, self.gained)

    @property
    def rate(self) -> float:
        """Return the steps per second of training; 0 before the first."""
        return self.gained / self.training if self.training else 0.0


class Progress:
    """Cells done, steps, steps per second of training, current return, time left.

    On a terminal it redraws itself; into a pipe or a file it prints a line every `line_seconds`.
    compile_seconds: how long the like of these programs took to compile; None: never measured.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        results: Path,
        *,
        console: Console | None = None,
        line_seconds: float = LINE_SECONDS,
        compile_seconds: float | None = None,
    ):
        """Watch the cells of a results folder."""
        self.results = results
        self.console = console or Console(highlight=False)
        self._line_seconds = line_seconds
        self._names = {cell.hash: cell.name for cell in cells}
        self._steps = {cell.hash: cell.steps for cell in cells}
        self._total = sum(self._steps.values())
        self._told = all(self._steps.values())  # how many steps each cell takes
        self._compiles = all(cell.backend.compiles for cell in cells)
        self._waiting = dict.fromkeys(self._steps)
        self._arrivals = Arrivals(results)
        self._done_steps = 0
        self._head_start: dict[str, int] = {}
        self._failed = 0
        self._compile_seconds = compile_seconds
        self._clocks = Clocks()
        self._started = self._looked = time.monotonic()
        self._last_line = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        """Start the clock and the display."""
        self._started = self._looked = time.monotonic()
        if self.console.is_terminal and not self.console.quiet:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the display; print the last line."""
        if self._live:
            self._live.stop()
        if kind is None:
            self._collect(at_once=True)
            self._print_line(self._beats())

    def update(self) -> None:
        """Show the state of now."""
        self._collect()
        if self._live:
            self._live.update(self._picture(self._beats()))
        elif time.monotonic() - self._last_line > self._line_seconds:
            self._print_line(self._beats())

    def say(self, line: str) -> None:
        """Print a line that stays, above the live display."""
        self.console.print(line, markup=False, soft_wrap=True)

    def _collect(self, *, at_once: bool = False) -> None:
        found = self._arrivals.since_last(at_once=at_once)
        for cell in sorted(found & self._waiting.keys()):
            if not published(self.results, cell):
                continue
            del self._waiting[cell]
            record = read_record(self.results, cell)
            self._done_steps += self._steps[cell] or _steps_of(record)
            if record and record.status == "failed":
                self._failed += 1
                reason = printable(f"failed: {self._names[cell]}: {record.reason}")
                self.console.print(Text(reason, style="red"), soft_wrap=True)

    def _beats(self) -> dict[str, Heartbeat]:
        folder = self.results / "work"
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        shown = sorted(names & self._waiting.keys(), key=self._names.__getitem__)
        beats = {cell: read_heartbeat(self.results, cell) for cell in shown}
        return {cell: beat for cell, beat in beats.items() if beat}

    def _totals(self, beats: Mapping[str, Heartbeat]) -> tuple[int, float | None]:
        """Let the clocks go on; return the steps so far and the seconds left, where known."""
        now = time.monotonic()
        steps = self._done_steps + sum(beat.step for beat in beats.values())
        self._head_start |= {cell: beat.start for cell, beat in beats.items() if beat.start}
        trains = any(beat.phase == "training" for beat in beats.values())
        gained = steps - sum(self._head_start.values())
        self._clocks.pass_on(now - self._looked, gained, trains=trains)
        self._looked = now
        if self._told:
            rate = self._clocks.rate
            return steps, (self._total - steps) / rate if rate > 0 else None
        # how long a command runs is known when the first is done
        done = len(self._steps) - len(self._waiting)
        return steps, (now - self._started) * len(self._waiting) / done if done else None

    def _left(self, seconds: float | None) -> str:
        if seconds is not None:
            return f"{_clock(seconds)} left"
        return "time left not known yet" if not self._compiles else self._compiling()

    def _compiling(self) -> str:
        of = f" of about {_clock(self._compile_seconds)}" if self._compile_seconds else ""
        return f"compiling {_clock(self._clocks.compiling)}{of}"

    def _speed(self) -> str:
        return f"{_si(self._clocks.rate)} steps/s"

    def _bar(self, steps: int, done: int) -> ProgressBar:
        """Draw steps, or cells where the number of steps is not known."""
        if self._told:
            return ProgressBar(total=max(1, self._total), completed=steps, width=30)
        return ProgressBar(total=max(1, len(self._steps)), completed=done, width=30)

    def _print_line(self, beats: Mapping[str, Heartbeat]) -> None:
        self._last_line = time.monotonic()
        steps, left = self._totals(beats)
        done = len(self._steps) - len(self._waiting)
        parts = [
            f"[{_clock(time.monotonic() - self._started)}] {done}/{len(self._steps)} cells",
            f"{_si(steps)}{f'/{_si(self._total)}' if self._total else ''} steps",
        ]
        if self._clocks.gained:
            parts.append(self._speed())
            if self._compiles and self._clocks.compiling >= 1:
                parts.append(f"compiling took {_clock(self._clocks.compiling)}")
        if self._waiting:
            parts.append(self._left(left))
        if self._failed:
            parts.append(f"{self._failed} failed")
        parts += [
            f"{self._names[cell]} {beat.score:.4g}"
            for cell, beat in beats.items()
            if beat.score is not None
        ]
        # a plain print: a line in a file is not wrapped at some terminal's width
        if not self.console.quiet:
            print(", ".join(parts), file=self.console.file, flush=True)

    def _picture(self, beats: Mapping[str, Heartbeat]) -> Group:
        steps, left = self._totals(beats)
        done = len(self._steps) - len(self._waiting)
        total = Table.grid(padding=(0, 2))
        total.add_row(
            self._bar(steps, done),
            f"{done}/{len(self._steps)} cells",
            f"{_si(steps)} steps",
            self._speed() if self._clocks.gained else "",
            self._left(left),
            Text(f"{self._failed} failed", style="red") if self._failed else "",
        )
        running = Table.grid(padding=(0, 2))
        for cell, beat in beats.items():
            running.add_row(
                Text(self._names[cell], style="bold"),
                ProgressBar(total=beat.steps or None, completed=beat.step, width=16),
                beat.phase if beat.phase != "training" else f"{_si(beat.rate)} steps/s",
                "" if beat.score is None else f"return {beat.score:.4g}",
            )
        return Group(total, running)


def _steps_of(record: Record | None) -> int:
    """Estimate the steps of a command without {steps}, by its speed and time."""
    if record is None:
        return 0
    made = record.provenance
    return round((made.get("steps_per_second") or 0) * made.get("seconds", 0))


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"


def _si(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"

"""Run a command from its start to its end, and read its curve. No JAX.

    results/work/ended/<key>.json   the run whose command ended well, and what it took

A key names all that decides what a command does: a configuration without how its curve is read. The
command's files lie in the record of that run, or in its work folder until they could be read.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ablations.core.decode import Count, Json, Matches, Part, encode
from ablations.core.files import find_json
from ablations.core.record import Columns, CommandLine, Configuration, Provenance, Seconds
from ablations.curve import diverged, is_cut, logged
from ablations.engine.backends.command import code
from ablations.engine.backends.command.code import code_of
from ablations.engine.backends.command.process import Process, environment_of, kill_leftovers
from ablations.engine.claims import HEARTBEAT_SECONDS, Claim, work_folder
from ablations.engine.job import Cell, CheckpointPolicy, JobSpec, Result, TrainingFailed
from ablations.engine.machine import cores
from ablations.errors import UserError
from ablations.io import logs
from ablations.records import cell_folder, digest, read_record, write_atomically
from ablations.trainers.command import STDOUT, Line, filled

FOLDER = "run"  # of a command, in a record and in a work folder
READING = ("curve", "metric", "step", "better")  # of a line: how its curve is read
MOST_BYTES = 100_000


class EndedRun(Part, frozen=True):
    """A command that ended with exit code 0.

    cell: the hash of its run. peak_megabytes: the most memory that it held. resumed:
    the steps at which it was taken up again.
    """

    cell: Annotated[str, Matches("[0-9a-f]{16}", "a cell")]
    seconds: Seconds
    peak_megabytes: Count
    resumed: tuple[Count, ...] = ()

    @property
    def first(self) -> int:
        """Return the step at which its last process began."""
        return self.resumed[-1] if self.resumed else 0


def path_of(results: Path, config: Configuration) -> Path:
    """Return where the run of a configuration is noted."""
    line = {name: value for name, value in config["command"].items() if name not in READING}
    return results / "work" / "ended" / f"{digest({**config, 'command': line})}.json"


def keep_finished(results: Path, config: Configuration, run: EndedRun) -> None:
    """Note a run, so that its command is not run again."""
    write_atomically(path_of(results, config), encode(run))


def find_finished(results: Path, config: Configuration) -> tuple[EndedRun, Path] | None:
    """Return the run of a configuration and the folder of what it left; None where that is gone."""
    return _noted(results, path_of(results, config))


def is_gone(results: Path, path: Path) -> bool:
    """Return whether what a noted run left is no longer there."""
    return _noted(results, path) is None


def _noted(results: Path, path: Path) -> tuple[EndedRun, Path] | None:
    run = find_json(path, EndedRun, MOST_BYTES, lenient=True)
    if run is None:
        return None
    folders = (home(results, run.cell) / FOLDER for home in (cell_folder, work_folder))
    return next(((run, folder) for folder in folders if folder.is_dir()), None)


def forget_finished(results: Path, config: Configuration) -> None:
    """Delete the note of a run, so that its command is run again."""
    path_of(results, config).unlink(missing_ok=True)


def bring_files(left: Path, folder: Path) -> None:
    """Put what a run left into another run's folder: the same files, where the disc has links.

    Raises OSError: it is gone, or the disc is full.
    """
    if left == folder:
        return
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(left, folder, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def was_read(results: Path, command: CommandLine) -> bool:
    """Return whether a curve of this command was read in this way before."""
    for path in (results / "cells").glob("[!.]*"):
        with contextlib.suppress(UserError):  # of another version, or damaged
            record = read_record(results, path.name)
            if record and record.status == "done" and record.config.get("command") == command:
                return True
    return False


OUTPUT = "output.log"  # in the run's folder: what the command prints
FIRST_LOOK_SECONDS = 0.02
LOOK_PAUSE = 9  # times as long as a look at the log took: a tenth of a core at most
LOG_LINES = 12
LINE_LENGTH = 300
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CommandFailed(UserError):
    """The reason why a command gave no curve, in a line. log: the end of what it printed."""

    def __init__(self, message: str, log: Sequence[str] = ()):
        """Take the reason, and the end of the command's output."""
        super().__init__(message)
        self.log = list(log)


class Unreadable(CommandFailed):
    """The reason why a command's curve cannot be read: as likely a fault of the study file."""


class Commands:
    """The commands of one job, one after the other; see `Prepared`."""

    compile_seconds = 0.0
    lanes = 1

    def __init__(self, job: JobSpec):
        """Prepare the commands of a job."""
        self.job = job
        self._known: dict[str, tuple[str, tuple[Path, ...], code.Stamps]] = {}
        self._running: Run | None = None

    def training(self, cells: Sequence[Cell], results: Path, checkpoints: CheckpointPolicy) -> Run:
        """Return the one run of the batch, ready to run; see `Prepared`."""
        (cell,) = cells
        self._require_code(cell)
        self._running = Run(cell, results, self.job)
        return self._running

    def abandon(self) -> None:
        """Kill the running command."""
        if self._running is not None:
            self._running.kill()

    def _require_code(self, cell: Cell) -> None:
        """Raise CommandFailed where the code is no longer what the run was planned with."""
        place = cell.place
        here = Path(place["here"])
        if not here.is_dir():
            raise CommandFailed(f"the command runs in '{here}', which is not there")
        if "named" not in place:  # a copy that nobody edits
            return
        known = self._known.get(str(here))
        if known is None or code.stamps(known[1]) != known[2]:
            now = code_of(place)
            files = tuple(now.files())
            stamps = code.stamps(files)
            known = self._known[str(here)] = (now.digest(), files, stamps)
        if known[0] != cell.config["command"]["revision"]:
            raise CommandFailed(
                "its code was edited after this run was planned: the same command plans it anew"
            )


@dataclass
class _Seen:
    """The last step and score of the log."""

    step: int = 0
    score: float | None = None


class Run:
    """One run, from its start, or from where its command can resume, to its end."""

    def __init__(self, cell: Cell, results: Path, job: JobSpec):
        """Prepare a run; `run` starts its command."""
        self.cell = cell
        self.job = job
        self.line = Line.of(cell.config["command"])
        self.results = results.resolve()
        self.work = work_folder(self.results, cell.hash)
        self.folder = self.work / FOLDER
        self._process: Process | None = None
        self._abandoned = False
        self._ended: EndedRun | None = None
        self._outcome: Result | None = None
        self._last = 0
        self._seen = _Seen()
        self._looking = threading.Thread()
        self._next_look = 0.0
        self._first = 0
        self._resumed: list[int] = []

    def run(self, claims: Sequence[Claim], stopping: Callable[[], bool]) -> None:
        """Run the command and read its curve; of one that ran before, read what that left."""
        (claim,) = claims
        try:
            again = self._take_up()
            self._ended = again or self._follow(claim, stopping)
            self._outcome = self._read()
        except Unreadable as error:
            known = was_read(self.results, self.cell.config["command"])
            if known:  # then it is this run that went wrong
                self._forget()
            raise TrainingFailed(error, stops=not known and again is None) from error
        except UserError as error:
            self._forget()
            failed = error if isinstance(error, CommandFailed) else None
            raise TrainingFailed(failed or CommandFailed(str(error), self._tail())) from error

    def _take_up(self) -> EndedRun | None:
        """Take the files that this command left for another reading, if it ran before."""
        earlier = find_finished(self.results, self.cell.config)
        if earlier is None:
            return None
        run, left = earlier
        try:
            bring_files(left, self.folder)
        except OSError:  # deleted meanwhile
            return None
        self._first, self._resumed = run.first, list(run.resumed)
        return run

    def _forget(self) -> None:
        """Delete the note of the run, and files that are shared with another cell."""
        forget_finished(self.results, self.cell.config)
        if self._ended is not None and self._ended.cell != self.cell.hash:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _follow(self, claim: Claim, stopping: Callable[[], bool]) -> EndedRun:
        """Start the command and wait for its end.

        Raises:
            CommandFailed: it did not end well.
            SystemExit: it was asked to stop.
        """
        arguments = self._prepare()
        claim.start = self._first
        limit = self.cell.place.get("timeout") or math.inf
        self._process = process = self._start(arguments)
        wait = FIRST_LOOK_SECONDS
        while not process.ended(wait):
            wait = min(2 * wait, 0.25)
            if self._abandoned:  # before its process was known
                process.kill()
            if stopping():
                process.stop(0.7 * self.job.stop_seconds)
                raise SystemExit(143)
            if process.seconds > limit:
                process.stop(1.0)
                raise CommandFailed(
                    f"the command still ran after its timeout of {limit:g} s", self._tail()
                )
            if process.seconds > HEARTBEAT_SECONDS:
                self._beat(claim)
        if self._abandoned:  # it did not fail, and the run may be somebody else's by now
            raise SystemExit(143)
        process.kill()  # what it has left behind
        if process.code:
            raise CommandFailed(_how_it_ended(process.code), self._tail())
        run = EndedRun(
            self.cell.hash,
            round(process.seconds, 3),
            process.peak_megabytes,
            tuple(self._resumed),
        )
        keep_finished(self.results, self.cell.config, run)
        return run

    def kill(self) -> None:
        """Kill the command."""
        self._abandoned = True
        if self._process is not None:
            self._process.kill()

    def result(self, index: int) -> Result:
        """Return how it ended, after `run`."""
        assert self._outcome is not None
        return self._outcome

    def cost(self, index: int) -> Provenance:
        """Return the time and memory of the command, also of one that ran for another reading."""
        assert self._ended is not None
        seconds, steps = self._ended.seconds, self._last - self._first
        cost: Provenance = {
            "seconds": seconds,
            "steps_per_second": round(steps / max(seconds, 1e-9), 3),
            "peak_megabytes": self._ended.peak_megabytes,
        }
        if self._resumed:
            cost["resumed_at_steps"] = self._resumed
        return cost

    def _prepare(self) -> list[str]:
        """Return the arguments, with the folder as they expect it."""
        if self.folder.is_dir():
            kill_leftovers(self.folder)
        values = self._values()
        goes_on = self.line.resume and all(
            Path(path).exists() for path in filled([self.line.resume_if], values)
        )
        if not goes_on:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            return filled(self.line.run, values)
        self._look()
        self._first = self._seen.step
        count = self.work / "resumed"
        before = count.read_text().split() if count.exists() else []
        self._resumed = [*map(int, before), self._first]
        count.write_text(" ".join(map(str, self._resumed)))
        return filled([*self.line.run, *self.line.resume], values)

    def _values(self) -> dict[str, Json]:
        config = self.cell.config
        return {
            **config["structure"],
            "seed": config["seed"],
            "task": config["task"]["name"],
            "steps": self.cell.steps,
            "folder": str(self.folder),
            "here": str(self.cell.place["here"]),
        }

    def _start(self, arguments: Sequence[str]) -> Process:
        values = self._values()
        names = list(self.line.environment)
        declared = dict(zip(names, filled(self.line.environment.values(), values), strict=True))
        share = max(1, cores() // self.job.workers)
        environment = environment_of(self.folder, declared, self.job.threads, share)
        (cwd,) = filled([self.line.cwd], values)
        try:
            return Process(arguments, cwd, environment, self.folder / OUTPUT)
        except FileNotFoundError as error:
            raise CommandFailed(f"no program '{arguments[0]}': {error.strerror}") from None
        except PermissionError:
            raise CommandFailed(f"'{arguments[0]}' may not be executed") from None
        except OSError as error:
            if error.filename is None:  # an argument list too long, no memory
                raise CommandFailed(f"the command cannot start: {error.strerror}") from None
            raise

    def _beat(self, claim: Claim) -> None:
        assert self._process is not None
        if claim.due and not self._looking.is_alive() and time.monotonic() > self._next_look:
            self._looking = threading.Thread(target=self._look, daemon=True)
            self._looking.start()
        rate = (self._seen.step - self._first) / self._process.seconds
        claim.beat("training", self._seen.step, self.cell.steps, rate, self._seen.score)

    def _look(self) -> None:
        """Look at the end of the log, in a thread, as a log may be long.

        What takes long is not done often.
        """
        started = time.monotonic()
        try:
            path = self._curve()
        except UserError:
            return
        line = self.line
        latest = path and logs.latest(path, line.metric, line.step or None)
        if latest:
            step, score = latest
            self._seen = _Seen(step, self._seen.score if score is None else score)
        now = time.monotonic()
        self._next_look = now + LOOK_PAUSE * (now - started)

    def _curve(self) -> Path | None:
        if self.line.curve == STDOUT:
            return self.folder / OUTPUT
        (name,) = filled([self.line.curve], self._values())
        return logs.find(name)

    def _read(self) -> Result:
        """Return the end of the run by its curve: one that ends in no number has diverged."""
        if self._looking.is_alive():
            self._looking.join()
        path, log, notes = self._log()
        line = self.line
        if not self._resumed:
            for note in notes:
                print(f"notice: {self.cell.hash}: {note}", flush=True)
        self._last = int(log["step"][-1] or 0)
        columns = logs.binned(log, line.metric, self.cell.steps)
        if line.judged != line.metric:
            minus = [None if value is None else -value for value in columns[line.metric]]
            columns = {"step": columns.pop("step"), line.judged: minus, **columns}
        curve = logged(log["step"], log[line.metric])
        if curve.status == "diverged":
            at = int(curve.end)
            reason = diverged(line.metric, at)
            return Result(columns, "diverged", reason, at, files=self.folder)
        if line.step or path.is_dir():
            self._require_whole(self._last)
        return Result(columns, files=self.folder)

    def _log(self) -> tuple[Path, Columns, list[str]]:
        """Return the file of its curve, its columns, notes. Raises Unreadable, CommandFailed."""
        try:
            if (path := self._curve()) is None:
                name = self.line.curve.replace("{folder}/", "")
                raise UserError(f"the command ended well and left no '{name}'")
            step, restarts = self.line.step or None, len(self._resumed)
            log, notes = logs.read(path, self.line.metric, step, restarts=restarts)
        except logs.NoValueError as error:
            raise CommandFailed(str(error), self._tail()) from None
        except UserError as error:
            raise Unreadable(str(error), self._tail()) from None
        except OSError as error:
            raise CommandFailed(f"cannot read '{path}': {error.strerror}") from None
        return path, log, notes

    def _require_whole(self, last: int) -> None:
        """Raise CommandFailed for a curve that stops well before the steps of the run."""
        steps = self.cell.steps
        if is_cut(last, steps):
            raise CommandFailed(
                f"the command ended well, and its curve stops at step {last:,} of {steps:,} (if "
                f"{{steps}} counts something else, give that placeholder another name)",
                self._tail(),
            )

    def _tail(self) -> list[str]:
        """Return the last lines that the command printed, as a terminal would show them."""
        try:
            data = (self.folder / OUTPUT).read_bytes()[-65_536:]
        except OSError:
            return []
        lines = data.decode(errors="replace").splitlines()
        shown = (_CONTROL.sub("", line.rpartition("\r")[2])[:LINE_LENGTH] for line in lines)
        return [line for line in shown if line.strip()][-LOG_LINES:]


def _how_it_ended(number: int) -> str:
    if number < 0:
        try:
            name = signal.Signals(-number).name
        except ValueError:
            name = f"signal {-number}"
        return f"the command was ended by {name}"
    return f"the command ended with exit code {number}"

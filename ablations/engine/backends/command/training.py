"""Run a command from its start to its end, and read its curve. Does not import JAX.

    results/work/ended/<key>.json   the run whose command succeeded, with its time and memory

A key is the digest of a configuration without the settings that say how to read the curve. The
command's files are in the record of that run, or in its work folder until they were read.
"""

# ruff: noqa: D102  # `Backend` documents the methods

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from ablations.core.decode import Count, Json, Matches, Part, encode
from ablations.core.files import find_json
from ablations.core.record import Checkout, Configuration, Provenance, Seconds
from ablations.curve import Curve, diverged, is_cut
from ablations.engine import provenance
from ablations.engine.backends import Backend, Prepared, Speed
from ablations.engine.backends.command.code import code_of, commit_of
from ablations.engine.backends.command.process import Process, environment_of, kill_leftovers
from ablations.engine.claims import HEARTBEAT_SECONDS, Claim, work_folder
from ablations.engine.job import Cell, JobSpec, Result, TrainingFailed
from ablations.engine.machine import cores, share_of_gpus
from ablations.errors import UserError
from ablations.io import logs
from ablations.records import cell_folder, digest, share, write_atomically
from ablations.trainers.command import STDOUT, Line, filled

FOLDER = "run"  # the command's folder, in a record and in a work folder
READING = ("curve", "metric", "step", "better")  # fields of `Line` that say how to read the curve
OUTPUT = "output.log"  # in the command's folder: what it prints
FIRST_READ_SECONDS = 0.02
READ_PAUSE = 9  # times as long as a read of the log took, so that reads use a tenth of a core
LOG_LINES = 12
LINE_LENGTH = 300
ASSUMED_SECONDS = 600.0
ASSUMED_MEGABYTES = 2500
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class EndedRun(Part, frozen=True):
    """A command that ended with exit code 0.

    cell: the hash of its run. resumed: the steps at which it was resumed.
    """

    cell: Annotated[str, Matches("[0-9a-f]{16}", "a cell")]
    seconds: Seconds
    peak_megabytes: Count
    resumed: tuple[Count, ...] = ()

    @property
    def first(self) -> int:
        """Return the step at which its last process started."""
        return self.resumed[-1] if self.resumed else 0


def path_of(results: Path, config: Configuration) -> Path:
    """Return the path of a configuration's note."""
    line = {name: value for name, value in config["command"].items() if name not in READING}
    return results / "work" / "ended" / f"{digest({**config, 'command': line})}.json"


def has_note(cell: Cell, results: Path) -> bool:
    """Return whether a run is a command that has ended, and its output is kept."""
    return "command" in cell.config and path_of(results, cell.config).exists()


def read_note(results: Path, path: Path) -> tuple[EndedRun, Path] | None:
    """Return the ended run of a note and its folder; None if the folder is gone."""
    run = find_json(path, EndedRun)
    if run is None:
        return None
    folders = (home(results, run.cell) / FOLDER for home in (cell_folder, work_folder))
    return next(((run, folder) for folder in folders if folder.is_dir()), None)


class CommandFailed(UserError):
    """A command without a curve. log: the last lines of its output."""

    def __init__(self, message: str, log: Sequence[str] = ()):
        super().__init__(message)
        self.log = list(log)


class Unreadable(CommandFailed):
    """A curve that cannot be read. Its output stays: the cause may be the study file."""


def _require_code(cell: Cell) -> None:
    """Raise CommandFailed if the code was edited after the run was planned."""
    place = cell.place
    if not Path(place["here"]).is_dir():
        raise CommandFailed(f"the command's folder '{place['here']}' does not exist")
    if "named" not in place:  # a copy
        return
    if code_of(place).digest() != cell.config["command"]["revision"]:
        raise CommandFailed(
            "its code was edited after this run was planned: use the same command again"
        )


def _commit(cell: Cell, results: Path) -> Checkout:
    """Return the commit of a run's code; {}: it is a copy."""
    if "named" not in cell.place:
        return {}
    return commit_of(code_of(cell.place), cell.config["command"]["revision"], results)


class Run:
    """One run, from its start or the point from which its command can resume, to its end."""

    def __init__(self, cells: Sequence[Cell], results: Path, job: JobSpec):
        (self.cell,) = (cell,) = cells
        _require_code(cell)
        _commit(cell, results)  # before the command starts
        self.job = job
        self.line = msgspec.convert(cell.config["command"], Line)
        self.results = results.resolve()
        self.work = work_folder(self.results, cell.hash)
        self.folder = self.work / FOLDER
        self._process: Process | None = None
        self._abandoned = False
        self._first = 0  # the step at which this process starts
        self._latest: tuple[int, float | None] = 0, None  # step and score in the log
        self._next_read = 0.0
        self._resumed: list[int] = []

    def run(
        self, claims: Sequence[Claim], stopping: Callable[[], bool]
    ) -> list[tuple[Result, Provenance]]:
        """Run the command unless it has ended before, and read its curve."""
        (claim,) = claims
        earlier = ended = self._take_finished()
        try:
            ended = earlier or self._follow(claim, stopping)
            result, last = self._read()
        except Unreadable as error:
            if earlier and earlier.cell == self.cell.hash:  # read before with the same settings
                self._forget(earlier)
            raise TrainingFailed(error) from error
        except UserError as error:
            self._forget(ended)
            failed = error if isinstance(error, CommandFailed) else None
            raise TrainingFailed(failed or CommandFailed(str(error), self._tail())) from error
        cost: Provenance = {
            "seconds": ended.seconds,
            "steps_per_second": round((last - self._first) / max(ended.seconds, 1e-9), 3),
            "peak_megabytes": ended.peak_megabytes,
        }
        if self._resumed:
            cost["resumed_at_steps"] = self._resumed
        return [(result, cost)]

    def _take_finished(self) -> EndedRun | None:
        """Link or copy the files of the same command if it has ended before."""
        earlier = read_note(self.results, path_of(self.results, self.cell.config))
        if earlier is None:
            return None
        run, left = earlier
        try:
            if left != self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)
                shutil.copytree(left, self.folder, symlinks=True, copy_function=share)
        except OSError:  # deleted meanwhile
            return None
        self._first, self._resumed = run.first, list(run.resumed)
        return run

    def _forget(self, ended: EndedRun | None) -> None:
        """Delete the note of the run, and files that it shares with another run."""
        path_of(self.results, self.cell.config).unlink(missing_ok=True)
        if ended is not None and ended.cell != self.cell.hash:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _follow(self, claim: Claim, stopping: Callable[[], bool]) -> EndedRun:
        """Start the command and wait for its end.

        Raises CommandFailed: the command failed. Raises SystemExit: `stopping` returned True.
        """
        arguments = self._prepare()
        claim.start = self._first
        limit = self.cell.place.get("timeout") or math.inf
        self._process = process = self._start(arguments)
        wait = FIRST_READ_SECONDS
        while not process.ended(wait):
            wait = min(2 * wait, 0.25)
            if self._abandoned:  # before `_process` was set
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
        if self._abandoned:  # not a failure, and another worker may have the run by now
            raise SystemExit(143)
        process.kill()  # its children
        if process.code:
            raise CommandFailed(_how_it_ended(process.code), self._tail())
        seconds, resumed = round(process.seconds, 3), tuple(self._resumed)
        run = EndedRun(self.cell.hash, seconds, process.peak_megabytes, resumed)
        write_atomically(path_of(self.results, self.cell.config), encode(run))
        return run

    def abandon(self) -> None:
        """Kill the command."""
        self._abandoned = True
        if self._process is not None:
            self._process.kill()

    def _prepare(self) -> list[str]:
        """Prepare the command's folder; return its arguments."""
        if self.folder.is_dir():
            kill_leftovers(self.folder)
        values = self._values()
        needed = Path(*filled([self.line.resume_if], values))
        if not (self.line.resume and needed.exists()):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            return filled(self.line.run, values)
        self._read_latest()
        self._first, _ = self._latest
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
        (cwd,), log = filled([self.line.cwd], values), self.folder / OUTPUT
        try:
            return Process(arguments, cwd, environment, log)
        except OSError as error:
            if error.filename == str(log):
                raise
            raise CommandFailed(f"'{arguments[0]}' cannot start: {error.strerror}") from None

    def _beat(self, claim: Claim) -> None:
        assert self._process is not None
        if claim.due and time.monotonic() > self._next_read:
            self._read_latest()
        step, score = self._latest
        rate = (step - self._first) / self._process.seconds
        claim.beat("training", step, self.cell.steps, rate, score)

    def _read_latest(self) -> None:
        """Read the last step and score of the log."""
        started = time.monotonic()
        try:
            path = self._curve()
        except UserError:
            return
        if path and (latest := logs.latest(path, self.line.metric, self.line.step or None)):
            step, score = latest
            self._latest = step, self._latest[1] if score is None else score
        now = time.monotonic()
        self._next_read = now + READ_PAUSE * (now - started)

    def _curve(self) -> Path | None:
        if self.line.curve == STDOUT:
            return self.folder / OUTPUT
        (name,) = filled([self.line.curve], self._values())
        return logs.find(name)

    def _read(self) -> tuple[Result, int]:
        """Return the result of the run by its curve, which may have diverged, and its last step."""
        path, curve, notes = self._log()
        line, last = self.line, int(curve.steps[-1])
        if not self._resumed:
            for note in notes:
                print(f"notice: {self.cell.hash}: {note}", flush=True)
        columns = logs.binned(curve, line.judged, self.cell.steps)
        if line.judged != line.metric:
            minus = [None if value is None else -value for value in columns[line.judged]]
            columns[line.judged] = minus
        if curve.status == "diverged":
            at = int(curve.end)
            reason = diverged(line.metric, at)
            return Result(columns, "diverged", reason, at, files=self.folder), last
        steps = self.cell.steps
        if (line.step or path.is_dir()) and is_cut(last, steps):
            raise CommandFailed(
                f"the command succeeded, but its curve stops at step {last:,} of {steps:,} "
                f"(if {{steps}} counts something else, give that placeholder another name)",
                self._tail(),
            )
        return Result(columns, files=self.folder), last

    def _log(self) -> tuple[Path, Curve, list[str]]:
        """Return the curve's file, the curve, and notes. Raises Unreadable, CommandFailed."""
        try:
            if (path := self._curve()) is None:
                name = self.line.curve.replace("{folder}/", "")
                raise UserError(f"the command succeeded, but did not write '{name}'")
            step, restarts = self.line.step or None, len(self._resumed)
            curve, notes = logs.read(path, self.line.metric, step, restarts=restarts)
        except logs.NoValueError as error:
            raise CommandFailed(str(error), self._tail()) from None
        except UserError as error:
            raise Unreadable(str(error), self._tail()) from None
        except OSError as error:
            raise CommandFailed(f"cannot read '{path}': {error.strerror}") from None
        return path, curve, notes

    def _tail(self) -> list[str]:
        """Return the last lines that the command printed, as a terminal shows them."""
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
        return f"the command was killed by {name}"
    return f"the command ended with exit code {number}"


class CommandBackend(Backend):
    """Commands: a worker runs one after the other."""

    compiles = False

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> str:
        line = {"trainer": config["trainer"], "task": config["task"]}
        return digest({**line, "command": config["command"]})

    def forget(self, cell: Cell, results: Path) -> None:
        path_of(results, cell.config).unlink(missing_ok=True)

    def environment(self, job: JobSpec, index: int) -> dict[str, str]:
        return dict(os.environ) | (share_of_gpus(index, job.workers) if job.accelerator else {})

    def prepare(self, cell: Cell, job: JobSpec, sharing: int) -> Prepared:
        return Prepared(partial(Run, job=job))

    def provenance(self, cell: Cell, job: JobSpec) -> Provenance:
        return provenance.of_command(_commit(cell, Path(job.results)), accelerator=job.accelerator)

    def kind(self, config: Configuration) -> tuple[str, ...]:
        return config["task"]["name"], config["trainer"]["name"], *config["command"]["run"]

    def assumed_speed(self, cell: Cell, *, accelerator: bool) -> Speed:
        return Speed((cell.steps or 1) / ASSUMED_SECONDS, 0.0, ASSUMED_MEGABYTES, measured=False)

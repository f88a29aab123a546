"""Estimate how long runs take on this machine or a cluster, and the number of workers and jobs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations.core.record import steps_of
from ablations.engine.backends import Speed, backend_of
from ablations.engine.job import Cell, Kind, backend_of_all
from ablations.errors import UserError, count, duration
from ablations.records import Record, read_record

SUPERVISOR_MEGABYTES = 500
SPARE_MEMORY = 1.5
MOST_JOBS = 1000  # of an array: Slurm's default limit
NEWEST = 1000  # records that speeds are read from


@dataclass(frozen=True)
class Estimate:
    """The jobs that share some runs.

    programs: how many are compiled. workers: processes of each job. lanes: parallel runs of each
    worker. seconds, megabytes: time and memory of each job, with compilation. compile_seconds: the
    longest compilation. measured: whether all speeds come from records.
    """

    programs: int = 0
    jobs: int = 0
    workers: int = 0
    lanes: int = 1
    gpus: int = 0
    seconds: float = 0.0
    megabytes: int = 0
    compile_seconds: float = 0.0
    measured: bool = True

    @property
    def hours(self) -> float:
        """Return core-hours, or GPU-hours of a job with GPUs."""
        return self.jobs * self.seconds * (self.gpus or self.workers) / 3600

    @property
    def size(self) -> str:
        """Describe a job: its programs, its workers and their parallel runs."""
        parallel = f" of {self.lanes} parallel runs" if self.lanes > 1 else ""
        compiled = f"{count(self.programs, 'program')} to compile; " if self.programs else ""
        return f"{compiled}{count(self.workers, 'worker')}{parallel}"

    def __str__(self) -> str:
        """Describe the jobs."""
        how = "measured" if self.measured else "assumed: not all have records of similar runs"
        jobs, each = (f" in each of {self.jobs} jobs", " each") if self.jobs > 1 else ("", "")
        return (
            f"{self.size}{jobs}; about {duration(self.seconds)}{each}, "
            f"{self.hours:.2g} {'GPU' if self.gpus else 'core'}-hours ({how})"
        )


def sized(
    cells: Sequence[Cell],
    speeds: Mapping[str, Speed],
    *,
    cores: int,
    gpus: int = 0,
    lanes: int | None = None,
    minutes: float = math.inf,
) -> Estimate:
    """Return as many jobs as needed for each to take some minutes, or one run's time.

    cells: the runs.
    speeds: the speed of each program.
    cores: the workers of a job without accelerators.
    gpus: the accelerators of a job, each with a worker.
    lanes: parallel runs of a worker; None: 1, or as many as fit the minutes on an accelerator.
    minutes: how long a job should take.
    """
    groups: dict[Kind, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.kind, []).append(cell)
    workers, compiles = gpus or max(1, cores), backend_of_all(cells).compiles
    if not compiles:
        lanes = 1
    elif lanes is None and gpus:  # a batch takes at most the time of a job
        slowest = max((cell.steps or 1) / speeds[cell.program].rate for cell in cells)
        lanes = max(1, int(min(math.ceil(len(cells) / gpus), 60 * minutes / slowest)))
    lanes = min(lanes or 1, max(map(len, groups.values())))
    batches, training = 0, 0.0
    for kind, mine in groups.items():
        number = math.ceil(len(mine) / lanes)
        batches += number
        training += number * lanes * (mine[0].steps or 1) / speeds[kind.program].rate
    longest = max(speed.compile_seconds for speed in speeds.values())
    rounds = (60 * minutes - longest) * batches / training
    rounds = max(1, math.floor(min(rounds, batches)))
    jobs = min(math.ceil(batches / (rounds * workers)), MOST_JOBS)
    workers = min(workers, math.ceil(batches / jobs))
    seconds = longest * math.ceil(len(groups) / (jobs * workers))
    seconds += math.ceil(batches / (jobs * workers)) * training / batches
    each = SPARE_MEMORY * max(speed.megabytes for speed in speeds.values())
    return Estimate(
        programs=len(speeds) if compiles else 0,
        jobs=jobs,
        workers=workers,
        lanes=lanes,
        gpus=gpus,
        seconds=seconds,
        megabytes=SUPERVISOR_MEGABYTES + math.ceil(workers * each),
        compile_seconds=longest,
        measured=all(speed.measured for speed in speeds.values()),
    )


def speeds(results: Path, cells: Iterable[Cell], *, accelerator: bool) -> dict[str, Speed]:
    """Return the speed of each program, from records of the same kind or by assumption."""
    measured: dict[tuple[str, ...], list[tuple[float, float, float]]] = {}
    for record in _records(results):
        made, backend = record.provenance, backend_of(record.config)
        rate, seconds = made.get("steps_per_second"), made.get("seconds")
        if not backend.compiles and seconds:
            rate = (steps_of(record.config) or 1) / seconds
        on_cpu = "cpu" in str(made.get("device", "cpu")).lower()
        if rate and on_cpu != accelerator and "trainer" in record.config:
            cost = made.get("compile_seconds") or 0.0, made.get("peak_megabytes") or 0
            measured.setdefault(backend.kind(record.config), []).append((rate, *cost))
    found = {}
    for program, cell in {cell.program: cell for cell in cells}.items():
        speed = cell.backend.assumed_speed(cell, accelerator=accelerator)
        if similar := measured.get(cell.backend.kind(cell.config)):
            rates, compiling, megabytes = map(sorted, zip(*similar, strict=True))
            # The median rate, and a compilation time without those of a busy machine.
            compiled = [seconds for seconds in compiling if seconds] or [speed.compile_seconds]
            slow = compiled[(4 * len(compiled) - 1) // 5]
            most = round(megabytes[-1]) or speed.megabytes
            speed = Speed(rates[len(rates) // 2], slow, most)
        found[program] = speed
    return found


def _records(results: Path) -> Iterable[Record]:
    """Yield the newest records: reading 20,000 would take longer than many runs."""
    dated = []
    for path in (results / "cells").glob("[!.]*"):
        with contextlib.suppress(OSError):  # deleted meanwhile
            dated.append((path.stat().st_mtime, path.name))
    for _, name in sorted(dated)[-NEWEST:]:
        with contextlib.suppress(UserError):  # another version, or damaged
            if record := read_record(results, name):
                yield record

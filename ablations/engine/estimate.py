"""Estimate how long runs take, by records or assumptions, and how many jobs they are worth.

The one estimator of runs on this machine and of jobs of a cluster.
"""

from __future__ import annotations

import contextlib
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations.core.record import Provenance
from ablations.engine.backends import Speed, backend_of
from ablations.engine.job import Cell, backend_of_all
from ablations.engine.machine import even_lanes
from ablations.errors import UserError, count, duration
from ablations.records import Record, read_record

SUPERVISOR_MEGABYTES = 500
SPARE_MEMORY = 1.5
NEWEST = 1000  # records that speeds are read from


@dataclass(frozen=True)
class Resources:
    """The resources of a job.

    lanes: parallel runs of a worker; None: as the backend says. threads: of each command. memory:
    in megabytes; None or 0: as much as it needs. minutes: how long it should take; limit: when it
    is ended, also in minutes; reserve: seconds before that in which it saves what it has.
    """

    cores: int
    gpus: int = 0
    lanes: int | None = None
    threads: int | None = None
    memory: int | None = None
    minutes: float = math.inf
    limit: float = math.inf
    reserve: float = 0.0


@dataclass(frozen=True)
class OfProgram:
    """The runs of one program. seconds: that one worker trains them, without compilation."""

    program: str
    cells: tuple[Cell, ...]
    speed: Speed
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """The jobs that share some runs: each takes runs until none is left.

    workers: processes of each job. lanes: parallel runs of each worker. seconds: of each job,
    compilation included; megabytes: that it needs; gpus: that it has.
    """

    programs: tuple[OfProgram, ...] = ()
    jobs: int = 0
    workers: int = 0
    lanes: int = 1
    seconds: float = 0.0
    megabytes: int = 0
    gpus: int = 0

    @property
    def hours(self) -> float:
        """Return hours of cores, or of GPUs where there are any."""
        return self.jobs * self.seconds * (self.gpus or self.workers) / 3600

    @property
    def compile_seconds(self) -> float:
        """Return how long the slowest program takes to compile."""
        return max((each.speed.compile_seconds for each in self.programs), default=0.0)

    @property
    def measured(self) -> bool:
        """Return whether it rests on records alone."""
        return all(each.speed.measured for each in self.programs)

    def lines(self) -> Iterator[str]:
        """Yield a line for each program, and one for all jobs."""
        backend = self.programs[0].cells[0].backend
        for each in self.programs:
            tasks = ", ".join(dict.fromkeys(cell.task for cell in each.cells))
            title = backend.title.format(each.program)
            how = "measured" if each.speed.measured else "assumed: nothing like it has run here"
            pace = backend.pace(each.cells[0], each.speed)
            yield (
                f"    {f'{tasks} ({title})' if backend.compiles else title}: "
                f"{count(len(each.cells), 'run')}, {pace} ({how})"
            )
        compiled = (
            f"{count(len(self.programs), 'program')} to compile, " if backend.compiles else ""
        )
        unit = "GPU-hours" if self.gpus else "core-hours"
        yield (
            f"    {count(self.jobs, 'job')} of {backend.crew(self.workers, self.lanes)}, {compiled}"
            f"about {duration(self.seconds)}{' each' if self.jobs > 1 else ''}, "
            f"{self.hours:.2g} {unit}"
        )


def estimate(cells: Sequence[Cell], results: Path, resources: Resources) -> Estimate:
    """Estimate jobs of some runs, at the speeds that their like had in a results folder.

    Raises UserError: as `sized` does.
    """
    known = speeds(results, cells, accelerator=resources.gpus > 0)
    return sized(cells, resources, known)


def sized(cells: Sequence[Cell], resources: Resources, speeds: Mapping[str, Speed]) -> Estimate:
    """Return as many jobs as make each of them take `minutes`, where one run allows that.

    Args:
        cells: to be run.
        resources: of a job.
        speeds: one per program.

    Raises:
        UserError: a job could never get anywhere: the time limit is shorter than a chunk of
            training, the memory too small for one worker.
    """
    groups: dict[tuple[str, int, frozenset[int]], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.program(), cell.points, cell.measured), []).append(cell)
    backend = backend_of_all(cells)
    hungriest = max(speeds.values(), key=lambda speed: (speed.megabytes, speed.measured))
    workers, lanes = backend.shape(
        len(cells), _workers(resources, hungriest), resources.gpus, resources.lanes
    )
    lanes = min(lanes, even_lanes(max(map(len, groups.values())), resources.gpus))
    programs: list[OfProgram] = []
    batches, longest = 0, 0.0
    for (program, _, _), mine in groups.items():
        speed = speeds[program]
        unsaved, why = backend.unsaved(mine[0], speed, lanes)
        if unsaved + resources.reserve > 60 * resources.limit:
            raise UserError(f"the time limit of {resources.limit} minutes is too short for {why}")
        batch_seconds, number = (mine[0].steps or 1) * lanes / speed.rate, -(-len(mine) // lanes)
        programs.append(OfProgram(program, tuple(mine), speed, number * batch_seconds))
        batches, longest = batches + number, max(longest, batch_seconds)
    training = sum(each.seconds for each in programs)
    compiling = max(speed.compile_seconds for speed in speeds.values())
    rounds = (60 * resources.minutes - compiling) * batches / training
    rounds = max(1, math.floor(min(rounds, batches)))
    jobs = math.ceil(batches / (rounds * workers))
    workers = min(workers, math.ceil(batches / jobs))
    compiling *= math.ceil(len(programs) / (jobs * workers))
    trained = max(longest, math.ceil(batches / (jobs * workers)) * training / batches)
    megabytes = SUPERVISOR_MEGABYTES + math.ceil(workers * hungriest.megabytes * SPARE_MEMORY)
    return Estimate(
        tuple(programs), jobs, workers, lanes, compiling + trained, megabytes, resources.gpus
    )


def speeds(results: Path, cells: Iterable[Cell], *, accelerator: bool) -> dict[str, Speed]:
    """Return the speed of each program of some runs.

    By its own records among the `NEWEST`, else by those of its kind, else as assumed.
    """
    wanted: dict[str, Cell] = {}
    for cell in cells:
        wanted.setdefault(cell.program(), cell)
    kinds = {cell.backend.kind(cell.config) for cell in wanted.values()}
    exact: defaultdict[str, list[Provenance]] = defaultdict(list)
    alike: defaultdict[tuple[str, ...], list[Provenance]] = defaultdict(list)
    for record in _records(results):
        made, backend = record.provenance, backend_of(record.config)
        if ("cpu" in str(made.get("device", "cpu")).lower()) == accelerator:
            continue
        # Of other trainers than these, nothing need be installed here.
        if "trainer" in record.config and (kind := backend.kind(record.config)) in kinds:
            alike[kind].append(made)
            with contextlib.suppress(UserError):  # a choice of a plugin that is not loaded
                exact[backend.program(record.config)].append(made)
    found = {}
    for program, cell in wanted.items():
        # A record does not tell what its plan varied, which changes the speed of steps little.
        mine = exact[cell.backend.program(cell.config)]
        for like in (mine, alike[cell.backend.kind(cell.config)]):
            found[program] = cell.backend.speed(cell, like, accelerator=accelerator)
            if found[program].measured:
                break
    return found


def _records(results: Path) -> Iterable[Record]:
    """Yield the newest records: reading all of 20,000 would take longer than many a run."""
    dated = []
    for path in (results / "cells").glob("[!.]*"):
        with contextlib.suppress(OSError):  # deleted meanwhile
            dated.append((path.stat().st_mtime, path.name))
    for _, name in heapq.nlargest(NEWEST, dated):
        with contextlib.suppress(UserError):  # one of another version, or damaged
            if record := read_record(results, name):
                yield record


def _workers(resources: Resources, speed: Speed) -> int:
    """Return a worker per core, or per threads of a command, as far as the memory goes."""
    cores = max(1, resources.cores // (resources.threads or 1))
    if not resources.memory:
        return cores
    fitting = (resources.memory - SUPERVISOR_MEGABYTES) // speed.megabytes
    if fitting < 1 and speed.measured:
        raise UserError(
            f"{resources.memory} MB are too little for one worker, which took {speed.megabytes} "
            f"MB, and {SUPERVISOR_MEGABYTES} MB beside: raise --memory"
        )
    return min(cores, max(1, fitting))

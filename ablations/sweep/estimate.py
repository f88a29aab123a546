"""Estimate the duration of cells, by records or assumptions, and pack them into jobs.

The one estimator of runs on this machine and of jobs of a cluster.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations.core.record import Provenance
from ablations.errors import UserError
from ablations.records import Record, read_record
from ablations.sweep.backends import Speed, backend_of
from ablations.sweep.job import Cell, Order
from ablations.sweep.machine import even_lanes

SUPERVISOR_MEGABYTES = 500
SPARE_MEMORY = 1.5


@dataclass(frozen=True)
class Resources:
    """The resources of a job.

    lanes: cells side by side in a worker; None: as the backend says. threads: of each command.
    memory: in megabytes; None or 0: as much as it needs. minutes: how long it should take; limit:
    when it is ended, also in minutes; reserve: seconds before that in which it saves what it has.
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
class Job:
    """Cells of one program that run together.

    workers: processes. lanes: cells side by side in each. seconds: how long it should take,
    compilation included. megabytes: what it needs.
    """

    program: str
    cells: tuple[Cell, ...]
    workers: int
    lanes: int
    seconds: float
    megabytes: int


@dataclass(frozen=True)
class Estimate:
    """The jobs of some cells. speeds: program -> what their times rest on. gpus: of each job."""

    jobs: tuple[Job, ...]
    speeds: Mapping[str, Speed]
    gpus: int = 0

    @property
    def seconds(self) -> float:
        """Return the seconds of the jobs one after the other."""
        return sum(job.seconds for job in self.jobs)

    @property
    def hours(self) -> float:
        """Return hours of cores, or of GPUs where there are any."""
        return sum(job.seconds * (self.gpus or job.workers) for job in self.jobs) / 3600


def estimate(cells: Sequence[Cell], results: Path, resources: Resources) -> Estimate:
    """Pack cells into jobs, at the speeds that their like had in a results folder.

    Raises:
        UserError: as `pack` does.
    """
    known = speeds(results, cells, accelerator=resources.gpus > 0)
    return Estimate(tuple(pack(cells, resources, known)), known, resources.gpus)


def pack(cells: Sequence[Cell], resources: Resources, speeds: Mapping[str, Speed]) -> list[Job]:
    """Pack cells into jobs of at most `minutes` each, where one cell allows that.

    Jobs of a program have equal size.

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
        program = cell.program()
        groups.setdefault((program, cell.points, cell.measured), []).append(cell)
    jobs = []
    for (program, _, _), mine in groups.items():
        speed, backend = speeds[program], mine[0].backend
        workers, lanes = backend.shape(
            len(mine), _workers(resources, speed), resources.gpus, resources.lanes
        )
        lanes = min(lanes, even_lanes(len(mine), resources.gpus))
        unsaved, why = backend.unsaved(mine[0], speed, lanes)
        if unsaved + resources.reserve > 60 * resources.limit:
            raise UserError(f"the time limit of {resources.limit} minutes is too short for {why}")
        block_seconds = (mine[0].steps or 1) * lanes / speed.rate
        rounds = (60 * resources.minutes - speed.compile_seconds) / block_seconds
        rounds = max(1, math.floor(min(rounds, len(mine))))
        for part in _split(mine, math.ceil(len(mine) / (rounds * workers * lanes))):
            wanted = min(workers, math.ceil(len(part) / lanes))
            seconds = speed.compile_seconds + block_seconds * math.ceil(len(part) / wanted / lanes)
            megabytes = SUPERVISOR_MEGABYTES + math.ceil(wanted * speed.megabytes * SPARE_MEMORY)
            jobs.append(Job(program, tuple(part), wanted, lanes, seconds, megabytes))
    return jobs


def speeds(results: Path, cells: Iterable[Cell], *, accelerator: bool) -> dict[str, Speed]:
    """Return the speed of each program of the cells.

    By its own records, else by those of its kind, else as assumed.
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


def compile_seconds(order: Order) -> float | None:
    """Return how long the slowest program of an order takes to compile.

    None where nothing like them was compiled.
    """
    if not order.backend.compiles:
        return None
    known = speeds(Path(order.results), order.cells, accelerator=order.accelerator)
    return max((speed.compile_seconds for speed in known.values() if speed.measured), default=None)


def _records(results: Path) -> Iterable[Record]:
    for path in (results / "cells").glob("[!.]*"):
        with contextlib.suppress(UserError):  # one of another version, or damaged
            if record := read_record(results, path.name):
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


def _split(cells: Sequence[Cell], number: int) -> list[Sequence[Cell]]:
    """Split cells into `number` parts whose sizes differ by one at most."""
    ends = [len(cells) * k // number for k in range(number + 1)]
    return [cells[a:b] for a, b in itertools.pairwise(ends)]

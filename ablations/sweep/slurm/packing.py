"""Packs cells into jobs: one program and so one compilation each, as long as was asked for."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations.errors import UserError
from ablations.records import Record, read_record
from ablations.sweep.cell import Cell, program_of
from ablations.sweep.machine import even_lanes
from ablations.sweep.slurm.cluster import Cluster

# Where nothing was measured yet: a core on a Brax task, an accelerator's block of lanes.
ASSUMED_RATE = 50_000.0
ASSUMED_BLOCK_RATE = 1_000_000.0
ASSUMED_COMPILE_SECONDS = 30.0
ASSUMED_WORKER_MEGABYTES = 2500
ASSUMED_COMMAND_SECONDS = 600.0
SUPERVISOR_MEGABYTES = 500
SPARE_MEMORY = 1.5
LANES_PER_GPU = 16


@dataclass(frozen=True)
class Speed:
    """What one worker did: rate in environment steps per second over its lanes, compile seconds,
    the most memory it held, in megabytes. measured: from records, else assumed.
    """

    rate: float
    compile_seconds: float
    megabytes: int
    measured: bool = True


@dataclass(frozen=True)
class Job:
    """cells: all of one program. workers: processes. lanes: cells side by side in each.
    seconds: how long it should take, compilation included. megabytes: what it needs.
    """

    program: str
    cells: tuple[Cell, ...]
    workers: int
    lanes: int
    seconds: float
    megabytes: int


def pack(cells: Sequence[Cell], cluster: Cluster, speeds: Mapping[str, Speed]) -> list[Job]:
    """Jobs of at most `job_minutes` each, where one cell allows that, of equal size within a
    program.

    speeds: one per program. Raises UserError where a job could never get anywhere: the time limit
    is shorter than a chunk of training, the memory too small for one worker.
    """
    groups: dict[tuple[str, int, frozenset[int]], list[Cell]] = {}
    for cell in cells:
        program = cell.program(accelerator=cluster.gpus > 0)
        groups.setdefault((program, cell.points, cell.measured), []).append(cell)
    jobs = []
    for (program, points, _), mine in groups.items():
        speed = speeds[program]
        lanes = min(lanes_of(cluster), even_lanes(len(mine), cluster.gpus))
        lanes = 1 if mine[0].is_command else lanes
        steps = _amount(mine[0])
        _require_time(cluster, speed, steps * lanes / points, mine[0])
        workers = _workers(cluster, speed)
        if cluster.gpus:  # one process has all of them, but commands have one each
            workers = min(workers, cluster.gpus) if mine[0].is_command else 1
        block_seconds = steps * lanes / speed.rate
        training_seconds = 60 * cluster.job_minutes - speed.compile_seconds
        rounds = max(1, math.floor(training_seconds / block_seconds))
        number = math.ceil(len(mine) / (rounds * workers * lanes))
        for part in _split(mine, number):
            wanted = min(workers, math.ceil(len(part) / lanes))
            seconds = speed.compile_seconds + block_seconds * math.ceil(len(part) / wanted / lanes)
            needed = _megabytes(speed, wanted)
            jobs.append(Job(program, tuple(part), wanted, lanes, seconds, needed))
    return jobs


def lanes_of(cluster: Cluster) -> int:
    """A block of lanes is sharded evenly over all accelerators of a job."""
    if not cluster.gpus:
        return 1
    return even_lanes(cluster.lanes or LANES_PER_GPU * cluster.gpus, cluster.gpus)


def speeds(results: Path, cells: Iterable[Cell], *, accelerator: bool) -> dict[str, Speed]:
    """How fast each program of the cells ran before: its own records', else those of its task and
    trainer, else an assumption."""
    wanted: dict[str, Cell] = {}
    for cell in cells:
        wanted.setdefault(cell.program(accelerator=accelerator), cell)
    kinds = {_alike(cell.config) for cell in wanted.values()}
    exact: dict[Any, list[Mapping[str, Any]]] = {}
    alike: dict[Any, list[Mapping[str, Any]]] = {}
    for record in _records(results):
        made = record.provenance
        if ("cpu" in str(made.get("device", "cpu")).lower()) == accelerator:
            continue
        # Of other trainers than these, nothing need be installed here.
        timed = made.get("steps_per_second") or "command" in record.config
        if timed and _alike(record.config) in kinds:
            program = program_of(record.config, accelerator=accelerator)
            exact.setdefault(program, []).append(made)
            alike.setdefault(_alike(record.config), []).append(made)
    found = {
        program: exact.get(program) or alike.get(_alike(cell.config)) or []
        for program, cell in wanted.items()
    }
    return {
        program: _speed_of_command(found[program], _amount(cell))
        if cell.is_command
        else _speed(found[program], accelerator)
        for program, cell in wanted.items()
    }


def _amount(cell: Cell) -> int:
    """How much there is to do, in steps; a command that nobody told its steps is one."""
    return cell.steps or 1


def _speed_of_command(made: Sequence[Mapping[str, Any]], amount: int) -> Speed:
    seconds = sorted(one["seconds"] for one in made if one.get("seconds"))
    sizes = [one["peak_megabytes"] for one in made if one.get("peak_megabytes")]
    takes = seconds[len(seconds) // 2] if seconds else ASSUMED_COMMAND_SECONDS
    megabytes = max(sizes, default=ASSUMED_WORKER_MEGABYTES)
    return Speed(amount / max(takes, 1e-3), 0.0, megabytes, measured=bool(seconds))


def _alike(config: Mapping[str, Any]) -> tuple[str, ...]:
    line = config["command"]["run"] if "command" in config else ()
    return config["task"]["name"], config["trainer"]["name"], *line


def _speed(made: Sequence[Mapping[str, Any]], accelerator: bool) -> Speed:
    """made: the provenances of records."""
    compiled = [one["compile_seconds"] for one in made if one.get("compile_seconds")]
    sizes = [one["peak_megabytes"] for one in made if one.get("peak_megabytes")]
    rates = sorted(one["steps_per_second"] for one in made)
    return Speed(
        rate=rates[len(rates) // 2]
        if rates
        else (ASSUMED_BLOCK_RATE if accelerator else ASSUMED_RATE),
        compile_seconds=max(compiled, default=ASSUMED_COMPILE_SECONDS),
        megabytes=max(sizes, default=ASSUMED_WORKER_MEGABYTES),
        measured=bool(rates),
    )


def _records(results: Path) -> Iterable[Record]:
    for path in (results / "cells").glob("[!.]*"):
        with contextlib.suppress(UserError):  # one of another version, or damaged
            if record := read_record(results, path.name):
                yield record


def _megabytes(speed: Speed, workers: int) -> int:
    return SUPERVISOR_MEGABYTES + math.ceil(workers * speed.megabytes * SPARE_MEMORY)


def _workers(cluster: Cluster, speed: Speed) -> int:
    """One per core, or per so many as each command has threads, as far as the memory goes."""
    cpus = max(1, cluster.cpus // (cluster.threads or 1))
    if not cluster.memory:
        return cpus
    fitting = (cluster.memory - SUPERVISOR_MEGABYTES) // speed.megabytes
    if fitting < 1 and speed.measured:
        raise UserError(
            f"{cluster.memory} MB are too little for one worker, which took {speed.megabytes} MB, "
            f"and {SUPERVISOR_MEGABYTES} MB beside: raise --memory"
        )
    return min(cpus, max(1, fitting))


def _require_time(cluster: Cluster, speed: Speed, chunk_steps: float, cell: Cell) -> None:
    """A job that never ends a chunk has nothing to save when its time is up."""
    chunk = chunk_steps / speed.rate
    if cell.is_command and (not speed.measured or cell.config["command"]["resume"]):
        return
    if chunk + cluster.signal_seconds > 60 * cluster.time_limit:
        if cell.is_command:
            raise UserError(
                f"the time limit of {cluster.time_limit} minutes is too short for {cell.variant} "
                f"on {cell.task}, whose command takes about {chunk / 60:.0f} minutes and cannot "
                f"resume: raise --time, or say how it resumes"
            )
        raise UserError(
            f"the time limit of {cluster.time_limit} minutes is too short for one chunk of "
            f"{cell.variant} on {cell.task}, which takes about {chunk / 60:.0f} minutes at "
            f"{speed.rate:,.0f} steps/s ({'measured' if speed.measured else 'assumed'}): raise "
            f"--time, or cut the run in more with --set points=N"
        )


def _split(cells: Sequence[Cell], number: int) -> list[Sequence[Cell]]:
    """In `number` parts whose sizes differ by one at most."""
    ends = [len(cells) * k // number for k in range(number + 1)]
    return [cells[a:b] for a, b in itertools.pairwise(ends)]

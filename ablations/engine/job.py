"""Define a run of a plan, its result, and the job specification that workers read. No JAX."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from ablations.core.decode import Mismatch, Part, decode, encode
from ablations.core.files import Foreign, read_json
from ablations.core.plan import Context
from ablations.core.record import (
    Checkout,
    Columns,
    Failure,
    Named,
    Policies,
    Provenance,
    RawConfiguration,
    steps_at,
    steps_of,
)
from ablations.engine.backends import Backend, backend_of
from ablations.engine.claims import published
from ablations.errors import UserError
from ablations.records import Plan, Record, write_atomically
from ablations.trainers import trainer


@dataclass(frozen=True)
class Cell:
    """A run of a plan, named by the hash of its configuration.

    config: all that decides its result, its seed included. metric: the column of its curve that the
    study judges. place: the execution context of a command, which decides nothing and is in no
    hash. varied: the components in which the plan's runs on its task differ, over which its program
    switches; None: over all that it can.

    A point is a chunk of training, counted from 1; a step is one of the environment (or a
    completion), which is what curves are drawn over.
    """

    study: str
    task: str
    variant: str
    seed: int
    hash: str
    config: RawConfiguration = field(compare=False, repr=False)
    metric: str = "training/return"
    place: Context = field(default_factory=Context, compare=False, repr=False)
    varied: Sequence[str] | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Return its study, variant, task and seed, for people."""
        return f"{self.study}/{self.variant} {self.task} seed {self.seed}"

    @property
    def points(self) -> int:
        """Return the number of points of its curve."""
        return self.config["run"]["points"]

    @property
    def steps(self) -> int:
        """Return the steps of the whole run; 0 for a command without {steps}."""
        return steps_of(self.config)

    def step_at(self, point: int) -> int:
        """Return the steps up to a point."""
        return steps_at(self.config, point)

    def evenly_spaced(self, count: int) -> frozenset[int]:
        """Return `count` of its points, evenly spaced and with the last."""
        return frozenset(-(-(k + 1) * self.points // count) for k in range(count))

    @property
    def backend(self) -> Backend:
        """Return the backend that runs it."""
        return backend_of(self.config)

    @property
    def measured(self) -> frozenset[int]:
        """Return the points after which it is evaluated."""
        return self.evenly_spaced(self.config["run"]["evaluations"])

    @property
    def ranked_by(self) -> str:
        """Return the column by which its policies are better or worse."""
        evaluated, trained = trainer(self.config["trainer"]["name"]).ranked_by
        return evaluated if self.config["run"]["evaluations"] else trained

    def program(self) -> str:
        """Return the name of the program that it runs in."""
        return self._program

    @cached_property
    def _program(self) -> str:
        return self.backend.program(self.config, self.varied)


def backend_of_all(cells: Iterable[Cell]) -> Backend:
    """Return the backend of some runs. Raises UserError: some are commands and some are not."""
    backend, *others = dict.fromkeys(cell.backend for cell in cells)
    if others:
        raise UserError("commands and trainers of ours run one after the other: name either")
    return backend


def cells_of(plan: Plan) -> tuple[Cell, ...]:
    """Return the runs of a plan, in its order."""
    study, metric = plan.study.name, plan.study.metric
    places = {name: variant.place or Context() for name, variant in plan.variants.items()}
    choices: dict[str, dict[str, Mapping[str, Named]]] = {}
    for entry in plan.cells:
        choices.setdefault(entry.task, {})[entry.variant] = entry.config.get("choices", {})
    varied = {task: _varied(of.values()) for task, of in choices.items()}
    return tuple(
        Cell(
            study=study,
            metric=metric,
            place=places[entry.variant],
            varied=varied[entry.task],
            **structs.asdict(entry),
        )
        for entry in plan.cells
    )


def _varied(choices: Collection[Mapping[str, Named]]) -> tuple[str, ...]:
    """Return the components in which choices differ, also where one configuration has none."""
    axes = dict.fromkeys(axis for each in choices for axis in each)
    return tuple(axis for axis in axes if len({str(each.get(axis)) for each in choices}) > 1)


def sharing_programs(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Return runs whose programs switch over what any run varies that could share the program.

    Runs of several studies then need one compilation instead of one per study.
    """
    names: dict[tuple[str, str, str], str] = {}
    varied: dict[str, set[str]] = {}
    cells = tuple(cells)
    for cell in cells:
        key = (cell.study, cell.task, cell.variant)
        if "trainer" in cell.config and key not in names:  # not a command
            names[key] = cell.backend.program(cell.config)
            varied.setdefault(names[key], set()).update(cell.varied or ())
    return tuple(
        replace(cell, varied=tuple(sorted(varied[names[key]])))
        if (key := (cell.study, cell.task, cell.variant)) in names
        else cell
        for cell in cells
    )


def distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Remove runs with equal hashes, which studies share, keeping the first."""
    kept: dict[str, Cell] = {}
    for cell in cells:
        kept.setdefault(cell.hash, cell)
    return tuple(kept.values())


@dataclass
class Lane:
    """The curve of a run, and the steps between which its numbers stopped being finite."""

    columns: Columns = field(default_factory=lambda: {"step": []})
    diverged: tuple[int, int] | None = None

    def copy(self) -> Lane:
        """Return a copy that later rows do not change."""
        return Lane({name: list(column) for name, column in self.columns.items()}, self.diverged)

    def append(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Add a row; a metric that it lacks, or that is new, has None where there is nothing."""
        self.columns["step"].append(step)
        for name, value in metrics.items():
            column = self.columns.setdefault(name, [])
            column.extend([None] * (len(self.columns["step"]) - 1 - len(column)))
            column.append(value)
        for column in self.columns.values():
            column.extend([None] * (len(self.columns["step"]) - len(column)))

    def values(self, metric: str) -> dict[int, float]:
        """Return the values of a metric by step, without those that are None."""
        columns = self.columns["step"], self.columns.get(metric, [])
        return {
            int(step): value
            for step, value in zip(*columns, strict=False)
            if step is not None and value is not None
        }


@dataclass(frozen=True)
class Saved:
    """The saved state of a run: its point, its curve, its arrays (by `to_arrays`)."""

    point: int
    lane: Lane
    state: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Result:
    """The result of a run, for its record.

    failure: why it failed, with its reason and step; None: it is done. folder: of the policies.
    files: the folder that its record keeps whole.
    """

    columns: Columns
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None
    policies: Policies = field(default_factory=Policies)
    folder: Path | None = None
    files: Path | None = None

    def record(self, cell: Cell, provenance: Provenance) -> Record:
        """Return the record of a run with this result."""
        return Record(
            cell.hash,
            cell.config,
            "failed" if self.failure else "done",
            self.failure,
            self.reason,
            self.failed_step,
            provenance,
            policies=self.policies,
        )


class TrainingFailed(Exception):
    """An error of training: the run's own failure, unlike a disc that is full.

    stops: others would fail in the same way, so no further run of the job is begun.
    """

    def __init__(self, error: Exception, *, stops: bool = False):
        """Take the error that was raised."""
        super().__init__(str(error))
        self.error = error
        self.stops = stops


CANNOT_GO_ON = 74  # a worker's exit code (EX_IOERR): another worker would not fare better
NO_ROOM_HINT = "make room or give another --results; what is done is safe"
STOP_SECONDS = 5.0


class CheckpointPolicy(Part, frozen=True):
    """How often runs are saved, and how much stays. It changes no result.

    minutes, steps: how often the whole state of a run is saved; None: not by that measure.
    checkpoints: how many of those stay, besides the best. snapshots: how many policies of a run are
    kept, evenly spaced, besides the best; 0: none at all.
    """

    minutes: float | None = 1.0
    steps: int | None = None
    checkpoints: int = 2
    snapshots: int = 4


class JobSpec(Part, frozen=True):
    """A job specification, one file. Nothing but the runs decides a result.

    run: its name, in logs and claims. results: where records go. workers: processes. lanes:
    parallel runs in each. threads: of each command, as a flag asks; None: its share of the cores.
    waits: workers stay until every run has a record, also those that others compute; else they
    end when no run is left that nobody computes. stop_seconds: the time that workers have to save
    their state when they are asked to end.
    """

    run: str
    results: str
    cells: tuple[Cell, ...]
    workers: int = 1
    lanes: int = 1
    accelerator: bool = False
    threads: int | None = None
    waits: bool = True
    stop_seconds: float = STOP_SECONDS
    plugins: tuple[str, ...] = ()
    checkpoints: CheckpointPolicy = CheckpointPolicy()
    provenance: Checkout = msgspec.field(default_factory=Checkout)

    @property
    def backend(self) -> Backend:
        """Return the backend of its runs."""
        return backend_of_all(self.cells)

    @property
    def left(self) -> tuple[Cell, ...]:
        """Return its runs that have no record yet."""
        results = Path(self.results)
        return tuple(cell for cell in self.cells if not published(results, cell.hash))

    def stop(self, reason: str) -> None:
        """Let no worker begin another run. reason: in a line, for people."""
        write_atomically(self._stop, reason)

    @property
    def stopped(self) -> str | None:
        """Return why the runs that are left are not to be begun; None where they are."""
        try:
            reason = self._stop.read_text()
        except FileNotFoundError:
            return None
        return reason if self.left else None

    def close(self) -> None:
        """Delete the stop file that workers share."""
        self._stop.unlink(missing_ok=True)

    @property
    def _stop(self) -> Path:
        return Path(self.results) / "work" / "orders" / f"{self.run}.stopped"

    def write(self, path: Path) -> Path:
        """Write it as JSON, where runs name what they share by its place; return the path."""
        shared: dict[str, int] = {}
        rows = []
        for cell in self.cells:
            fields = {n: part for n, part in vars(cell).items() if n in Cell.__match_args__}
            seed, name = fields.pop("seed"), fields.pop("hash")
            fields["config"] = {n: part for n, part in cell.config.items() if n != "seed"}
            rows.append([seed, name, shared.setdefault(encode(fields), len(shared))])
        described = {**structs.asdict(self), "shared": [*map(json.loads, shared)], "cells": rows}
        write_atomically(path, encode(described))
        return path

    @classmethod
    def read(cls, path: Path) -> JobSpec:
        """Read a job specification. Raises Foreign: the file is damaged."""
        fields = read_json(path, dict[str, Any])
        shared = fields.pop("shared", [])
        try:
            cells = [
                {**shared[n], "seed": seed, "hash": name}
                | {"config": {**shared[n]["config"], "seed": seed}}
                for seed, name, n in fields.get("cells", ())
            ]
            return decode(cls, fields | {"cells": cells})
        except (Mismatch, IndexError, KeyError, TypeError, ValueError) as why:
            raise Foreign(f"'{path}' is damaged: {why}") from None

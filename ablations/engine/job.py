"""Define runs of a plan, their results, and the job specification. Does not import JAX."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

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
    RawConfiguration,
    steps_at,
    steps_of,
)
from ablations.engine.backends import Backend, backend_of
from ablations.engine.claims import published
from ablations.errors import UserError
from ablations.records import Plan, write_atomically
from ablations.trainers import trainer


class Kind(NamedTuple):
    """The properties of runs that can be trained in parallel."""

    program: str
    points: int
    measured: frozenset[int]


@dataclass(frozen=True)
class Cell:
    """A run of a plan, named by the hash of its configuration.

    config: everything that decides the result. metric: the column of the curve that the study
    judges. place: the execution context of a command, which is not hashed. varied: the components
    in which the plan's runs on the task differ, and over which the program switches; None: all
    components.

    A point is a chunk of training, counted from 1. A step is an environment step or a completion.
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
        """Return study, variant, task and seed as users read them."""
        return f"{self.study}/{self.variant} {self.task} seed {self.seed}"

    @property
    def points(self) -> int:
        """Return the number of points of the curve."""
        return self.config["run"]["points"]

    @property
    def steps(self) -> int:
        """Return the steps of the complete run; 0 for a command without {steps}."""
        return steps_of(self.config)

    def step_at(self, point: int) -> int:
        """Return the steps up to a point."""
        return steps_at(self.config, point)

    def evenly_spaced(self, count: int) -> frozenset[int]:
        """Return `count` evenly spaced points, including the last."""
        return frozenset(-(-(k + 1) * self.points // count) for k in range(count))

    @property
    def backend(self) -> Backend:
        """Return the backend that computes the run."""
        return backend_of(self.config)

    @property
    def measured(self) -> frozenset[int]:
        """Return the points after which the policy is evaluated."""
        return self.evenly_spaced(self.config["run"]["evaluations"])

    @property
    def ranked_by(self) -> str:
        """Return the column by which saved policies are ranked."""
        evaluated, trained = trainer(self.config["trainer"]["name"]).ranked_by
        return evaluated if self.config["run"]["evaluations"] else trained

    @cached_property
    def program(self) -> str:
        """Return the name of the program that computes the run."""
        return self.backend.program(self.config, self.varied)

    @property
    def kind(self) -> Kind:
        """Return the properties that parallel runs share, besides their last checkpoint."""
        return Kind(self.program, self.points, self.measured)


def backend_of_all(cells: Iterable[Cell]) -> Backend:
    """Return the backend of some runs. Raises UserError: they have different backends."""
    backend, *others = dict.fromkeys(cell.backend for cell in cells)
    if others:
        raise UserError("studies of commands and other studies cannot run together: name either")
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
    """Return the components in which choices differ; a missing choice differs from any."""
    axes = dict.fromkeys(axis for each in choices for axis in each)
    return tuple(axis for axis in axes if len({str(each.get(axis)) for each in choices}) > 1)


def sharing_programs(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the runs of several studies with as few programs as possible.

    A program switches over every component that any of its runs varies.
    """
    names: dict[tuple[str, str, str], str] = {}
    varied: dict[str, set[str]] = {}
    for cell in cells:
        key = (cell.study, cell.task, cell.variant)
        if key not in names:
            names[key] = cell.backend.program(cell.config)
            varied.setdefault(names[key], set()).update(cell.varied or ())
    return tuple(
        replace(cell, varied=tuple(sorted(varied[names[cell.study, cell.task, cell.variant]])))
        for cell in cells
    )


def distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Remove runs with equal hashes, keeping the first."""
    kept: dict[str, Cell] = {}
    for cell in cells:
        kept.setdefault(cell.hash, cell)
    return tuple(kept.values())


@dataclass
class Lane:
    """The curve of a run, and the steps between which parameters stopped being finite."""

    columns: Columns = field(default_factory=lambda: {"step": []})
    diverged: tuple[int, int] | None = None

    def copy(self) -> Lane:
        """Copy the columns."""
        return Lane({name: list(column) for name, column in self.columns.items()}, self.diverged)

    def append(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Add a row; missing values of a metric are None."""
        for name in metrics:
            self.columns.setdefault(name, [None] * len(self.columns["step"]))
        row = {"step": step, **metrics}
        for name, column in self.columns.items():
            column.append(row.get(name))

    def values(self, metric: str) -> dict[int, float]:
        """Return the values of a metric by step, without None."""
        columns = self.columns["step"], self.columns.get(metric, [])
        return {
            int(step): value
            for step, value in zip(*columns, strict=False)
            if step is not None and value is not None
        }


@dataclass(frozen=True)
class Saved:
    """The saved state of a run: its point, its curve, its arrays (see `to_arrays`)."""

    point: int
    lane: Lane
    state: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Result:
    """The result of a run, for its record.

    failure: None if the run is done. folder: the folder of the policies. files: a folder that the
    record includes.
    """

    columns: Columns
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None
    policies: Policies = field(default_factory=Policies)
    folder: Path | None = None
    files: Path | None = None


class TrainingFailed(Exception):
    """A failure of the run itself."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error


CANNOT_GO_ON = 74  # a worker's exit code (EX_IOERR): another worker would fail too
NO_ROOM_HINT = "make room or give another --results; what is done is safe"


class CheckpointPolicy(Part, frozen=True):
    """How often runs are saved, and what is kept. It does not change results.

    minutes, steps: the time between checkpoints.
    snapshots: how many evenly spaced policies are kept besides the best; 0: no policies.
    """

    minutes: float | None = 1.0
    steps: int | None = None
    snapshots: int = 4


class JobSpec(Part, frozen=True):
    """A job specification, stored in one file. Only the runs decide results.

    run: the name of the job. workers: processes. lanes: parallel runs of each worker. threads:
    threads of each command; None: its share of the cores. waits: whether workers wait for runs that
    other jobs compute. stop_seconds: the time in which workers save their state after a signal.
    """

    run: str
    results: str
    cells: tuple[Cell, ...]
    workers: int = 1
    lanes: int = 1
    accelerator: bool = False
    threads: int | None = None
    waits: bool = True
    stop_seconds: float = 5.0
    plugins: tuple[str, ...] = ()
    checkpoints: CheckpointPolicy = CheckpointPolicy()
    provenance: Checkout = msgspec.field(default_factory=Checkout)

    @property
    def backend(self) -> Backend:
        """Return the backend of the runs."""
        return backend_of_all(self.cells)

    @property
    def left(self) -> tuple[Cell, ...]:
        """Return the runs without a record."""
        results = Path(self.results)
        return tuple(cell for cell in self.cells if not published(results, cell.hash))

    def write(self, path: Path) -> Path:
        """Write JSON in which runs share their common fields; return the path."""
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
        try:
            shared = fields.pop("shared")
            cells = [
                {**shared[n], "seed": seed, "hash": name}
                | {"config": {**shared[n]["config"], "seed": seed}}
                for seed, name, n in fields["cells"]
            ]
            return decode(cls, fields | {"cells": cells})
        except (Mismatch, IndexError, KeyError, TypeError, ValueError) as why:
            raise Foreign(f"'{path}' is damaged: {why}") from None

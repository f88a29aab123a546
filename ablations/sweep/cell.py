"""A cell: task x variant x seed x settings, the unit of result, from its plan to its record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ablations.records import Plan, digest

if TYPE_CHECKING:
    from ablations.trainers import Definition


@dataclass(frozen=True)
class Cell:
    """study, task, variant, seed: its place in a plan. config: all that decides its result, its
    seed included; hash: the name of that. metric: the column of its curve that the study judges.
    place: where and how a command runs; decides nothing, so it is in no hash.

    A point is a chunk of training, counted from 1; a step is one of the environment (or a
    completion), which is what curves are drawn over.
    """

    study: str
    task: str
    variant: str
    seed: int
    hash: str
    config: Mapping[str, Any] = field(compare=False, repr=False)
    metric: str = "training/return"
    place: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.study}/{self.variant} {self.task} seed {self.seed}"

    @property
    def points(self) -> int:
        return int(self.config["run"]["points"])

    @property
    def steps(self) -> int:
        """Of the whole run; of a command that is not told its steps, 0."""
        return self.step_at(self.points)

    def step_at(self, point: int) -> int:
        run = self.config["run"]
        return int(point * run["updates_per_chunk"] * run["iteration_steps"])

    def evenly_spaced(self, count: int) -> frozenset[int]:
        """So many of its points, the last among them."""
        return frozenset(-(-(k + 1) * self.points // count) for k in range(count))

    @property
    def is_command(self) -> bool:
        """Whether a process of the user's trains it, instead of a compiled program."""
        return "command" in self.config

    @property
    def is_native(self) -> bool:
        """Whether it runs with all that a processor has, instead of the same bits everywhere."""
        return self.config["run"].get("arithmetic") == "native"

    @property
    def is_diagnosis(self) -> bool:
        """Whether it trains to have its estimates measured on the way; see diagnosis.py."""
        return "diagnosis" in self.config

    @property
    def measured(self) -> frozenset[int]:
        """The points that an evaluation follows; of a diagnosis, its stages."""
        if self.is_diagnosis:
            stages = self.config["diagnosis"]["stages"]
            return frozenset(math.ceil(share * self.points) for share in stages)
        return self.evenly_spaced(self.config["run"]["evaluations"])

    @property
    def ranked_by(self) -> str:
        """The column by which its policies are better or worse."""
        from ablations.trainers import trainer

        evaluated, trained = trainer(self.config["trainer"]["name"]).ranked_by
        return evaluated if self.config["run"]["evaluations"] else trained

    def compiled_in(self, *, accelerator: bool = False) -> tuple[str, ...]:
        """The axes whose choice is part of its program."""
        return _definition(self.config).compiled_in(self.config, accelerator=accelerator)

    def program(self, *, accelerator: bool = False) -> str:
        """The name of the compiled program that it runs in."""
        return program_of(self.config, accelerator=accelerator)


def program_of(config: Mapping[str, Any], *, accelerator: bool = False) -> str:
    """The name of a program: all of a configuration that is not data. A diagnosis is compiled for
    one composition."""
    if "diagnosis" in config:
        return digest({name: value for name, value in config.items() if name != "seed"})
    return digest(_definition(config).program(config, accelerator=accelerator))


def _definition(config: Mapping[str, Any]) -> Definition:
    from ablations.trainers import trainer  # a crew starts without it

    return trainer(config["trainer"]["name"])


def cells_of(plan: Plan) -> tuple[Cell, ...]:
    """The cells of a plan, in its order."""
    study, metric = plan.study.name, plan.study.metric
    places = {name: variant.place or {} for name, variant in plan.variants.items()}
    return tuple(
        Cell(study=study, metric=metric, place=places.get(entry.variant, {}), **vars(entry))
        for entry in plan.cells
    )


def distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Each once, though studies share them; the first of equals."""
    found: dict[str, Cell] = {}
    for cell in cells:
        found.setdefault(cell.hash, cell)
    return tuple(found.values())

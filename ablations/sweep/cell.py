"""A cell: task x variant x seed x settings, the unit of result, from its plan to its record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import asdict

from ablations.core.plan import Context
from ablations.core.record import Named, RawConfiguration, steps_at, steps_of
from ablations.errors import UserError
from ablations.records import Plan
from ablations.sweep.backends import Backend, backend_of
from ablations.trainers import trainer


@dataclass(frozen=True)
class Cell:
    """A cell of a plan.

    study, task, variant, seed: its place in a plan. config: all that decides its result, its
    seed included; hash: the name of that. metric: the column of its curve that the study judges.
    place: the execution context of a command, which decides nothing and is in no hash. varied: the
    axes in which the cells of its plan on its task differ, over which its program switches; None:
    over all that it can.

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
        return self.backend.program(self.config, self.varied)


def backend_of_all(cells: Iterable[Cell]) -> Backend:
    """Return the backend that all of the cells have.

    Raises:
        UserError: they have two.
    """
    backend, *others = dict.fromkeys(cell.backend for cell in cells)
    if others:
        raise UserError("commands and trainers of ours run one after the other: name either")
    return backend


def cells_of(plan: Plan) -> tuple[Cell, ...]:
    """Return the cells of a plan, in its order."""
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
            **asdict(entry),
        )
        for entry in plan.cells
    )


def _varied(choices: Collection[Mapping[str, Named]]) -> tuple[str, ...]:
    """Return the axes in which choices differ. One that a configuration leaves out differs too."""
    axes = dict.fromkeys(axis for each in choices for axis in each)
    return tuple(axis for axis in axes if len({str(each.get(axis)) for each in choices}) > 1)


def distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Remove cells with equal hashes, which studies share, keeping the first."""
    kept: dict[str, Cell] = {}
    for cell in cells:
        kept.setdefault(cell.hash, cell)
    return tuple(kept.values())

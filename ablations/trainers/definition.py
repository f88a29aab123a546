"""A trainer by name: its settings, and how they become configurations and programs.

Importing it starts neither JAX nor the registry: what needs them imports them when it is asked.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ablations import tasks
from ablations.core.plan import Context, Formula
from ablations.core.record import Configuration, Run
from ablations.errors import UserError, unknown
from ablations.trainers.trainer import Composition, Option, ProgramName, Trainer, Variant

if TYPE_CHECKING:
    from ablations.core.plan import Settings
    from ablations.tasks.task import Task
    from ablations.trainers.command import CommandTrainer
    from variants import Number


@dataclass(frozen=True)
class Definition:
    """A trainer by name, and all that one can set on it. No two settings have one name.

    axes: axis name -> default choice.
    numbers: name -> `variants.Number`, those that the trainer reads itself. Those that the choices
        of its axes read need not be listed.
    defaults: name -> default of a number that choices read, where it differs from theirs.
    structure: name -> Option.
    neutral: axis -> choice, of axes that joined later: the choice under which the trainer does what
        it did before. Configurations leave the axis out there, so that no result of before is
        renamed; numbers and options say the same of themselves.
    unread(composition) -> the axes, numbers and options of the tables above that a `Composition`
        does not read, and why, in words.
    compiles(structure) -> axes whose choice is compiled in with this structure, beside those that
        are structural; None: no other.
    make(task, settings, structure, updates_per_chunk, evaluation_envs, choices) -> Trainer: `task`
        is an `ablations.tasks.Task`, `settings` and `structure` are resolved, `choices` names those
        of the axes that this program fixes (usually none).
    refuses(task) -> why it cannot train on a task at all, in words, [] where it can.
    check(structure, numbers, settings) -> complaints in words, [] when all is well. It is given
        what is read.
    iteration_steps(structure) -> steps of one iteration, in `step_unit`.
    step_unit: what the step of a curve counts, in the singular: "environment step".
    ranked_by: the column by which its policies are better or worse, where a run has evaluations and
        where it has none.
    revision: bumped when the meaning of the trainer changes; part of every cell's hash.
    """

    name: str
    axes: Mapping[str, str]
    numbers: Mapping[str, Number]
    structure: Mapping[str, Option]
    make: Callable[..., Trainer]
    iteration_steps: Callable[..., int]
    defaults: Mapping[str, float] = field(default_factory=dict)
    neutral: Mapping[str, str] = field(default_factory=dict)
    unread: Callable[..., Mapping[str, str]] = field(default=lambda composition: {})
    compiles: Callable[..., Collection[str]] | None = None
    refuses: Callable[[Task], list[str]] = field(default=lambda task: [])
    check: Callable[..., list[str]] = field(default=lambda **_: [])
    ranked_by: tuple[str, str] = ("evaluation/return", "training/return")
    step_unit: str = "environment step"
    revision: int = 1
    summary: str = ""

    def known_numbers(self) -> dict[str, Number]:
        """Return every number that some composition of this trainer reads, with its default."""
        from ablations.trainers import composition

        return composition.known_numbers(self)

    @property
    def settings(self) -> set[str]:
        """The names of all that one can set on it."""
        from ablations.trainers import composition

        return {*composition.known_settings(self)}

    def reads(self, of: Composition) -> frozenset[str]:
        """Return the axes, numbers and options that a composition reads, whatever their values."""
        from ablations.trainers import composition

        return composition.reads(self, of)

    def resolve(self, task: Task, values: Settings, more: Collection[str] = ()) -> Configuration:
        """Return the values over the defaults as one configuration; see `composition.resolve`."""
        from ablations.trainers import composition

        return composition.resolve(task, self, values, more)

    def completed(self, config: Configuration) -> Configuration:
        """Return a configuration with the details that it leaves out, as they are neutral."""
        from ablations.trainers import composition

        return composition.completed(self, config)

    def inert(self, config: Configuration, names: Collection[str]) -> dict[str, str]:
        """Return which of the names cannot act in a configuration, and why.

        It does not read them, or to no effect. Names that the trainer does not know are passed
        over.
        """
        from ablations.trainers import composition

        return composition.inert(self, config, names)

    def compiled_in(
        self, config: Configuration, varied: Collection[str] | None = None
    ) -> tuple[str, ...]:
        """Return the axes whose choice is part of a configuration's program, instead of data."""
        from ablations.trainers import composition

        return composition.compiled_in(self, config, varied)

    def formulas(
        self, chosen: Mapping[str, Mapping[str, str]], sets: Mapping[str, Collection[str]]
    ) -> dict[str, dict[str, Formula]]:
        """Return the formulas of the choices of variants; see `composition.formulas`."""
        from ablations.trainers import composition

        return composition.formulas(chosen, sets)

    def task(self, name: str) -> Task:
        """Return a task by its name. Raises UserError."""
        return tasks.task(name)

    def schedule(
        self,
        config: Configuration,
        *,
        steps: int,
        points: int,
        evaluations: int,
        evaluation_envs: int,
    ) -> Run:
        """Return how a configuration trains for so many steps, rounded up.

        Its chunks are of equal length, so that one compiled program serves them all.
        """
        iteration_steps = self.iteration_steps(self.completed(config)["structure"])
        iterations = math.ceil(steps / iteration_steps)
        updates = max(1, round(iterations / points))
        points = math.ceil(iterations / updates)
        return {
            "iteration_steps": iteration_steps,
            "updates_per_chunk": updates,
            "points": points,
            "evaluations": min(evaluations, points),
            "evaluation_envs": evaluation_envs if evaluations else 0,
        }

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> ProgramName:
        """Return what names the program of a configuration: all of it that is not data.

        varied: the axes that its plan varies, see `compiled_in`.
        """
        run = config["run"]
        fixed = self.compiled_in(config, varied)
        name: ProgramName = {
            "trainer": config["trainer"],
            "task": self.task(config["task"]["name"]).program(config["task"]["settings"]),
            "structure": config["structure"],
            "updates_per_chunk": run["updates_per_chunk"],
            "evaluation_envs": run["evaluation_envs"],
            "compiled_in": {
                axis: config["choices"][axis]
                for axis in fixed
                if axis in config["choices"]  # else it is neutral, and names nothing
            },
        }
        if varied is not None:
            name["switched"] = sorted(set(varied) - set(fixed))
        return name

    def place(self, config: Configuration) -> Context:
        """Return nothing: a program runs anywhere."""
        return {}

    def data(self, config: Configuration) -> Variant:
        """Return a configuration as its program's data, what it does not read at its default."""
        from ablations.trainers import composition

        return composition.data(self, config)


# What planning asks to turn settings into configurations: of programs, or of a user's command.
Composer: TypeAlias = "Definition | CommandTrainer"
# Imported when they are asked for: they import the registry, and with it JAX.
BUILT_IN = {
    "ppo": "ablations.trainers.control.settings",
    "pqn": "ablations.trainers.control.pqn_settings",
    "language": "ablations.trainers.language.settings",
    "command": "ablations.trainers.command",
    "trivial": "ablations.trainers.trivial",
}
_REGISTERED: dict[str, Definition] = {}


def register(definition: Definition, *, again: bool = False) -> Definition:
    """Make a trainer known to every command. again: in place of one of its name."""
    if definition.name in BUILT_IN or (definition.name in _REGISTERED and not again):
        raise UserError(f"trainer '{definition.name}' is registered twice: choose another name")
    _REGISTERED[definition.name] = definition
    return definition


def trainers() -> Mapping[str, Definition]:
    """Return all trainers by name."""
    return {name: trainer(name) for name in (*BUILT_IN, *_REGISTERED)}


def trainer(name: str) -> Definition:
    """Return the trainer of that name. Raises UserError."""
    if name in BUILT_IN:
        built_in: Definition = importlib.import_module(BUILT_IN[name]).DEFINITION
        return built_in
    if name not in _REGISTERED:
        raise unknown("trainer", name, [*BUILT_IN, *_REGISTERED])
    return _REGISTERED[name]


def composer(of: str | Composer) -> Composer:
    """Return the trainer of a study, which names one or brings its own."""
    return trainer(of) if isinstance(of, str) else of

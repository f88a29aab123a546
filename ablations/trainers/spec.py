"""Specification of a trainer: its hyperparameters, and their way into configurations and programs.

A trainer declares each hyperparameter once, as a field of a dataclass:

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        advantage: str = component("standard")              # an axis with its default choice
        learning_rate: float = number(3e-4, 0.0, 1.0, "…")  # a number of the trainer
        discount: float = number_default(0.97)              # default of a number of some choice
        epochs: int = static(4, "passes over a batch", low=1)

Components and numbers are data of a compiled program (`TracedConfig`); static settings are compiled
in. Importing this starts neither JAX nor the registry.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from ablations import tasks
from ablations.core.decode import Json
from ablations.core.plan import Context, Formula, Settings
from ablations.core.record import Configuration, Run
from ablations.errors import UserError, unknown
from ablations.tasks.task import Task
from ablations.trainers import values as checked
from ablations.trainers.trainer import Option, ResolvedSettings, TracedConfig, Trainer

if TYPE_CHECKING:
    from variants import Axis, Number

T = TypeVar("T")
PARTS: Final = ("choices", "numbers", "structure")  # of a configuration


def component(default: str, *, neutral: str | None = None) -> Any:
    """Declare an axis that the trainer reads.

    neutral: for an axis that was added later, the compatible default. At this choice the trainer
        does what it did before, and configurations leave the axis out, so that hashes stay.
    """
    return field(default=default, metadata={"kind": "component", "neutral": neutral})


def number(
    default: float, low: float, high: float, summary: str, *, neutral: float | None = None
) -> Any:
    """Declare a traced number, with the arguments of `variants.Number`."""
    about = (default, low, high, summary, neutral)
    return field(default=default, metadata={"kind": "number", "about": about})


def number_default(default: float) -> Any:
    """Declare this trainer's default of a number that choices of its axes declare."""
    return field(default=default, metadata={"kind": "number_default"})


def static(
    default: Json,
    summary: str,
    allowed: tuple[Json, ...] | None = None,
    *,
    low: float | None = None,
    neutral: Json = None,
) -> Any:
    """Declare a static setting, with the arguments of `Option`. A tuple is a list of counts."""
    plain = list(default) if isinstance(default, tuple) else default
    option = Option(plain, summary, allowed, low, neutral)
    return field(default=default, metadata={"kind": "static", "about": option})


@dataclass(frozen=True)
class NoSettings:
    """The settings of a trainer without settings."""


def _memoised(method: Callable[[TrainerSpec], T]) -> Callable[[TrainerSpec], T]:
    """Memoise a method of a trainer, computed again after a plugin registered a number."""

    @wraps(method)
    def remembered(spec: TrainerSpec) -> T:
        counts = [len(axis.known_numbers) for axis in spec._axes]
        memo = spec.__dict__.setdefault("_memo", {})
        if memo.get(method, (None, None))[0] != counts:
            memo[method] = (counts, method(spec))
        value: T = memo[method][1]
        return value

    return remembered


@dataclass(frozen=True)
class TrainerSpec:
    """A trainer with its settings, whose names are all different.

    make: (task, settings, structure, updates_per_chunk, evaluation_envs, choices) -> Trainer, from
        a `Task`, its settings, the static settings, and the choices that are compiled in.
    iteration_steps: (structure) -> steps of one iteration, in `step_unit`.
    hyperparameters: a dataclass with fields from the functions above.
    unread: (resolved) -> settings without an effect in these `ResolvedSettings`: name -> reason.
    compiles: (structure) -> axes that are compiled in beside the structural ones.
    refuses: (task) -> reasons why it cannot train on a task.
    check: (structure, settings) -> complaints about settings.
    ranked_by: the column that ranks policies of runs with evaluations, and of runs without.
    step_unit: the unit of a curve's steps, in the singular.
    revision: raised when the meaning of the trainer changes; part of every run's hash.
    """

    name: str
    make: Callable[..., Trainer]
    iteration_steps: Callable[..., int]
    hyperparameters: type = NoSettings
    unread: Callable[..., Mapping[str, str]] = field(default=lambda resolved: {})
    compiles: Callable[..., Collection[str]] = field(default=lambda structure: ())
    refuses: Callable[[Task], list[str]] = field(default=lambda task: [])
    check: Callable[..., list[str]] = field(default=lambda **_: [])
    ranked_by: tuple[str, str] = ("evaluation/return", "training/return")
    step_unit: str = "environment step"
    revision: int = 1
    summary: str = ""

    def __post_init__(self) -> None:
        """Raise UserError for a hyperparameter that no function of this module declares."""
        for one in fields(self.hyperparameters):
            if "kind" not in one.metadata:
                raise UserError(
                    f"'{one.name}' of trainer '{self.name}' is not declared: make it component(), "
                    f"number(), number_default() or static()"
                )

    def _declared(self, kind: str, about: str) -> dict[str, Any]:
        return {
            one.name: one.default if about == "default" else one.metadata[about]
            for one in fields(self.hyperparameters)
            if one.metadata["kind"] == kind
        }

    @cached_property
    def axes(self) -> dict[str, str]:
        """Axis -> default choice."""
        return self._declared("component", "default")

    @cached_property
    def _axes(self) -> list[Axis]:
        return [_axis(name) for name in self.axes]

    @cached_property
    def numbers(self) -> dict[str, Number]:
        """The trainer's own numbers."""
        declared = self._declared("number", "about")
        return {name: _number(*about) for name, about in declared.items()}

    @cached_property
    def defaults(self) -> dict[str, float]:
        """The trainer's defaults of numbers that choices declare."""
        return self._declared("number_default", "default")

    @cached_property
    def structure(self) -> dict[str, Option]:
        """Its static settings."""
        return self._declared("static", "about")

    @cached_property
    def neutral(self) -> dict[str, str]:
        """Axis -> compatible default, for axes that have one."""
        neutral = self._declared("component", "neutral")
        return {axis: choice for axis, choice in neutral.items() if choice is not None}

    @_memoised
    def known_numbers(self) -> dict[str, Number]:
        """Return the numbers of the trainer and of its choices, with the trainer's defaults.

        Raises UserError for a name with two meanings, or for a default of an unknown number.
        """
        known = dict(self.numbers)
        for axis in self._axes:
            for name, declared in axis.known_numbers.items():
                if name in self.axes or name in self.structure:
                    raise UserError(
                        f"trainer '{self.name}' has a setting '{name}', so a number of a choice of "
                        f"{axis.name} needs another name"
                    )
                default = _within(name, self.defaults.get(name, declared.default), declared)
                mine = (
                    declared if default is declared.default else replace(declared, default=default)
                )
                other = known.setdefault(name, mine)
                if other is not mine and replace(mine, summary=other.summary) != other:
                    raise UserError(
                        f"the number '{name}' of {axis.name} means something else elsewhere in the "
                        f"trainer '{self.name}': {_range(mine)} and {_range(other)}"
                    )
        for name in self.defaults:
            if name not in known:
                raise unknown(f"number that choices of '{self.name}' read", name, known)
        return known

    @property
    @_memoised
    def settings(self) -> Set[str]:
        """The names of all its settings, in order."""
        of_axes = (name for axis in self._axes for name in axis.known_numbers)
        return dict.fromkeys([*self.axes, *self.numbers, *of_axes, *self.structure]).keys()

    def reads(self, resolved: ResolvedSettings) -> frozenset[str]:
        """Return the names of the axes, numbers and static settings that are read."""
        own = {*self.axes, *self.numbers, *self.structure} - self.unread(resolved).keys()
        used = [_axis(axis)[resolved.choices[axis]] for axis in self.axes if axis in own]
        return frozenset(own.union(*(choice.numbers for choice in used)))

    def resolve(self, task: Task, values: Settings, more: Collection[str] = ()) -> Configuration:
        """Return a configuration without seed and run, from values over the defaults.

        It contains the settings that are read and differ from their compatible defaults. Unread
        values are checked and left out.

        more: further allowed names, which are ignored. Raises UserError for an unknown name, a
            value out of range or an invalid combination.
        """
        import variants

        numbers = self.known_numbers()
        known = [*self.axes, *numbers, *self.structure, *task.settings, *more]
        for name in values:
            if name not in known:
                raise self._unknown(name, known)

        choices = {
            name: choice_named(name, values.get(name, default))
            for name, default in self.axes.items()
        }
        valued = {
            name: _within(name, values.get(name, n.default), n) for name, n in numbers.items()
        }
        structure = {
            name: checked.option(name, values.get(name, option.default), option)
            for name, option in self.structure.items()
        }
        settings = {
            name: checked.like(name, values.get(name, default), default)
            for name, default in task.settings.items()
        }
        read = self.reads(ResolvedSettings(task, settings, structure, choices))
        config: Configuration = {
            "trainer": {"name": self.name, "revision": self.revision},
            "task": {"name": task.name, "revision": task.revision, "settings": settings},
            "choices": {
                name: {"name": choice, "revision": _axis(name)[choice].revision}
                for name, choice in choices.items()
                if name in read
            },
            "numbers": {name: value for name, value in valued.items() if name in read},
            "structure": {name: value for name, value in structure.items() if name in read},
        }
        complaints = [
            *self.refuses(task),
            *variants.conflicts(_named_values(config, task)),
            *task.check(settings),
            *self.check(structure=config["structure"], settings=settings),
        ]
        if complaints:
            raise UserError("; ".join(dict.fromkeys(complaints)))
        config["task"]["settings"] = _without(task.neutral, settings)
        left_out: Any = self.neutral_values()
        parts: Any = {name: _without(left_out[name], config[name]) for name in PARTS}
        whole: Configuration = {**config, **parts}
        return whole

    def _unknown(self, name: str, known: Collection[str]) -> UserError:
        """Return the error for a name that is not a setting."""
        name = checked.FIELD_NAMES.get(name, name)
        readers = [f"'{spec.name}'" for spec in trainers().values() if name in spec.settings]
        if readers:
            return UserError(f"'{name}' belongs to {' and '.join(readers)}, not to '{self.name}'")
        return unread(name, known)

    @_memoised
    def neutral_values(self) -> Configuration:
        """Return the compatible defaults that a configuration leaves out, by part.

        Choices have revision 1: at a later revision a choice is not the earlier behaviour. Raises
        UserError for an unknown choice.
        """
        numbers = dict(self.numbers)
        for axis in self._axes:
            numbers |= axis.known_numbers
        choices: Any = {
            axis: {"name": choice_named(axis, name), "revision": 1}
            for axis, name in self.neutral.items()
        }
        return {
            "choices": choices,
            "numbers": {n: x.neutral for n, x in numbers.items() if x.neutral is not None},
            "structure": {n: x.neutral for n, x in self.structure.items() if x.neutral is not None},
        }

    def completed(self, config: Configuration) -> Configuration:
        """Return a configuration with the compatible defaults that it reads and leaves out."""
        about = config["task"]
        settings = self.task(about["name"]).completed(about["settings"])
        config = {**config, "task": {**about, "settings": settings}}
        left_out = self.neutral_values()
        if not any(left_out.values()):
            return config
        read = self.reads(self._resolved(config, left_out))
        known = self.settings

        def whole(neutral: Mapping[str, T], given: Mapping[str, T]) -> dict[str, T]:
            values = {**neutral, **given}
            return {
                name: values[name]
                for name in dict.fromkeys([*known, *values])
                if name in given or (name in values and name in read)
            }

        parts: Any = {name: whole(left_out[name], config[name]) for name in PARTS}
        complete: Configuration = {**config, **parts}
        return complete

    def _resolved(self, config: Configuration, left_out: Configuration) -> ResolvedSettings:
        """Return the settings of a configuration whose task settings are complete."""
        about = config["task"]
        options = {name: option.default for name, option in self.structure.items()}
        made = {**left_out["choices"], **config["choices"]}
        choices = {axis: choice_named(axis, choice["name"]) for axis, choice in made.items()}
        return ResolvedSettings(
            self.task(about["name"]),
            about["settings"],
            {**options, **left_out["structure"], **config["structure"]},
            {**self.axes, **choices},
        )

    def inert(self, config: Configuration, names: Collection[str]) -> dict[str, str]:
        """Return the names without an effect in a configuration: name -> reason.

        Names that are unknown to the trainer are ignored.
        """
        import variants

        known = self.settings
        config = self.completed(config)
        read = {*config["choices"], *config["numbers"], *config["structure"]}
        task = self.task(config["task"]["name"])
        reasons = variants.inert_settings(_named_values(config, task))
        of_names = self.unread(self._resolved(config, self.neutral_values()))
        unread = dict.fromkeys(known, "nothing in this composition reads it")
        for axis, reason in of_names.items():
            if axis in self.axes:
                unread |= dict.fromkeys(_axis(axis).known_numbers, reason)
        unread |= of_names
        reasons |= {name: unread[name] for name in known - read}
        return {name: reasons[name] for name in names if name in reasons}

    def compiled_in(
        self, config: Configuration, varied: Collection[str] | None = None
    ) -> tuple[str, ...]:
        """Return the axes that are compiled into a configuration's program.

        varied: the axes that a plan varies; they are data, unless they are structural or
            `compiles` returns them. None: all axes.
        """
        config = self.completed(config)
        fixed = {axis.name for axis in self._axes if axis.structural}
        fixed |= {*self.compiles(config["structure"])}
        if varied is not None:
            fixed |= config["choices"].keys() - {*varied}
        return tuple(name for name in config["choices"] if name in fixed)

    def formulas(
        self, chosen: Mapping[str, Mapping[str, str]], sets: Mapping[str, Collection[str]]
    ) -> dict[str, dict[str, Formula]]:
        """Return variant -> axis -> formula, for axes that a variant sets or that differ.

        chosen: variant -> axis -> choice. sets: variant -> names of the settings that it sets.
        """
        import variants

        axes = [
            axis
            for axis in variants.axes()
            if any(axis in sets[name] for name in chosen)
            or len({choices.get(axis) for choices in chosen.values()}) > 1
        ]
        return {
            name: {
                axis: Formula(choice.name, choice.summary, choice.formula, choice.source)
                for axis in axes
                if axis in choices
                for choice in [_axis(axis)[choices[axis]]]
            }
            for name, choices in chosen.items()
        }

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
        """Return the schedule of a run of at least `steps` steps, in chunks of equal length."""
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

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> Settings:
        """Return the parts of a configuration that identify its program.

        varied: the axes that the plan varies, see `compiled_in`.
        """
        run = config["run"]
        fixed = self.compiled_in(config, varied)
        name: dict[str, Any] = {
            "trainer": config["trainer"],
            "task": self.task(config["task"]["name"]).program(config["task"]["settings"]),
            "structure": config["structure"],
            "updates_per_chunk": run["updates_per_chunk"],
            "evaluation_envs": run["evaluation_envs"],
            "compiled_in": {
                axis: config["choices"][axis]
                for axis in fixed
                if axis in config["choices"]  # left out at its compatible default
            },
        }
        if varied is not None:
            name["switched"] = sorted(set(varied) - set(fixed))
        return name

    def place(self, config: Configuration) -> Context:
        """Return nothing: a program runs in any folder."""
        return {}

    def data(self, config: Configuration) -> TracedConfig:
        """Return a configuration as data of its program; unread settings have their defaults."""
        config = self.completed(config)
        choices = {name: choice["name"] for name, choice in config["choices"].items()}
        numbers = {name: number.default for name, number in self.known_numbers().items()}
        of_task = config["task"]
        return TracedConfig(
            choices={
                name: np.int32(_axis(name).index(choice))
                for name, choice in {**self.axes, **choices}.items()
            },
            numbers={
                name: np.float32(value) for name, value in {**numbers, **config["numbers"]}.items()
            },
            task={
                name: as_array(of_task["settings"][name])
                for name, as_array in tasks.task(of_task["name"]).data.items()
            },
        )


def every_setting() -> set[str]:
    """Return the names of the settings of all trainers."""
    return {name for spec in trainers().values() for name in spec.settings}


def unread(name: str, known: Collection[str]) -> UserError:
    """Return the error for a name that no trainer reads."""
    import variants

    if name not in variants.axes():
        return unknown("setting", name, known)
    return UserError(
        f"no trainer reads the component '{name}': declare it in a trainer's settings with "
        f"component(), or call its choices yourself"
    )


def choice_named(axis: str, name: Json) -> str:
    """Return a name if the axis has that choice, else raise UserError."""
    try:
        return _axis(axis)[name if isinstance(name, str) else repr(name)].name
    except KeyError as error:
        raise UserError(str(error)) from None


def _axis(name: str) -> Axis:
    import variants

    return variants.axis(name)


def _number(*about: Any) -> Number:
    import variants

    return variants.Number(*about)


def _without(neutral: Mapping[str, T], values: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in values.items() if neutral.get(name) != value}


def _named_values(config: Configuration, task: Task) -> dict[str, str | float]:
    """Return the settings by name, for rules; discrete: whether actions are integers."""
    settings = {**config["task"]["settings"], **config["structure"], **config["numbers"]}
    return {
        "discrete": task.discrete,
        **{name: value for name, value in settings.items() if isinstance(value, int | float)},
        **{name: choice["name"] for name, choice in config["choices"].items()},
    }


def _within(name: str, value: Json, of: Number) -> float:
    return checked.number(name, value, of.low, of.high)


def _range(number: Number) -> str:
    return f"{number.default:g} within {number.low:g} to {number.high:g}"


# Imported on demand, since they import JAX.
BUILT_IN = {
    "ppo": "ablations.trainers.control.ppo",
    "pqn": "ablations.trainers.control.pqn",
    "language": "ablations.trainers.language.trainer",
    "command": "ablations.trainers.command",
    "trivial": "ablations.trainers.untrained",
}
_REGISTERED: dict[str, TrainerSpec] = {}


def register(spec: TrainerSpec, *, again: bool = False) -> TrainerSpec:
    """Register a trainer for all commands. again: replace a trainer of the same name."""
    if spec.name in BUILT_IN or (spec.name in _REGISTERED and not again):
        raise UserError(f"trainer '{spec.name}' is registered twice: choose another name")
    _REGISTERED[spec.name] = spec
    return spec


def trainers() -> Mapping[str, TrainerSpec]:
    """Return all trainers by name."""
    return {name: trainer(name) for name in (*BUILT_IN, *_REGISTERED)}


def trainer(name: str) -> TrainerSpec:
    """Return the trainer of that name. Raises UserError."""
    if name in BUILT_IN:
        return _built_in(name)
    if name not in _REGISTERED:
        raise unknown("trainer", name, [*BUILT_IN, *_REGISTERED])
    return _REGISTERED[name]


def _built_in(name: str) -> TrainerSpec:
    module = BUILT_IN[name]
    if name == "command":
        importlib.import_module(module)
    elif module not in sys.modules:
        from variants.absent import stand_in

        with stand_in("jax", "flax", "optax"):
            importlib.import_module(module)
    spec: TrainerSpec = sys.modules[module].SPEC
    return spec


def composer(of: str | TrainerSpec) -> TrainerSpec:
    """Return the trainer of a study, given by name or as itself."""
    return trainer(of) if isinstance(of, str) else of

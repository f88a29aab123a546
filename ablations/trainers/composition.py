"""A composition: every setting that one run reads, but for its seed and its length."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

import variants as registry
from ablations.core.decode import Json
from ablations.core.plan import Formula, Settings
from ablations.core.record import Configuration
from ablations.errors import UserError, unknown
from ablations.tasks import Task, task
from ablations.trainers.trainer import Composition, Variant
from ablations.trainers.values import like, number, option
from variants import Number

if TYPE_CHECKING:
    from ablations.trainers.definition import Definition

T = TypeVar("T")


def known_numbers(definition: Definition) -> dict[str, Number]:
    """Return every number that some composition of a trainer reads, with the trainer's default.

    Raises UserError where a name has two meanings, or the trainer a default of nothing.
    """
    found = dict(definition.numbers)
    for axis in definition.axes:
        for name, one in registry.axis(axis).known_numbers.items():
            if name in definition.axes or name in definition.structure:
                raise UserError(
                    f"trainer '{definition.name}' has a setting '{name}', which a choice of "
                    f"{axis} cannot bring as a number: give it another name"
                )
            default = _within(name, definition.defaults.get(name, one.default), one)
            mine = one if default is one.default else replace(one, default=default)
            other = found.setdefault(name, mine)
            if other is not mine and replace(mine, summary=other.summary) != other:
                raise UserError(
                    f"the number '{name}' of {axis} means something else elsewhere in the trainer "
                    f"'{definition.name}': {_range(mine)} and {_range(other)}"
                )
    for name in definition.defaults:
        if name not in found or name in definition.numbers:
            raise unknown(f"number that choices of '{definition.name}' read", name, found)
    return found


def known_settings(definition: Definition) -> tuple[str, ...]:
    """Return the names of all that one can set on a trainer: axes, numbers, structure."""
    of_axes = (name for axis in definition.axes for name in registry.axis(axis).known_numbers)
    found = [*definition.axes, *definition.numbers, *of_axes, *definition.structure]
    return tuple(dict.fromkeys(found))


def reads(definition: Definition, of: Composition) -> frozenset[str]:
    """Return the names that decide what a composition does: axes, numbers, options."""
    own = {*definition.axes, *definition.numbers, *definition.structure}
    own -= definition.unread(of).keys()
    used = [registry.axis(axis)[of.choices[axis]] for axis in definition.axes if axis in own]
    return frozenset(own.union(*(choice.numbers for choice in used)))


def resolve(
    task: Task, definition: Definition, values: Settings, more: Collection[str] = ()
) -> Configuration:
    """Return a configuration without its seed and its run: the values over the defaults, checked.

    Of choices, numbers and structure it has what the composition reads and what is not neutral.

    more: names among the values that are none of the trainer's or the task's, and left alone.
    Raises UserError for a name that nothing has, a value out of range, a combination that makes no
    sense. A value that is not read is checked, and left out.
    """
    numbers = known_numbers(definition)
    known = [*definition.axes, *numbers, *definition.structure, *task.settings, *more]
    for name in values:
        if name not in known:
            raise unknown("setting", name, known)

    choices = {
        name: choice_named(name, values.get(name, default))
        for name, default in definition.axes.items()
    }
    valued = {name: _within(name, values.get(name, n.default), n) for name, n in numbers.items()}
    structure = {
        name: option(name, values.get(name, one.default), one)
        for name, one in definition.structure.items()
    }
    settings = {
        name: like(name, values.get(name, default), default)
        for name, default in task.settings.items()
    }
    read = reads(definition, Composition(task, settings, structure, choices))
    config: Configuration = {
        "trainer": {"name": definition.name, "revision": definition.revision},
        "task": {"name": task.name, "revision": task.revision, "settings": settings},
        "choices": {
            name: {"name": choice, "revision": registry.axis(name)[choice].revision}
            for name, choice in choices.items()
            if name in read
        },
        "numbers": {name: value for name, value in valued.items() if name in read},
        "structure": {name: value for name, value in structure.items() if name in read},
    }
    complaints = [
        *definition.refuses(task),
        *registry.conflicts(_seen_by_rules(config, task)),
        *task.check(settings),
        *definition.check(
            structure=config["structure"], numbers=config["numbers"], settings=settings
        ),
    ]
    if complaints:
        raise UserError("; ".join(dict.fromkeys(complaints)))
    left_out = neutral(definition)
    config["task"]["settings"] = _without(task.neutral, settings)
    config["choices"] = _without(left_out["choices"], config["choices"])
    config["numbers"] = _without(left_out["numbers"], config["numbers"])
    config["structure"] = _without(left_out["structure"], config["structure"])
    return config


def _without(neutral: Mapping[str, T], values: Mapping[str, T]) -> dict[str, T]:
    return {name: one for name, one in values.items() if neutral.get(name) != one}


def neutral(definition: Definition) -> Configuration:
    """Return the details that a configuration leaves out, by part and as they would stand in it.

    A choice whose revision was bumped is no longer what a trainer did before it had the axis.
    Raises UserError for an axis or a choice that is not there.
    """
    for name in definition.neutral:
        if name not in definition.axes:
            raise unknown(f"axis of '{definition.name}'", name, definition.axes)
    numbers = dict(definition.numbers)
    for axis in definition.axes:
        numbers |= registry.axis(axis).known_numbers
    return {
        "choices": {
            axis: {"name": choice_named(axis, name), "revision": 1}
            for axis, name in definition.neutral.items()
        },
        "numbers": {
            name: float(one.neutral) for name, one in numbers.items() if one.neutral is not None
        },
        "structure": {
            name: option(name, one.neutral, one)
            for name, one in definition.structure.items()
            if one.neutral is not None
        },
    }


def completed(definition: Definition, config: Configuration) -> Configuration:
    """Return a configuration with what it reads and leaves out, as `resolve` saw it."""
    about = config["task"]
    task = definition.task(about["name"])
    settings = task.completed(about["settings"])
    config = {**config, "task": {**about, "settings": settings}}
    left_out = neutral(definition)
    if not any(left_out.values()):
        return config
    read = reads(definition, _composition(definition, config, left_out))
    known = known_settings(definition)

    def whole(neutral: Mapping[str, T], given: Mapping[str, T]) -> dict[str, T]:
        values = {**neutral, **given}
        return {
            name: values[name]
            for name in dict.fromkeys([*known, *values])
            if name in given or (name in values and name in read)
        }

    return {
        **config,
        "choices": whole(left_out["choices"], config["choices"]),
        "numbers": whole(left_out["numbers"], config["numbers"]),
        "structure": whole(left_out["structure"], config["structure"]),
    }


def _composition(
    definition: Definition, config: Configuration, left_out: Configuration
) -> Composition:
    """Return the composition of a configuration, its task's settings completed."""
    about = config["task"]
    options = {name: one.default for name, one in definition.structure.items()}
    made = {**left_out["choices"], **config["choices"]}
    return Composition(
        definition.task(about["name"]),
        about["settings"],
        {**options, **left_out["structure"], **config["structure"]},
        {
            **definition.axes,
            **{axis: choice_named(axis, one["name"]) for axis, one in made.items()},
        },
    )


def inert(definition: Definition, config: Configuration, names: Collection[str]) -> dict[str, str]:
    """Return those of the names that cannot act in a configuration, and why."""
    known = definition.settings
    config = completed(definition, config)
    read = {*config["choices"], *config["numbers"], *config["structure"]}
    of = definition.task(config["task"]["name"])
    reasons = registry.inert_settings(_seen_by_rules(config, of))
    unread = _unread(definition, config)
    found = {}
    for name in names:
        if name in known and name not in read:
            found[name] = unread.get(name, "nothing in this composition reads it")
        elif name in reasons:
            found[name] = reasons[name]
    return found


def _unread(definition: Definition, config: Configuration) -> dict[str, str]:
    """Return what a configuration does not read and why, the numbers of its unread axes too."""
    reasons = definition.unread(_composition(definition, config, neutral(definition)))
    of_axes = {
        number: reason
        for axis, reason in reasons.items()
        if axis in definition.axes
        for number in registry.axis(axis).known_numbers
    }
    return {**of_axes, **reasons}


def compiled_in(
    definition: Definition, config: Configuration, varied: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return the axes whose choice is compiled in: all but those that may be data.

    varied: the axes in which the cells of a plan differ; None: any. Of these, structural ones and
    those that the structure asks for are compiled in as well.
    """
    config = completed(definition, config)
    asked = definition.compiles(config["structure"]) if definition.compiles else ()
    return tuple(
        name
        for name in config["choices"]
        if registry.axis(name).structural
        or name in asked
        or (varied is not None and name not in varied)
    )


def data(definition: Definition, config: Configuration) -> Variant:
    """Return a configuration as the data of its program.

    What it does not read is at its default, so that all configurations of a program have data of
    one shape.
    """
    config = completed(definition, config)
    choices = {name: one["name"] for name, one in config["choices"].items()}
    numbers = {name: one.default for name, one in known_numbers(definition).items()}
    return Variant(
        choices={
            name: np.int32(registry.axis(name).index(choice))
            for name, choice in {**definition.axes, **choices}.items()
        },
        numbers={
            name: np.float32(value) for name, value in {**numbers, **config["numbers"]}.items()
        },
        task={
            name: as_array(config["task"]["settings"][name])
            for name, as_array in task(config["task"]["name"]).data.items()
        },
    )


def _seen_by_rules(config: Configuration, task: Task) -> dict[str, str | float]:
    """Return choices, counts and numbers by name, such as samples_per_prompt, for rules.

    discrete: whether the task's actions are whole numbers.
    """
    settings = {**config["task"]["settings"], **config["structure"], **config["numbers"]}
    return {
        "discrete": task.discrete,
        **{name: value for name, value in settings.items() if isinstance(value, int | float)},
        **{name: choice["name"] for name, choice in config["choices"].items()},
    }


def formulas(
    chosen: Mapping[str, Mapping[str, str]], sets: Mapping[str, Collection[str]]
) -> dict[str, dict[str, Formula]]:
    """Return the formulas of the axes that variants set or in which they differ, by variant.

    `report` prints them and never imports the registry.

    chosen: variant -> axis -> choice. sets: variant -> the names that it sets.
    """
    axes = [
        axis
        for axis in registry.axes()
        if any(axis in sets[name] for name in chosen)
        or len({one.get(axis) for one in chosen.values()}) > 1
    ]
    return {
        name: {
            axis: Formula(choice.name, choice.summary, choice.formula, choice.source)
            for axis in axes
            if axis in choices
            for choice in [registry.axis(axis)[choices[axis]]]
        }
        for name, choices in chosen.items()
    }


def choice_named(axis: str, name: Json) -> str:
    """Return the name of a choice that an axis has. Raises UserError."""
    try:
        return registry.axis(axis)[name if isinstance(name, str) else repr(name)].name
    except registry.UnknownName as error:
        raise UserError(str(error)) from None


def _within(name: str, value: Json, of: Number) -> float:
    return number(name, value, of.low, of.high)


def _range(number: Number) -> str:
    return f"{number.default:g} within {number.low:g} to {number.high:g}"

"""Every setting of one run, but for its seed and its length, resolved and checked."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

import variants as registry
from ablations.errors import UserError, unknown
from ablations.tasks import Task
from ablations.trainers.trainer import Definition


def resolve(
    task: Task, definition: Definition, values: Mapping[str, Any], more: Collection[str] = ()
) -> dict[str, Any]:
    """One configuration, without its seed and how long it runs: the values over the defaults,
    checked.

    more: names among the values that are none of the trainer's or the task's, and left alone.
    Raises UserError for a name that nothing has, a value out of range, a combination that makes no
    sense.
    """
    known = [
        *definition.axes,
        *definition.coefficients,
        *definition.structure,
        *task.settings,
        *more,
    ]
    for name in values:
        if name not in known:
            raise unknown("setting", name, known)

    choices = {
        name: _choice(name, values.get(name, default)) for name, default in definition.axes.items()
    }
    coefficients = {
        name: _number(name, values.get(name, one.default), one.low, one.high)
        for name, one in definition.coefficients.items()
    }
    structure = {
        name: _option(name, values.get(name, one.default), one)
        for name, one in definition.structure.items()
    }
    settings = {name: values.get(name, default) for name, default in task.settings.items()}
    for name, default in task.settings.items():
        settings[name] = _like(name, settings[name], default)
    # Rules name the counts and numbers that they look at, such as samples_per_prompt.
    numbers = {
        name: value
        for name, value in {**coefficients, **structure, **settings}.items()
        if isinstance(value, int | float)
    }
    complaints = [
        *registry.conflicts({**numbers, **choices}),
        *task.check(settings),
        *definition.check(structure=structure, coefficients=coefficients, settings=settings),
    ]
    if complaints:
        raise UserError("; ".join(complaints))
    return {
        "trainer": {"name": definition.name, "revision": definition.revision},
        "task": {"name": task.name, "revision": task.revision, "settings": settings},
        "choices": {
            name: {"name": choice, "revision": registry.axis(name)[choice].revision}
            for name, choice in choices.items()
        },
        "coefficients": coefficients,
        "structure": structure,
    }


def fixed_axes(config: Mapping[str, Any], *, accelerator: bool) -> tuple[str, ...]:
    """Axes whose choice is compiled in. Under vmap every lane pays for every branch of a switch, so
    an accelerator gets one program per choice of those declared `specialise`; a single lane only
    pays for the branch that it takes."""
    if not accelerator:
        return ()
    return tuple(name for name in config["choices"] if registry.axis(name).specialise)


def formulas(
    chosen: Mapping[str, Mapping[str, str]], sets: Mapping[str, Collection[str]]
) -> dict[str, dict[str, dict[str, str]]]:
    """variant -> axis -> choice, summary, formula and source, for the axes that the variants set
    or in which they differ: `report` prints them and never imports the registry.

    chosen: variant -> axis -> choice. sets: variant -> the names that it sets.
    """
    axes = [
        axis
        for axis in registry.axes()
        if any(axis in sets[name] for name in chosen)
        or len({one.get(axis) for one in chosen.values()}) > 1
    ]
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name in chosen:
        found[name] = {}
        for axis in axes:
            if axis in chosen[name]:
                choice = registry.axis(axis)[chosen[name][axis]]
                found[name][axis] = {
                    "choice": choice.name,
                    "summary": choice.summary,
                    "formula": choice.formula,
                    "source": choice.source,
                }
    return found


def _choice(axis: str, name: Any) -> str:
    try:
        return registry.axis(axis)[name].name
    except registry.UnknownName as error:
        raise UserError(str(error)) from None


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{name} must be a number, not {value!r}")
    if not low <= value <= high:
        raise UserError(f"{name}={value:g} is out of range: it goes from {low:g} to {high:g}")
    return float(value)


def count(name: str, value: Any, low: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} must be a whole number, not {value!r}")
    if value < low:
        raise UserError(f"{name} must be at least {low}, not {value}")
    return value


def _option(name: str, value: Any, option: Any) -> Any:
    value = _like(name, value, option.default)
    if option.allowed is not None and value not in option.allowed:
        raise unknown(name, str(value), map(str, option.allowed))
    numbers = value if isinstance(value, list) else [value]
    if option.low is not None and any(number < option.low for number in numbers):
        raise UserError(f"{name} must be at least {option.low}, not {value}")
    return value


def _like(name: str, value: Any, default: Any) -> Any:
    """The value in the type of its default: a flag, a whole number, a number, a list of counts, a
    text.
    """
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UserError(f"{name} must be true or false, not {value!r}")
        return value
    if isinstance(default, int):
        return count(name, value, 0)
    if isinstance(default, float):
        return _number(name, value, -sys.float_info.max, sys.float_info.max)
    if isinstance(default, (list, tuple)):
        if not isinstance(value, (list, tuple)):
            raise UserError(f"{name} must be a list such as {list(default)}, not {value!r}")
        return [count(name, one, 1) for one in value]
    if not isinstance(value, str):
        raise UserError(f"{name} must be a text such as '{default}', not {value!r}")
    return value

"""Describe settings for `show`: components, hyperparameters, static settings, and presets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import variants as registry
from ablations.commands.catalogue import range_text
from ablations.core.record import settings_read
from ablations.errors import value_text
from ablations.presets import preset, presets
from ablations.trainers import Option, TrainerSpec, every_setting, trainers
from variants import Axis, Choice, Number


def setting_names() -> list[str]:
    """Return the names of all components, hyperparameters and static settings."""
    return sorted({*registry.axes(), *every_setting()})


def setting_lines(name: str) -> Iterator[str]:
    """Describe a setting: its choices or range, and its values in presets."""
    having = [trainer for trainer in trainers().values() if name in trainer.settings]
    users = _users(name, having)
    if name in registry.axes():
        yield from _axis_lines(registry.axis(name), having, users)
        return
    for trainer in having:
        if name in trainer.structure:
            yield from _option_lines(name, trainer.structure[name], trainer)
        else:
            yield from _number_lines(name, trainer.known_numbers()[name], trainer)
    for value, who in users.items():
        yield f"    {value:<20} {', '.join(who)}"


def against(*names: str) -> Iterator[str]:
    """Yield the settings in which two presets differ, with the formulas of both."""
    ends = {
        preset_of_name.name: settings_read(trainers()[preset_of_name.trainer].neutral_values())
        | preset_of_name.values()
        for preset_of_name in map(preset, names)
    }
    yield " against ".join(names)
    for setting in dict.fromkeys(setting for end in ends.values() for setting in end):
        values = {name: end.get(setting) for name, end in ends.items()}
        if len(set(map(str, values.values()))) == 1:
            continue
        yield f"    {setting}"
        for name, value in values.items():
            yield f"        {name:<10} {'not read' if value is None else value_text(value)}"
            if setting in registry.axes() and value is not None:
                yield from choice_lines(setting, str(value), left=12)


def choice_lines(axis: str, choice: str, left: int = 8) -> Iterator[str]:
    """Yield the formula of a choice and where it comes from, indented."""
    chosen = registry.axis(axis)[choice]
    lines = (*chosen.formula.splitlines(), f"({chosen.source})")
    yield from (" " * left + line.strip() for line in lines if line.strip())


def choice_names() -> set[str]:
    """Return the names of all choices."""
    return {name for axis in registry.axes().values() for name in axis}


def choices_named(name: str) -> Iterator[str]:
    """Describe the choices of all components with a name."""
    for axis in registry.axes().values():
        if name in axis:
            yield f"a choice of {axis.name}: {axis.summary}"
            yield from (*_described(axis, axis[name]), "")


def _axis_lines(
    axis: Axis, having: Sequence[TrainerSpec], users: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    yield f"{axis.name}: {axis.summary}"
    yield f"    a component of {', '.join(trainer.name for trainer in having) or 'no trainer'}"
    if axis.loop:
        yield "    its choices are names that the trainer's loop reads"
    else:
        yield f"    a choice may read {', '.join([*(axis.inputs or {}), *axis.numbers])}"
    for choice in axis.values():
        yield from ("", *_described(axis, choice))
        if choice.name in users:
            yield f"    used by   {', '.join(users[choice.name])}"


def _described(axis: Axis, choice: Choice) -> Iterator[str]:
    yield f"{choice.name}: {choice.summary}"
    yield from choice_lines(axis.name, choice.name)
    if choice.inputs:
        yield f"    reads     {', '.join(choice.inputs)}"
    for name, number in choice.numbers.items():
        yield f"    number    {name}={range_text(number)}: {number.summary}"


def _number_lines(name: str, number: Number, of: TrainerSpec) -> Iterator[str]:
    yield f"{name}: {number.summary}"
    yield f"    a hyperparameter of {of.name}: {range_text(number)}"
    readers = [
        f"{axis}={choice.name}"
        for axis in of.axes
        for choice in registry.axis(axis).values()
        if name in choice.numbers
    ]
    if readers:
        yield f"    read by {', '.join(readers)}"


def _option_lines(name: str, option: Option, of: TrainerSpec) -> Iterator[str]:
    yield f"{name}: {option.summary}"
    allowed = f", one of {', '.join(map(str, option.allowed))}" if option.allowed else ""
    yield f"    a static setting of {of.name}: {option.default}{allowed}"


def _users(name: str, having: Sequence[TrainerSpec]) -> dict[str, list[str]]:
    """Return value, as text -> the presets of these trainers that have it."""
    left_out = {
        trainer.name: settings_read(trainer.neutral_values()).get(name) for trainer in having
    }
    users: dict[str, list[str]] = {}
    for library in presets().values():
        if library.trainer not in left_out:
            continue
        value = library.values().get(name, left_out[library.trainer])
        if value is not None:
            users.setdefault(value_text(value), []).append(library.name)
    return users

"""Describe settings for `show`: components, hyperparameters, static settings, and presets."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

import variants as registry
from ablations.commands.catalogue import range_text
from ablations.core.decode import Json
from ablations.core.record import settings_read
from ablations.engine.plan import comparison_request, plan
from ablations.errors import UserError, value_text
from ablations.parameters import Selection, parse_levels
from ablations.presets import preset, presets
from ablations.tasks import task, tasks
from ablations.trainers import Option, TrainerSpec, trainers
from variants import Axis, Choice, Number

SMALL = ("fast", "cartpole", "breakout", "addition")  # tasks on which a setting is tried first
MOST = 3  # tasks, values, and choices that read a setting, that are tried


def setting_names() -> list[str]:
    """Return the names of all components, hyperparameters and static settings."""
    return sorted(
        {*registry.axes(), *(n for trainer in trainers().values() for n in trainer.settings)}
    )


def setting_lines(name: str) -> Iterator[str]:
    """Describe a setting: its choices or range, and its values in presets."""
    having = _having(name)
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


def _having(setting: str) -> list[TrainerSpec]:
    """Return the trainers that have a setting."""
    return [trainer for trainer in trainers().values() if setting in trainer.settings]


def trial(name: str) -> str | None:
    """Return a command that compares two values of a setting, or None."""
    having = _having(name)
    levels = [*(registry.axis(name) if name in registry.axes() else _users(name, having))]
    of_trainers = [
        known
        for known in dict.fromkeys([*SMALL, *tasks()])
        if any(trainer.name in task(known).hyperparameters for trainer in having)
    ]
    readers = [
        {axis: choice.name}
        for axis in dict.fromkeys(axis for trainer in having for axis in trainer.axes)
        for choice in registry.axis(axis).values()
        if name in choice.numbers
    ]
    pairs = list(combinations(levels[:MOST], 2))
    for place, pair, reader in product(of_trainers[:MOST], pairs, [{}, *readers[:MOST]]):
        compared = f"{name}={','.join(pair)}".replace(" ", "")
        selection = Selection(tasks=(place,), set=reader)
        with contextlib.suppress(UserError):
            plan(comparison_request(parse_levels([compared]), selection))
            sets = "".join(f" --set {axis}={choice}" for axis, choice in reader.items())
            return f"ablations sweep {shlex.quote(compared)} --tasks {place}{sets}"
    return None


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
            yield from (f"            {line}" for line in _formula(setting, value))


def _formula(setting: str, value: Json) -> list[str]:
    """Return the formula of a choice, line by line; nothing for other settings."""
    if setting not in registry.axes() or value is None:
        return []
    return registry.axis(setting)[str(value)].formula.splitlines()


def choice_lines(axis: str, choice: str) -> Iterator[str]:
    """Yield the formula of a choice and where it comes from, indented below its name."""
    chosen = registry.axis(axis)[choice]
    formula = (line.strip() for line in chosen.formula.splitlines() if line.strip())
    yield from (f"        {line}" for line in (*formula, f"({chosen.source})"))


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
        yield ""
        yield f"{choice.name}: {choice.summary}"
        yield from (f"        {line.strip()}" for line in choice.formula.splitlines())
        yield from _reading_lines(choice)
        yield f"    source    {choice.source}"
        if choice.name in users:
            yield f"    used by   {', '.join(users[choice.name])}"


def _reading_lines(choice: Choice) -> Iterator[str]:
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

"""`ablations show SETTING`: an axis, a number or an option, and who sets it to what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import variants as registry
from ablations.cli.catalogue import range_text
from ablations.core.record import settings_read
from ablations.errors import value_text
from ablations.presets import presets
from ablations.trainers import Definition, Option, trainers
from ablations.trainers.composition import neutral

if TYPE_CHECKING:
    from variants import Axis, Choice, Number


def setting_names() -> list[str]:
    """Return the names of all axes, numbers and options of all trainers."""
    return sorted(
        {*registry.axes(), *(n for trainer in trainers().values() for n in trainer.settings)}
    )


def setting_lines(name: str) -> Iterator[str]:
    """Describe a setting: its choices or its range, and who has which value.

    name: one of `setting_names`.
    """
    having = [trainer for trainer in trainers().values() if name in trainer.settings]
    users = _users(name, having)
    if name in registry.axes():
        axis = registry.axis(name)
        yield from _axis_lines(axis, having, users)
        levels = list(axis.names[:2])
    else:
        for trainer in having:
            if name in trainer.structure:
                yield from _option_lines(name, trainer.structure[name], trainer)
            else:
                yield from _number_lines(name, trainer.known_numbers()[name], trainer)
        for value, who in users.items():
            yield f"    {value:<20} {', '.join(who)}"
        levels = [*users][:2]
    if len(levels) == 2:
        yield f"try it: ablations compare {name}={','.join(map(str, levels))} --tasks fast"


def _axis_lines(
    axis: Axis, having: Sequence[Definition], users: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    yield f"{axis.name}: {axis.summary}"
    yield f"    an axis of {', '.join(trainer.name for trainer in having) or 'no trainer'}"
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


def _number_lines(name: str, number: Number, of: Definition) -> Iterator[str]:
    yield f"{name}: {number.summary}"
    yield f"    a number of {of.name}: {range_text(number)}"
    readers = [
        f"{axis}={choice.name}"
        for axis in of.axes
        for choice in registry.axis(axis).values()
        if name in choice.numbers
    ]
    if readers:
        yield f"    read by {', '.join(readers)}"


def _option_lines(name: str, option: Option, of: Definition) -> Iterator[str]:
    yield f"{name}: {option.summary}"
    allowed = f", one of {', '.join(map(str, option.allowed))}" if option.allowed else ""
    yield f"    a structural option of {of.name}: {option.default}{allowed}"


def _users(name: str, having: Sequence[Definition]) -> dict[str, list[str]]:
    """Return value, as text -> the presets of these trainers that have it."""
    left_out = {trainer.name: settings_read(neutral(trainer)).get(name) for trainer in having}
    users: dict[str, list[str]] = {}
    for preset in presets().values():
        if preset.trainer not in left_out:
            continue
        value = preset.values().get(name, left_out[preset.trainer])
        if value is not None:
            users.setdefault(value_text(value), []).append(preset.name)
    return users

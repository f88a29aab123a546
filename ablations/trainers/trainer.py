"""The form of a trainer: a few pure functions that the engine compiles, and what they can be told.

The engine (workers, records, progress, checkpoints, SLURM) knows this page and nothing of RL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ablations.errors import UserError, unknown


class Variant(NamedTuple):
    """What differs between two runs of one program, as data.

    choices: axis name -> index of the choice (int32 scalar), or its name, which is then fixed in
        the program.
    coefficients: name -> float32 scalar.
    iterations: float32 scalar, how many the whole run has, for what changes over training; infinite
        where no end is planned.
    """

    choices: Mapping[str, Any]
    coefficients: Mapping[str, Any]
    iterations: Any = np.float32(np.inf)


class Trainer(NamedTuple):
    """One composed, not yet compiled, training program.

    init(key, variant) -> state: everything that the run will ever need, one pytree.
    chunk(state, variant) -> (state, metrics): `updates_per_chunk` iterations; metrics is a flat
        dict of scalars.
    evaluate(state, variant, key) -> metrics: a flat dict of scalars; reads the state.
    policy(state) -> what a snapshot of the policy keeps, one pytree.
    steps_per_chunk: environment steps that one chunk takes.
    act(policy, observation, key) -> action: what `policy` kept, at work on one observation; the
        mode where key is None, else a sample. None for a trainer whose policies do not act.
    """

    init: Callable[[Any, Variant], Any]
    chunk: Callable[[Any, Variant], tuple[Any, dict[str, Any]]]
    evaluate: Callable[[Any, Variant, Any], dict[str, Any]]
    policy: Callable[[Any], Any]
    steps_per_chunk: int
    act: Callable[[Any, Any, Any], Any] | None = None


@dataclass(frozen=True)
class Coefficient:
    """A number that a variant sets and a program takes as data. Bounds are inclusive."""

    default: float
    low: float
    high: float
    summary: str


@dataclass(frozen=True)
class Option:
    """A setting that forces its own compilation: a layer list, a count, a name."""

    default: Any
    summary: str
    allowed: tuple[Any, ...] | None = None
    low: float | None = None


@dataclass(frozen=True)
class Definition:
    """A trainer by name, and all that one can set on it. Names are unique over the three tables.

    axes: axis name -> default choice.
    make(task, settings, structure, updates_per_chunk, evaluation_envs, choices) -> Trainer: `task`
        is an `ablations.tasks.Task`, `settings` and `structure` are resolved, `choices` names those
        of the axes that this program fixes (usually none).
    check(structure, coefficients, settings) -> complaints in words, [] when all is well.
    iteration_steps(structure) -> environment steps of one iteration.
    diagnosis(task, settings, structure, choices, coefficients) -> function(state, variant, key) ->
        a flat dict of scalars, named <choice>/<what>: how good the choices of the axis `diagnosed`
        are as estimates, at a moment of training; None where there is nothing of that kind. It may
        raise UserError.
    revision: bumped when the meaning of the trainer changes; part of every cell's hash.
    """

    name: str
    axes: Mapping[str, str]
    coefficients: Mapping[str, Coefficient]
    structure: Mapping[str, Option]
    make: Callable[..., Trainer]
    iteration_steps: Callable[[Mapping[str, Any]], int]
    check: Callable[..., list[str]] = field(default=lambda **_: [])
    diagnosis: Callable[..., Callable[[Any, Variant, Any], dict[str, Any]]] | None = None
    diagnosed: str = ""
    revision: int = 1
    summary: str = ""


_TRAINERS: dict[str, Definition] = {}


def register(definition: Definition) -> Definition:
    """Makes a trainer known to every command."""
    if definition.name in _TRAINERS:
        raise UserError(f"trainer '{definition.name}' is registered twice: choose another name")
    _TRAINERS[definition.name] = definition
    return definition


def trainers() -> Mapping[str, Definition]:
    return dict(_TRAINERS)


def trainer(name: str) -> Definition:
    if name not in _TRAINERS:
        raise unknown("trainer", name, _TRAINERS)
    return _TRAINERS[name]

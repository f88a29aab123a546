"""The interface of a trainer: a few pure functions that the engine compiles, and their settings.

The engine uses this module and knows nothing about RL. Importing it starts neither JAX nor the
registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    NotRequired,
    TypeAlias,
    TypedDict,
    TypeVar,
)

import numpy as np

if TYPE_CHECKING:
    import jax

    from ablations.core.decode import Json
    from ablations.core.plan import Settings
    from ablations.tasks.task import Task
    from ablations.trainers.choices import Fixed
    from variants.registry import NameOrIndex

Array: TypeAlias = "jax.Array"
Tree: TypeAlias = Any  # a pytree of arrays
Scalar: TypeAlias = "jax.Array | np.float32 | float"
Metrics: TypeAlias = "dict[str, jax.Array]"  # name -> scalar
SettingsT = TypeVar("SettingsT")


class TracedConfig(NamedTuple):
    """The data of a run that a compiled program takes.

    choices: axis -> index of the choice (int32 scalar), or the name of a compiled-in choice.
    numbers: name -> float32 scalar, all numbers of the trainer.
    iterations: float32 scalar, iterations of the whole run; infinite if no end is planned.
    task: name -> array, settings of the task that are data (`Task.data`).
    """

    choices: Mapping[str, NameOrIndex | Fixed]
    numbers: Mapping[str, Scalar]
    iterations: Scalar = np.float32(np.inf)
    task: Mapping[str, Tree] = {}


class ResolvedSettings(NamedTuple):
    """A task, its settings, and all static settings and choices of a trainer."""

    task: Task
    settings: Settings
    structure: Settings
    choices: Mapping[str, str]


class Trainer(NamedTuple):
    """A composed training program, before compilation.

    init: (key, variant, *given) -> state, one pytree with the whole state of the run.
    chunk: (state, variant) -> (state, metrics), `updates_per_chunk` iterations; metrics is a flat
        dict of scalars.
    evaluate: (state, variant, key) -> metrics, a flat dict of scalars.
    policy: (state) -> policy, the pytree that a saved policy contains.
    steps_per_chunk: steps of one chunk, in the trainer's `step_unit`.
    act: (policy, observation, key) -> action for one observation: a sample, or without a key the
        mode. None if policies do not act.
    start: (seed) -> a pytree of host arrays, which init takes as `given`: the common start of all
        variants of a seed, such as a pretrained model. None: init takes nothing.
    given: shapes and dtypes of `start`'s result, so that init compiles before `start` runs; None:
        taken from the result.
    """

    init: Callable[..., Tree]
    chunk: Callable[..., tuple[Tree, Metrics]]
    evaluate: Callable[..., Metrics]
    policy: Callable[..., Tree]
    steps_per_chunk: int
    act: Callable[..., jax.Array] | None = None
    start: Callable[[int], Tree] | None = None
    given: Tree = None


class Program(TypedDict, Generic[SettingsT]):
    """The keywords of `TrainerSpec.make`."""

    task: Task
    settings: SettingsT
    structure: Mapping[str, Any]
    updates_per_chunk: int
    evaluation_envs: NotRequired[int]
    choices: NotRequired[Mapping[str, str]]


@dataclass(frozen=True)
class Option:
    """A static setting: a list of layers, a count or a name.

    neutral: the compatible default, see `variants.Number`; None: the setting has none.
    """

    default: Json
    summary: str
    allowed: tuple[Json, ...] | None = None
    low: float | None = None
    neutral: Json = None

"""The form of a trainer: a few pure functions that the engine compiles, and their settings.

The engine (workers, records, progress, checkpoints, SLURM) knows this page and nothing of RL.
Importing it starts neither JAX nor the registry.
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

from ablations.core.record import Named

if TYPE_CHECKING:
    import jax

    from ablations.core.decode import Json
    from ablations.core.plan import Settings
    from ablations.core.record import Task as TaskName
    from ablations.tasks.task import Task
    from ablations.trainers.choices import Fixed
    from variants.registry import NameOrIndex

Tree: TypeAlias = Any  # a pytree of arrays
Scalar: TypeAlias = "jax.Array | np.float32 | float"
Metrics: TypeAlias = "dict[str, jax.Array]"  # name -> scalar
SettingsT = TypeVar("SettingsT")


class TracedConfig(NamedTuple):
    """The differences between two runs of one program, as data.

    choices: axis name -> index of the choice (int32 scalar), or its name, which is then fixed in
        the program.
    numbers: name -> float32 scalar, of all numbers that the trainer knows.
    iterations: float32 scalar, how many the whole run has, for what changes over training; infinite
        where no end is planned.
    task: name -> array, of the task's settings that are data (`Task.data`).
    """

    choices: Mapping[str, NameOrIndex | Fixed]
    numbers: Mapping[str, Scalar]
    iterations: Scalar = np.float32(np.inf)
    task: Mapping[str, Tree] = {}


class ResolvedSettings(NamedTuple):
    """The task, choices and static settings that decide which settings a trainer reads.

    settings: the task's. structure, choices: the trainer's, all of them.
    """

    task: Task
    settings: Settings
    structure: Settings
    choices: Mapping[str, str]


class Trainer(NamedTuple):
    """One composed, not yet compiled, training program.

    init(key, variant, *given) -> state: everything that the run will ever need, one pytree.
    chunk(state, variant) -> (state, metrics): `updates_per_chunk` iterations; metrics is a flat
        dict of scalars.
    evaluate(state, variant, key) -> metrics: a flat dict of scalars; reads the state.
    policy(state) -> what a snapshot of the policy keeps, one pytree.
    steps_per_chunk: steps that one chunk takes, in the trainer's `step_unit`.
    act(policy, observation, key) -> action: what `policy` kept, at work on one observation; the
        mode where key is None, else a sample. None for a trainer whose policies do not act.
    start(seed) -> a pytree of arrays on the host, passed to init as `given`: what all variants of a
        seed start from and no program computes, such as a model that was taught before. None:
        nothing is given.
    given: what `start` returns, as shapes and dtypes, so that init compiles before anything starts;
        None: as `start` is seen to return it.
    """

    init: Callable[..., Tree]
    chunk: Callable[..., tuple[Tree, Metrics]]
    evaluate: Callable[..., Metrics]
    policy: Callable[..., Tree]
    steps_per_chunk: int
    act: Callable[..., jax.Array] | None = None
    start: Callable[[int], Tree] | None = None
    given: Tree = None


class ProgramName(TypedDict):
    """Parts of a configuration that name its program; see `TrainerSpec.program`."""

    trainer: Named
    task: TaskName
    structure: Settings
    updates_per_chunk: int
    evaluation_envs: int
    compiled_in: Mapping[str, Named]
    switched: NotRequired[list[str]]


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
    """A setting that forces its own compilation: a layer list, a count, a name.

    neutral: of an option that joined later, as of a `variants.Number`; None: it has none.
    """

    default: Json
    summary: str
    allowed: tuple[Json, ...] | None = None
    low: float | None = None
    neutral: Json = None

"""The interface of an environment: two pure functions without a batch axis, and their types.

An environment of another library needs an adapter, a file of this package that `adapted` uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp

Tree: TypeAlias = Any  # a pytree of arrays


class Box(NamedTuple):
    """Actions: vectors of `size` numbers in [-1, 1]. An adapter scales them to other bounds."""

    size: int


class Discrete(NamedTuple):
    """Actions: whole numbers from 0 to `choices` - 1."""

    choices: int


Actions: TypeAlias = "Box | Discrete"


class Observations(NamedTuple):
    """Observations: flat vectors [size].

    size: length of the vector.
    image: height, width and channels if the vector is a flattened image, else None.
    policy, value: the range [start, stop) for the policy, and for the critic; None: all.
    """

    size: int
    image: tuple[int, int, int] | None = None
    policy: tuple[int, int] | None = None
    value: tuple[int, int] | None = None


class State(NamedTuple):
    """The state of an environment.

    physics, observation: replaced at the end of an episode; the observation is float32 [O].
    carried: survives the end of an episode, such as the key of random steps.
    """

    physics: Tree
    observation: jax.Array
    carried: Tree = ()


class Step(NamedTuple):
    """Reward and termination of a step, both scalars. Time limits are the trainer's, not here."""

    reward: jax.Array
    termination: jax.Array


def map_alike(function: Callable[..., Tree], before: Tree, after: Tree) -> Tree:
    """Map two pytrees of the same structure; otherwise return `after`, which trainers refuse."""
    return jax.tree.map(function, before, after) if _form(before) == _form(after) else after


def _form(tree: Tree) -> tuple[jax.tree_util.PyTreeDef, list[tuple[int, ...]]]:
    return jax.tree.structure(tree), [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]


class Environment(Protocol):
    """One environment without a batch axis."""

    @property
    def actions(self) -> Actions:
        """The actions that `step` takes."""

    @property
    def observations(self) -> Observations:
        """The form of a state's observation."""

    @property
    def fresh(self) -> bool:
        """Whether every episode starts from a new reset, which must be cheap.

        Otherwise it starts from a reset drawn at the start of training, or from the next of a pool.
        """

    @property
    def trailing(self) -> bool:
        """Whether a batch is faster as the last axis (`vmap_trailing`)."""

    def reset(self, key: jax.Array) -> State:
        """Return the first state of an episode."""

    def step(self, state: State, action: jax.Array) -> tuple[State, Step]:
        """Return the state after an action ([A] or a number), with reward and termination.

        The observation is the true next observation, also at the end of an episode.
        """

"""The form of an environment: two pure functions of one unbatched copy, and what goes in and out.

An environment of another library joins by an adapter, a file of this package; `adapted` knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp

Tree: TypeAlias = Any  # a pytree of arrays


class Box(NamedTuple):
    """Actions are vectors of `size` numbers in [-1, 1]; an adapter scales them to other bounds."""

    size: int


class Discrete(NamedTuple):
    """Actions are whole numbers, 0 to `choices` - 1."""

    choices: int


Actions: TypeAlias = "Box | Discrete"


class Observations(NamedTuple):
    """Observations are flat vectors [size], whatever they are made of.

    image: height, width and channels of the image that the vector is, row by row; None: it is none.
    policy, value: the part [start, stop) that the policy sees, and the critic; None: all of it.
    """

    size: int
    image: tuple[int, int, int] | None = None
    policy: tuple[int, int] | None = None
    value: tuple[int, int] | None = None


class State(NamedTuple):
    """An environment between two steps.

    physics: what moves. observation: float32 [O] of it. The end of an episode replaces both.
    carried: what outlives an episode, such as the key of random steps.
    """

    physics: Tree
    observation: jax.Array
    carried: Tree = ()


class Step(NamedTuple):
    """Reward and termination of a step, a scalar each.

    termination: the episode ended in itself; a limit of time is the trainer's.
    """

    reward: jax.Array
    termination: jax.Array


def map_alike(function: Callable[..., Tree], before: Tree, after: Tree) -> Tree:
    """Map two pytrees of one form; of another one return `after`, which trainers refuse."""
    return jax.tree.map(function, before, after) if _form(before) == _form(after) else after


def _form(tree: Tree) -> tuple[jax.tree_util.PyTreeDef, list[tuple[int, ...]]]:
    return jax.tree.structure(tree), [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]


class Environment(Protocol):
    """One environment.

    fresh: every episode starts from a reset of its own, so resets have to be cheap. Otherwise an
    environment goes back to a reset that was drawn at the start, or to the next of a pool.
    trailing: it is faster when its batch is the last axis (`vmap_trailing`).
    """

    @property
    def actions(self) -> Actions:
        """The actions that `step` takes."""

    @property
    def observations(self) -> Observations:
        """The form of a state's observation."""

    @property
    def fresh(self) -> bool:
        """True where every episode starts from a reset of its own."""

    @property
    def trailing(self) -> bool:
        """True where a batch of it is faster as the last axis."""

    def reset(self, key: jax.Array) -> State:
        """Return the first state of an episode."""

    def step(self, state: State, action: jax.Array) -> tuple[State, Step]:
        """Return the state after an action [A], or the number of one, and what it gave.

        The state's observation is the true next one, also where the episode ends.
        """

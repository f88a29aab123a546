"""Environments with Gymnax's interface: classic control, MinAtar, bsuite, and a user's.

`reset_env(key, params) -> (observation, state)`, `step_env(key, state, action, params) ->
(observation, state, reward, terminated, info)`, `action_space(params)`, `default_params`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from ablations.environments.environment import (
    Actions,
    Box,
    Discrete,
    Observations,
    State,
    Step,
    Tree,
    map_alike,
)
from ablations.errors import UserError


@dataclass(frozen=True)
class GymnaxEnvironment:
    """Adapter of an environment with Gymnax's interface.

    Steps may be random: the key of a step is derived from the reset's key and the step's number.
    The time limit is the task's setting episode_length. Every end that `step_env` returns is a
    termination, even a time limit of the environment (Gymnax before 1.0). Images are flattened.
    """

    env: Tree
    params: Tree
    fresh: bool = True
    trailing: bool = False

    @cached_property
    def actions(self) -> Actions:
        """Its actions. Raises UserError unless they are one number, or a vector with bounds."""
        space = self.env.action_space(self.params)
        if hasattr(space, "n"):
            return Discrete(int(space.n))
        shape = getattr(space, "shape", None)
        if shape is None or len(shape) > 1 or not hasattr(space, "low"):
            raise UserError(f"actions must be one number or one vector, not {space}")
        low, high = (np.asarray(getattr(space, x, None), np.float32) for x in ("low", "high"))
        with np.errstate(over="ignore", invalid="ignore"):
            width = high - low
        if not (np.isfinite(width) & (width >= 0)).all():
            raise UserError(
                f"actions from {low} to {high} need finite bounds, to which [-1, 1] is scaled"
            )
        return Box(shape[0] if shape else 1)

    @cached_property
    def observations(self) -> Observations:
        """The form of its observations. Raises UserError unless they are a vector or an image."""
        observation = jax.eval_shape(lambda key: self._first(key)[0], jax.random.key(0))
        shape = getattr(observation, "shape", None)
        if shape is None or len(shape) not in (0, 1, 3):
            raise UserError(
                f"observations must be one vector or one image [height, width, channels], not "
                f"{jax.tree.map(jnp.shape, observation)}"
            )
        return Observations(math.prod(shape), image=shape if len(shape) == 3 else None)

    def reset(self, key: jax.Array) -> State:
        """Return the first state of an episode."""
        key_reset, key_steps = jax.random.split(key)
        observation, physics = self._first(key_reset)
        return State(_strong(physics), _flat(observation), (key_steps, jnp.uint32(0)))

    def _first(self, key: jax.Array) -> tuple[Tree, Tree]:
        returned = self.env.reset_env(key, self.params)
        observation, state = self._parts("reset_env", returned, ("observation", "state"))
        return observation, state

    def step(self, state: State, action: jax.Array) -> tuple[State, Step]:
        """Return the state after an action, with reward and termination."""
        key, count = state.carried
        returned = self.env.step_env(
            jax.random.fold_in(key, count), state.physics, self._as_theirs(action), self.params
        )
        observation, physics, reward, termination, _ = self._parts("step_env", returned, STEP)
        after = State(
            map_alike(_in_type_of, state.physics, physics), _flat(observation), (key, count + 1)
        )
        return after, Step(jnp.asarray(reward, jnp.float32), jnp.asarray(termination, bool))

    def _parts(self, function: str, returned: Tree, names: tuple[str, ...]) -> Tree:
        if not isinstance(returned, tuple | list) or len(returned) != len(names):
            raise UserError(
                f"{function} of {type(self.env).__name__} must return {', '.join(names)}"
            )
        return returned

    def _as_theirs(self, action: jax.Array) -> jax.Array:
        if isinstance(self.actions, Discrete):
            return action
        space = self.env.action_space(self.params)
        low, high = jnp.asarray(space.low), jnp.asarray(space.high)
        return (low + (high - low) * 0.5 * (action + 1.0)).reshape(space.shape)


STEP = ("observation", "state", "reward", "termination", "info")


def _in_type_of(before: jax.Array, now: Tree) -> jax.Array:
    """Return a part of a state with its previous dtype.

    A real number is not cast to an integer or a flag, which would truncate it: trainers refuse it.
    """
    truncates = jnp.issubdtype(jnp.result_type(now), jnp.floating)
    truncates = truncates and not jnp.issubdtype(before.dtype, jnp.floating)
    return jnp.asarray(now) if truncates else jnp.asarray(now, before.dtype)


def _flat(observation: jax.Array) -> jax.Array:
    return jnp.ravel(observation).astype(jnp.float32)


def _strong(tree: Tree) -> Tree:
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.asarray(x).dtype), tree)

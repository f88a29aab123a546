"""The scripted environment of `whole_actions` with the interface of Gymnax 0.0.9."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from gymnax.environments import spaces
from whole_actions import CENTRE, LIMIT, SPREAD, A, O


class Scripted:
    """Observations, rewards and ends by the key of the reset and the number of the step.

    Its `info` is what a record needs. `step` resets by itself, as Gymnax 0.0.9's does.
    """

    default_params = None
    name = "scripted"

    def action_space(self, params: Any) -> spaces.Discrete:
        return spaces.Discrete(A)

    def observation_space(self, params: Any) -> spaces.Box:
        return spaces.Box(-jnp.inf, jnp.inf, (O,), jnp.float32)

    def reset(self, key: Any, params: Any) -> Any:
        return self._observation(key, 0), (key, jnp.int32(0), jnp.int32(0))

    def step(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        script, count, clock = state
        count, clock = count + 1, clock + 1
        termination = jax.random.uniform(jax.random.fold_in(script, 3 * count + 1)) < 0.2
        truncation = (clock == LIMIT) & ~termination
        done = termination | truncation
        true_next = self._observation(script, count)
        observation = jnp.where(done, self._observation(script, 1000 + count), true_next)
        reward = jax.random.normal(jax.random.fold_in(script, 3 * count + 2))
        info = {
            "next_observation": true_next,
            "reward": reward,
            "termination": termination,
            "truncation": truncation,
            "action": action,
        }
        state = (script, count, jnp.where(done, 0, clock))
        return observation, state, reward, done, info

    def _observation(self, script: Any, count: Any) -> Any:
        noise = jax.random.normal(jax.random.fold_in(script, 3 * count), (O,))
        return jnp.array(CENTRE) + jnp.array(SPREAD) * noise

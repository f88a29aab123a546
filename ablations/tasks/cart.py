"""The task `fast`: hold a damped cart at a target. For tests and demonstrations, without physics.

    v′ = v + dt (gain·a - damping·v)         p′ = p + dt v′        reward = 1 - |p′ - target|

An episode terminates if the cart leaves the track, |p| > 1, and is truncated at `episode_length`.
Both happen to an untrained policy. This imports JAX, so it is imported late.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

DT = 0.1
GAIN = 4.0
DAMPING = 0.5
TRACK = 1.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """The state of a cart, with the fields of Brax's State."""

    pipeline_state: dict[str, jax.Array]
    obs: jax.Array
    reward: jax.Array
    done: jax.Array
    metrics: dict[str, jax.Array]
    info: dict[str, jax.Array]

    replace = dataclasses.replace  # a method


def observe(cart: dict[str, jax.Array]) -> jax.Array:
    """Return [position, velocity, target - position]."""
    return jnp.stack([cart["position"], cart["velocity"], cart["target"] - cart["position"]])


class Cart:
    """Brax's Env interface; observation [position, velocity, target - position], one action."""

    observation_size = 3
    action_size = 1

    def reset(self, key: jax.Array) -> State:
        """Draw position, velocity and target."""
        key_position, key_velocity, key_target = jax.random.split(key, 3)
        cart = {
            "position": jax.random.uniform(key_position, minval=-0.5, maxval=0.5),
            "velocity": jax.random.uniform(key_velocity, minval=-0.5, maxval=0.5),
            "target": jax.random.uniform(key_target, minval=-0.5, maxval=0.5),
        }
        zero = jnp.zeros(())
        return State(cart, observe(cart), zero, zero, {}, {})

    def step(self, state: State, action: jax.Array) -> State:
        """Apply a force for one step."""
        cart = state.pipeline_state
        force = GAIN * jnp.clip(action[0], -1.0, 1.0) - DAMPING * cart["velocity"]
        velocity = cart["velocity"] + DT * force
        position = cart["position"] + DT * velocity
        cart = {"position": position, "velocity": velocity, "target": cart["target"]}
        return state.replace(
            pipeline_state=cart,
            obs=observe(cart),
            reward=1.0 - jnp.abs(position - cart["target"]),
            done=(jnp.abs(position) > TRACK).astype(jnp.float32),
        )

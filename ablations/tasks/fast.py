"""`fast`: a damped cart to be held at a target. For tests and demonstrations: no physics engine.

    v′ = v + dt (gain·a - damping·v)         p′ = p + dt v′        reward = 1 - |p′ - target|

An episode terminates where the cart leaves the track, |p| > 1, and is truncated at
`episode_length`; a policy that has not learned yet meets both ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ablations.tasks.task import Task, check_episodes, register

DT = 0.1
GAIN = 4.0
DAMPING = 0.5
TRACK = 1.0


def _make(settings: Mapping[str, Any]) -> Any:
    import jax
    import jax.numpy as jnp

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class State:
        pipeline_state: dict[str, jax.Array]
        obs: jax.Array
        reward: jax.Array
        done: jax.Array
        metrics: dict[str, jax.Array]
        info: dict[str, jax.Array]

        def replace(self, **fields: Any) -> State:
            return replace(self, **fields)

    def observe(cart: dict[str, jax.Array]) -> jax.Array:
        return jnp.stack([cart["position"], cart["velocity"], cart["target"] - cart["position"]])

    class Cart:
        """Brax's Env interface; observation [position, velocity, target - position], one action."""

        observation_size = 3
        action_size = 1

        def reset(self, key: jax.Array) -> State:
            key_position, key_velocity, key_target = jax.random.split(key, 3)
            cart = {
                "position": jax.random.uniform(key_position, minval=-0.5, maxval=0.5),
                "velocity": jax.random.uniform(key_velocity, minval=-0.5, maxval=0.5),
                "target": jax.random.uniform(key_target, minval=-0.5, maxval=0.5),
            }
            zero = jnp.zeros(())
            return State(cart, observe(cart), zero, zero, {}, {})

        def step(self, state: State, action: jax.Array) -> State:
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

    return Cart()


register(
    Task(
        name="fast",
        summary="a damped cart to be held at a target; compiles in seconds, for tests",
        make=_make,
        settings={"episode_length": 50, "reset_group_size": 1, "random_elapsed_steps": True},
        hyperparameters={
            "ppo": {
                "num_envs": 32,
                "unroll_length": 16,
                "num_minibatches": 4,
                "learning_rate": 1e-3,
            }
        },
        steps=50_000,
        source="own choice",
        check=check_episodes,
    )
)

"""An environment of one's own: a point in a wind that only the critic sees."""

import jax
import jax.numpy as jnp

from ablations import tasks
from ablations.environments import Box, Observations, State, Step


class Kite:
    actions = Box(1)  # vectors of one number in [-1, 1]; Discrete(3) would be 0, 1 or 2
    observations = Observations(3, policy=(0, 2))  # the policy sees position and velocity
    fresh = True  # resets are cheap: every episode has its own
    trailing = False

    def __init__(self, gust):
        self.gust = gust

    def reset(self, key):
        wind = self.gust * jax.random.normal(key)
        return self._state(jnp.zeros(()), jnp.zeros(()), wind)

    def step(self, state, action):
        position, velocity, wind = state.physics
        velocity += 0.1 * (4.0 * action[0] + wind)
        position += 0.1 * velocity
        reward, termination = 1.0 - jnp.abs(position), jnp.abs(position) > 1.0
        return self._state(position, velocity, wind), Step(reward, termination)

    def _state(self, *physics):
        return State(physics, jnp.stack(physics))


tasks.register(
    tasks.Task(
        name="kite",
        summary="a point to be held in a wind that only the critic sees",
        make=lambda settings: Kite(settings["gust"]),
        settings={"episode_length": 50, "gust": 1.0},
        steps=50_000,
        fresh=True,
    )
)

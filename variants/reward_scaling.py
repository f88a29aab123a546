# ruff: noqa: RUF001  # the formulas are in Greek
"""The unit in which the learner sees rewards. A stateful axis.

Shapes: rewards, termination, truncation and the scaled rewards are [T, N] (time, parallel
environments), in the order in which they were collected; one call per batch. reward_scale c is a
factor on whatever comes out, reward_clip the bound of |r/σ| before it. The state is of one
structure for all choices.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.advantage import DISCOUNT
from variants.choice import Number
from variants.moments import merged
from variants.registry import Axis, register
from variants.shapes import require_equal_shapes

Array = jax.Array

EPSILON = 1e-8
# The statistics start as those of so many samples with mean 0 and variance 1.
PRIOR_COUNT = 1e-4


class Returns(NamedTuple):
    """Statistics of the discounted returns so far.

    running: float32 [N], the discounted sum of each environment's rewards in its episode up to now.
    mean, variance: float32 scalars over all running returns so far, the prior included.
    steps: uint32 scalar, how often N of them went in; does not overflow before 2**32 steps.
    """

    running: Array
    mean: Array
    variance: Array
    steps: Array


def init(*, num_envs: int) -> Returns:
    """Nothing seen yet, of so many environments."""
    return Returns(jnp.zeros(num_envs), jnp.zeros(()), jnp.ones(()), jnp.uint32(0))


_STEPS = jax.ShapeDtypeStruct((5, 3), jnp.float32)

AXIS = register(
    Axis(
        "reward_scaling",
        summary="the unit in which the learner sees rewards",
        init=init,
        init_inputs={"num_envs": 3},
        inputs={
            "rewards": _STEPS,
            "termination": _STEPS,
            "truncation": _STEPS,
        },
        numbers={
            "reward_scale": Number(
                1.0, 1e-6, 1e6, "factor on rewards in training; metrics are unscaled"
            ),
        },
    )
)


@AXIS.choice(
    "constant",
    formula="c·r,  c = reward_scale",
    source="Brax (reward_scaling); c = 1 everywhere else by default",
    summary="a factor that somebody chose",
)
def constant(
    state: Returns, *, rewards: Array, reward_scale: Array | float
) -> tuple[Returns, Array]:
    """c·r; the state stays as it is."""
    return state, rewards * reward_scale


def _absorb(state: Returns, running: Array) -> Returns:
    """The statistics with N more returns, the prior counted as samples too."""
    weight = 1 / (state.steps.astype(jnp.float32) + 1 + PRIOR_COUNT / running.size)
    mean, variance = merged(state.mean, state.variance, jnp.mean(running), jnp.var(running), weight)
    return Returns(running, mean, variance, state.steps + 1)


@AXIS.choice(
    "running_return_std",
    formula=(
        "R = γR⁻ + r, from 0 at each start of an episode;  σ² = var of all R so far + 10⁻⁸\n"
        "c·clip(r/σ, -b, b),  c = reward_scale,  b = reward_clip"
    ),
    source="OpenAI Baselines and Stable-Baselines3 (VecNormalize), CleanRL through Gymnasium",
    summary="divided by the running std of the discounted return, not centred: signs stay",
    numbers={
        "discount": DISCOUNT,
        "reward_clip": Number(
            10.0, 1e-6, 1e6, "bound of a reward that reward_scaling=running_return_std has divided"
        ),
    },
)
def running_return_std(
    state: Returns,
    *,
    rewards: Array,
    termination: Array,
    truncation: Array,
    discount: Array | float,
    reward_scale: Array | float,
    reward_clip: Array | float,
) -> tuple[Returns, Array]:
    """c·clip(r/σ, ±b) step by step, each with the statistics that include its own returns."""
    require_equal_shapes(rewards=rewards, termination=termination, truncation=truncation)

    def step(state: Returns, now: tuple[Array, Array]) -> tuple[Returns, Array]:
        reward, ended = now
        state = _absorb(state, discount * state.running + reward)
        scaled = reward / jnp.sqrt(state.variance + EPSILON)
        return state._replace(running=jnp.where(ended, 0, state.running)), scaled

    ended = (termination > 0) | (truncation > 0)
    state, scaled = jax.lax.scan(step, state, (rewards, ended))
    return state, reward_scale * jnp.clip(scaled, -reward_clip, reward_clip)

# ruff: noqa: RUF001  # the formulas are in Greek
"""The scale of rewards in training. A stateful axis.

Shapes: rewards, termination, truncation and the output are [T, N] (time, parallel environments), in
the order of collection; one call per batch. reward_scale c multiplies the output; reward_clip
bounds |r/σ| before that. d and z are 1 if this step terminated or truncated the episode, else 0.
All choices share one state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.advantage import DISCOUNT
from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats, merged, require_equal_shapes

EPSILON = 1e-8
# The prior counts as this many samples of mean 0 and variance 1.
PRIOR_COUNT = 1e-4


class Returns(NamedTuple):
    """Statistics of the discounted returns so far.

    running: float32 [N], discounted sum of each environment's rewards.
    mean, variance: float32 [N], of all running returns and the prior; N equal values if the
        environments share them.
    steps: uint32 scalar, number of steps.
    """

    running: Array
    mean: Array
    variance: Array
    steps: Array


def init(*, num_envs: int) -> Returns:
    """Return the state before the first reward."""
    zeros = jnp.zeros(num_envs)
    return Returns(zeros, zeros, jnp.ones(num_envs), jnp.uint32(0))


REWARD_CLIP = Number(10.0, 1e-6, 1e6, "bound of a reward that was divided by a running std")

AXIS = Axis(
    "reward_scaling",
    summary="the scale of rewards in training",
    init=init,
    init_inputs={"num_envs": 3},
    inputs={"rewards": floats(5, 3), "termination": floats(5, 3), "truncation": floats(5, 3)},
    numbers={
        "reward_scale": Number(
            1.0, 1e-6, 1e6, "factor on rewards in training; metrics are unscaled"
        )
    },
)


@AXIS.choice(
    "constant",
    formula="c·r,  c = reward_scale",
    source="Brax (reward_scaling); c = 1 everywhere else by default",
    summary="a fixed factor",
)
def constant(state: Returns, *, rewards: Array, reward_scale: Scalar) -> tuple[Returns, Array]:
    return state, rewards * reward_scale


def _absorb(state: Returns, running: Array) -> Returns:
    """Add N returns to the statistics."""
    weight = 1 / (state.steps.astype(jnp.float32) + 1 + PRIOR_COUNT / running.size)
    mean, variance = merged(
        state.mean[0], state.variance[0], jnp.mean(running), jnp.var(running), weight
    )
    N = running.size
    return Returns(running, jnp.full(N, mean), jnp.full(N, variance), state.steps + 1)


def _absorb_apart(state: Returns, running: Array) -> Returns:
    """Add one return to the statistics of each environment."""
    weight = 1 / (state.steps.astype(jnp.float32) + 1 + PRIOR_COUNT)
    mean, variance = merged(state.mean, state.variance, running, jnp.zeros_like(running), weight)
    return Returns(running, mean, variance, state.steps + 1)


def _leaking(
    state: Returns,
    absorb: Callable[[Returns, Array], Returns],
    rewards: Array,
    kept: Array,
    discount: Scalar,
) -> tuple[Returns, Array]:
    """r/σ step by step, with R = γR⁻·kept + r in the statistics."""

    def step(state: Returns, now: tuple[Array, Array]) -> tuple[Returns, Array]:
        reward, keeps = now
        state = absorb(state, discount * state.running * keeps + reward)
        return state, reward / jnp.sqrt(state.variance + EPSILON)

    return jax.lax.scan(step, state, (rewards, kept))


@AXIS.choice(
    "running_return_std",
    formula=(
        "R = γR⁻ + r, from 0 at each start of an episode;  σ² = var of all R so far + 10⁻⁸\n"
        "c·clip(r/σ, -b, b),  c = reward_scale,  b = reward_clip"
    ),
    source="OpenAI Baselines and Stable-Baselines3 (common/vec_env/vec_normalize.py)",
    summary="divided by the running std of the discounted return, not centred: signs stay",
    numbers={"discount": DISCOUNT, "reward_clip": REWARD_CLIP},
)
def running_return_std(
    state: Returns,
    *,
    rewards: Array,
    termination: Array,
    truncation: Array,
    discount: Scalar,
    reward_scale: Scalar,
    reward_clip: Scalar,
) -> tuple[Returns, Array]:
    require_equal_shapes(rewards=rewards, termination=termination, truncation=truncation)

    def step(state: Returns, now: tuple[Array, Array]) -> tuple[Returns, Array]:
        reward, ended = now
        state = _absorb(state, discount * state.running + reward)
        scaled = reward / jnp.sqrt(state.variance + EPSILON)
        return state._replace(running=jnp.where(ended, 0, state.running)), scaled

    ended = (termination > 0) | (truncation > 0)
    state, scaled = jax.lax.scan(step, state, (rewards, ended))
    return state, reward_scale * jnp.clip(scaled, -reward_clip, reward_clip)


@AXIS.choice(
    "leaking_return_std",
    formula=("R = γR⁻(1-d)(1-z) + r,  σ² = var of all R so far + 10⁻⁸\nc·r/σ,  c = reward_scale"),
    source="PureJaxRL (purejaxrl/wrappers.py), Rejax (rejax/algos/mixins.py)",
    summary="an episode's last reward leaks into the return of the next; no clip",
    numbers={"discount": DISCOUNT},
)
def leaking_return_std(
    state: Returns,
    *,
    rewards: Array,
    termination: Array,
    truncation: Array,
    discount: Scalar,
    reward_scale: Scalar,
) -> tuple[Returns, Array]:
    require_equal_shapes(rewards=rewards, termination=termination, truncation=truncation)
    kept = (1 - termination) * (1 - truncation)
    state, scaled = _leaking(state, _absorb, rewards, kept, discount)
    return state, reward_scale * scaled


@AXIS.choice(
    "leaking_return_std_per_environment",
    formula=(
        "R = γR⁻(1-d) + r,  σ² = var of all R of this environment so far + 10⁻⁸\n"
        "c·clip(r/σ, -b, b),  c = reward_scale,  b = reward_clip"
    ),
    source="CleanRL through Gymnasium (gymnasium/wrappers/normalize.py), one wrapper for each",
    summary="separate statistics for each environment; truncation resets nothing",
    numbers={"discount": DISCOUNT, "reward_clip": REWARD_CLIP},
)
def leaking_return_std_per_environment(
    state: Returns,
    *,
    rewards: Array,
    termination: Array,
    discount: Scalar,
    reward_scale: Scalar,
    reward_clip: Scalar,
) -> tuple[Returns, Array]:
    """After a termination the last reward leaks on, after a truncation the whole return."""
    require_equal_shapes(rewards=rewards, termination=termination)
    state, scaled = _leaking(state, _absorb_apart, rewards, 1 - termination, discount)
    return state, reward_scale * jnp.clip(scaled, -reward_clip, reward_clip)

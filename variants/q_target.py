# the formulas are in Greek
"""The network that computes the targets of Q values: the current one, or a slower copy.

updates: scalar, iterations done, 1 after the first. The output is the scalar c: after an iteration
the target network's parameters become θ' + c(θ - θ'), and exactly θ if c = 1.
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats

AXIS = Axis(
    "q_target",
    summary="which network computes targets: the current one, or a slower copy",
    inputs={"updates": floats()},
)


@AXIS.choice(
    "none",
    formula="θ' = θ, as it was when the rollout began",
    source="PQN (Gallici et al. 2025, https://arxiv.org/abs/2407.04811); PureJaxQL, Rejax",
    summary="no target network",
)
def none(*, updates: Array) -> Array:
    return jnp.ones_like(updates)


@AXIS.choice(
    "hard",
    formula="θ' ← θ after every target_interval-th iteration",
    source="DQN (Mnih et al. 2015), there counted in gradient steps",
    summary="a copy that is updated every few iterations",
    numbers={
        "target_interval": Number(
            16.0, 1.0, 1e6, "iterations from one copy to the next with q_target=hard"
        )
    },
)
def hard(*, updates: Array, target_interval: Scalar) -> Array:
    """1 at multiples of the interval, else 0."""
    return jnp.where(updates % jnp.round(target_interval) == 0, 1.0, 0.0)


@AXIS.choice(
    "polyak",
    formula="θ' ← θ' + τ(θ - θ') after every iteration,  τ = target_tau",
    source="DDPG (Lillicrap et al. 2016), there after every gradient step",
    summary="a copy that follows a little behind",
    numbers={
        "target_tau": Number(
            0.1, 0.0, 1.0, "share of the way that q_target=polyak goes in an iteration"
        )
    },
)
def polyak(*, updates: Array, target_tau: Scalar) -> Array:
    return jnp.full_like(updates, target_tau)

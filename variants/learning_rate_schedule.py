# ruff: noqa: RUF001  # the formulas are in Greek
"""The step size over training. A stateful axis, asked before every gradient step.

All inputs and the rate are scalars: learning_rate α, the rate to start from; progress p, the share
of the training that is behind, 0 at the first iteration; approximate_kl, the divergence
KL(π_old, π) on the minibatch that the step is about to be taken on; desired_kl, what it should be.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.registry import Axis, register

Array = jax.Array

LOWEST, HIGHEST, FACTOR = 1e-5, 1e-2, 1.5


class Rate(NamedTuple):
    """current: float32 scalar, the rate of the step before; only adaptive_kl changes it."""

    current: Array


def init(*, learning_rate: Array | float) -> Rate:
    """Before the first step."""
    return Rate(jnp.asarray(learning_rate, jnp.float32))


_SCALAR = jax.ShapeDtypeStruct((), jnp.float32)

AXIS = register(
    Axis(
        "learning_rate_schedule",
        summary="the step size over training",
        init=init,
        init_inputs={"learning_rate": _SCALAR},
        inputs={
            "learning_rate": _SCALAR,
            "progress": _SCALAR,
            "approximate_kl": _SCALAR,
            "desired_kl": _SCALAR,
        },
    )
)


@AXIS.choice(
    "constant",
    formula="α",
    source="Brax, Stable-Baselines3, TorchRL by default",
    summary="the same from first to last",
)
def constant(
    state: Rate,
    *,
    learning_rate: Array,
    progress: Array,
    approximate_kl: Array,
    desired_kl: Array | float = 0.01,
) -> tuple[Rate, Array]:
    """α."""
    return state, learning_rate


@AXIS.choice(
    "linear",
    formula="α(1 - p)",
    source="CleanRL (anneal_lr), OpenAI Baselines, PureJaxRL, TorchRL's MuJoCo recipe",
    summary="falls in a straight line to 0 at the end of training",
)
def linear(
    state: Rate,
    *,
    learning_rate: Array,
    progress: Array,
    approximate_kl: Array,
    desired_kl: Array | float = 0.01,
) -> tuple[Rate, Array]:
    """α(1 - p), never negative."""
    return state, learning_rate * (1 - jnp.clip(progress, 0, 1))


@AXIS.choice(
    "adaptive_kl",
    formula=(
        "from α on:  max(rate/1.5, 1e-5)  where KL > 2·desired_kl\n"
        "min(1.5·rate, 1e-2)  where KL < ½·desired_kl,  rate elsewhere"
    ),
    source="RSL-RL (schedule='adaptive'); Brax when set (ADAPTIVE_KL); both with desired_kl = 0.01",
    summary="steps grow while the policy hardly moves, and shrink when it moves too far",
)
def adaptive_kl(
    state: Rate,
    *,
    learning_rate: Array,
    progress: Array,
    approximate_kl: Array,
    desired_kl: Array | float = 0.01,
) -> tuple[Rate, Array]:
    """Changes the rate of the step before; α counts at the first step alone.

    On the first minibatch of a batch the divergence is 0 and the rate grows. So it does in RSL-RL,
    whose closed form has a small constant in it that keeps it above 0; Brax makes an exception of
    exactly 0, which here would let rounding decide. NaN leaves the rate alone.
    """
    rate = state.current
    slower = jnp.maximum(rate / FACTOR, LOWEST)
    faster = jnp.minimum(rate * FACTOR, HIGHEST)
    rate = jnp.where(
        approximate_kl > 2 * desired_kl,
        slower,
        jnp.where(approximate_kl < desired_kl / 2, faster, rate),
    )
    return Rate(rate), rate

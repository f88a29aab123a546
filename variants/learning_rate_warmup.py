# the formulas are in Greek
"""Rise of the step size from 0 at the start of training: a structural axis.

All inputs are scalars. taken: k, gradient steps done. total: K, gradient steps of the training,
infinite if unknown. progress, step_progress: shares of the training for learning_rate_schedule. The
output is a factor on the rate, and both shares counted from the end of the rise.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats

AXIS = Axis(
    "learning_rate_warmup",
    summary="whether the step size rises from 0 at the start of training",
    inputs=dict.fromkeys(("taken", "total", "progress", "step_progress"), floats()),
    structural=True,
)


class Warmup(NamedTuple):
    """Scalars: factor, on the rate; progress and step_progress, for the schedule."""

    factor: Array
    progress: Array
    step_progress: Array


@AXIS.choice(
    "none",
    formula="the rate of learning_rate_schedule",
    source="every library's default of PPO",
    summary="the first step is as large as the schedule has it",
)
def none(*, progress: Array, step_progress: Array) -> Warmup:
    return Warmup(jnp.ones_like(progress), progress, step_progress)


@AXIS.choice(
    "linear",
    formula=(
        "min(1, k/(wK)) times the rate, whose schedule starts after wK steps;  w = warmup_share"
    ),
    source=(
        "optax (warmup_cosine_decay_schedule), Transformers (get_*_schedule_with_warmup), and so "
        "TRL and verl when set (warmup_ratio)"
    ),
    summary="while Adam's moments are young, steps are small; the very first is 0",
    numbers={
        "warmup_share": Number(
            0.05, 1e-6, 1.0, "w of learning_rate_warmup=linear: share of the training that it takes"
        )
    },
)
def linear(
    *, taken: Array, total: Array, progress: Array, step_progress: Array, warmup_share: Scalar
) -> Warmup:
    """The rate is constant if the length of the training is unknown."""
    factor = jnp.where(jnp.isinf(total), 1.0, jnp.minimum(1.0, taken / (warmup_share * total)))

    def after(share: Array) -> Array:
        left = jnp.maximum(share - warmup_share, 0.0) / jnp.maximum(1.0 - warmup_share, 1e-6)
        return jnp.where(jnp.isinf(total), share, left)

    return Warmup(factor, after(progress), after(step_progress))

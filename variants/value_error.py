"""The loss of a value per element, before clipping and the mean.

Shapes: values, targets and the output are [B]; e = values - targets. value_coefficient multiplies
the mean, so the ½ in huber and smooth_l1 halves the effective coefficient near e = 0.
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats, require_equal_shapes

AXIS = Axis(
    "value_error",
    summary="the error between a value and its target that the critic minimises",
    inputs={"values": floats(6), "targets": floats(6)},
    numbers={"error_scale": Number(1.0, 1e-6, 1e6, "κ of value_error=huber, β of smooth_l1")},
)


def _distance(values: Array, targets: Array) -> Array:
    require_equal_shapes(values=values, targets=targets)
    return jnp.abs(values - targets)


@AXIS.choice(
    "squared",
    formula="e²",
    source="Brax, CleanRL, Stable-Baselines3, RSL-RL, SEED RL, OpenAI Baselines",
    summary="squared error without the ½; projects that write ½ put it into the coefficient",
)
def squared(*, values: Array, targets: Array) -> Array:
    require_equal_shapes(values=values, targets=targets)
    return jnp.square(values - targets)


@AXIS.choice(
    "absolute",
    formula="|e|",
    source="TorchRL (loss_critic_type='l1')",
    summary="absolute error: the critic estimates a median, outliers pull no harder than others",
)
def absolute(*, values: Array, targets: Array) -> Array:
    """The gradient at e = 0 is 0; the gradient of jnp.abs is 1 there."""
    require_equal_shapes(values=values, targets=targets)
    error = values - targets
    return error * jnp.sign(error)


@AXIS.choice(
    "huber",
    formula="½e²  where |e| ≤ κ,  κ(|e| - ½κ)  elsewhere;  κ = error_scale",
    source="SEED RL (huber_delta); Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990",
    summary="½e² near 0, linear with slope κ far away",
)
def huber(*, values: Array, targets: Array, error_scale: Scalar) -> Array:
    """½q² + κ(|e| - q) with q = min(|e|, κ), which squares no large error."""
    distance = _distance(values, targets)
    near = jnp.minimum(distance, error_scale)
    return 0.5 * jnp.square(near) + error_scale * (distance - near)


@AXIS.choice(
    "smooth_l1",
    formula="½e²/β  where |e| < β,  |e| - ½β  elsewhere;  β = error_scale > 0",
    source="TorchRL's default (loss_critic_type='smooth_l1', β = 1)",
    summary="huber divided by its scale: slope 1 far away",
)
def smooth_l1(*, values: Array, targets: Array, error_scale: Scalar) -> Array:
    """½q²/β + |e| - q with q = min(|e|, β), which squares no large error."""
    distance = _distance(values, targets)
    near = jnp.minimum(distance, error_scale)
    return 0.5 * near * (near / error_scale) + (distance - near)

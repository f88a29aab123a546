# the formulas are in Greek
"""What the policy draws and how it becomes an action. A structural axis.

Shapes: mean, std and x are [..., A]. The policy draws x ~ Normal(mean, std²) per dimension; x is
what is stored and scored. A choice returns `Drawn`: the action [..., A] that the environment gets,
the log density [...] of x, and per dimension the log of the slope |da/dx| [..., A], by which the
entropy of the action differs from that of x. The slope is left out of the log density: old and new
policy score the same x, so it cancels in their ratio.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.registry import Axis, register
from variants.shapes import require_equal_shapes

Array = jax.Array

_ACTIONS = jax.ShapeDtypeStruct((6, 2), jnp.float32)

AXIS = register(
    Axis(
        "action_distribution",
        summary="what the policy draws, and how it becomes an action",
        inputs={"mean": _ACTIONS, "std": _ACTIONS, "x": _ACTIONS},
        structural=True,
    )
)


class Drawn(NamedTuple):
    """action, log_slope: [..., A]. log_prob: [...]."""

    action: Array
    log_prob: Array
    log_slope: Array


def normal_log_prob(mean: Array, std: Array, x: Array) -> Array:
    """Log density [...] of x [..., A] under Normal(mean, std²), summed over the dimensions."""
    normal = -0.5 * jnp.square((x - mean) / std) - 0.5 * jnp.log(2.0 * jnp.pi) - jnp.log(std)
    return jnp.sum(normal, axis=-1)


def log_tanh_slope(x: Array) -> Array:
    """log(1 - tanh²x) = 2(log 2 - x - log(1 + exp(-2x))), without cancellation; any shape."""
    return 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))


@AXIS.choice(
    "tanh_normal",
    formula="a = tanh(x),  x ~ N(μ, σ²);  x is stored",
    source="Brax (brax/training/distribution.py); Haarnoja et al. 2018",
    summary="bounded actions; what is stored lies before the tanh, where nothing saturates",
)
def tanh_normal(*, mean: Array, std: Array, x: Array) -> Drawn:
    """a = tanh(x), scored at x."""
    require_equal_shapes(mean=mean, x=x)
    return Drawn(jnp.tanh(x), normal_log_prob(mean, std, x), log_tanh_slope(x))


NEARLY_ONE = 1.0 - 1e-6


@AXIS.choice(
    "tanh_normal_inverted",
    formula=(
        "a = clip(tanh(x), -b, b),  x ~ N(μ, σ²),  b = 1 - 10⁻⁶\n"
        "a is stored, and scored at atanh(a)"
    ),
    source="TorchRL (torchrl/modules/distributions/continuous.py, TanhNormal)",
    summary="tanh_normal that keeps the action: where it saturates, x comes back rounded",
)
def tanh_normal_inverted(*, mean: Array, std: Array, x: Array) -> Drawn:
    """a = clip(tanh(x), ±(1 - 1e-6)), scored at atanh(a) in float32: |x| is at most 7.25 there."""
    action = jnp.clip(jnp.tanh(x), -NEARLY_ONE, NEARLY_ONE)
    return tanh_normal(mean=mean, std=std, x=jnp.arctanh(action))._replace(action=action)


@AXIS.choice(
    "normal",
    formula="a = clip(x, -1, 1),  x ~ N(μ, σ²);  x is stored",
    source="CleanRL, Stable-Baselines3, PureJaxRL, Rejax",
    summary="the environment clips: the policy does not know of its bounds",
)
def normal(*, mean: Array, std: Array, x: Array) -> Drawn:
    """a = clip(x, -1, 1), scored at x, outside of the bounds too."""
    require_equal_shapes(mean=mean, x=x)
    return Drawn(jnp.clip(x, -1.0, 1.0), normal_log_prob(mean, std, x), jnp.zeros_like(x))


@AXIS.choice(
    "normal_unclipped",
    formula="a = x,  x ~ N(μ, σ²)",
    source="RSL-RL, unless clip_actions is set",
    summary="the environment gets what was drawn, whatever its bounds",
)
def normal_unclipped(*, mean: Array, std: Array, x: Array) -> Drawn:
    """a = x."""
    return normal(mean=mean, std=std, x=x)._replace(action=x)

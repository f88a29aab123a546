# ruff: noqa: RUF001  # the formulas are in Greek
"""Entropy of a tanh-normal policy, which has no closed form: what stands in for it.

Shapes: mean, std and noise are [B, A] (samples, action dimensions); the output is [B], summed over
the dimensions. The action is tanh(x) with x = mean + std·noise, noise standard normal and drawn
anew for each estimate. The slope of tanh makes the entropy of the action that of x plus
E[log(1 - tanh²x)].
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from variants.registry import Axis, register
from variants.shapes import require_equal_shapes

Array = jax.Array

_ACTIONS = jax.ShapeDtypeStruct((6, 2), jnp.float32)

AXIS = register(
    Axis(
        "entropy_estimate",
        summary="the entropy that the policy is rewarded for",
        inputs={"mean": _ACTIONS, "std": _ACTIONS, "noise": _ACTIONS},
    )
)


def log_tanh_slope(x: Array) -> Array:
    """log(1 - tanh²x) = 2(log 2 - x - log(1 + exp(-2x))), without cancellation; any shape."""
    return 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))


def _normal_entropy(std: Array) -> Array:
    return 0.5 + 0.5 * math.log(2.0 * math.pi) + jnp.log(std)


@AXIS.choice(
    "one_sample",
    formula="Σ_a ½ + ½log 2π + log σ + log(1 - tanh²x),  x = μ + σ·noise",
    source="Brax (brax/training/distribution.py)",
    summary="exact for x, one fresh sample for the tanh: actions pushed into saturation cost",
)
def one_sample(*, mean: Array, std: Array, noise: Array) -> Array:
    """Unbiased. -log π(a) of the sample, as TorchRL takes it, has the same gradient."""
    require_equal_shapes(mean=mean, std=std, noise=noise)
    x = mean + std * noise
    return jnp.sum(_normal_entropy(std) + log_tanh_slope(x), axis=-1)


@AXIS.choice(
    "closed_form",
    formula="Σ_a ½ + ½log 2π + log σ",
    source="CleanRL, Stable-Baselines3, RSL-RL, whose actions are normal, without a tanh",
    summary="that of x, before the tanh: free of noise, blind to saturation",
)
def closed_form(*, std: Array) -> Array:
    """Exact for the normal x; for the action tanh(x) it is an upper bound."""
    return jnp.sum(_normal_entropy(std), axis=-1)

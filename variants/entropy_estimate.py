# ruff: noqa: RUF001  # the formulas are in Greek
"""Estimate of the policy's entropy, which has no closed form after a tanh.

Shapes: mean, std and noise are [B, A] (samples, action dimensions); the output is [B], summed over
the dimensions. x = mean + std·noise with new standard normal noise for each estimate. log_slope is
a function of x that returns log|da/dx| [B, A]: log(1 - tanh²x) for tanh, 0 for a = x. The entropy
of the action a is the entropy of x plus E[log_slope(x)].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp

from variants.action_distribution import log_tanh_slope
from variants.registry import Axis
from variants.shapes import Array, floats, require_equal_shapes

AXIS = Axis(
    "entropy_estimate",
    summary="the entropy that the policy is rewarded for",
    inputs={
        "mean": floats(6, 2),
        "std": floats(6, 2),
        "noise": floats(6, 2),
        "log_slope": log_tanh_slope,
    },
    defaults={"log_slope": log_tanh_slope},
)


def _normal_entropy(std: Array) -> Array:
    return 0.5 + 0.5 * math.log(2.0 * math.pi) + jnp.log(std)


@AXIS.choice(
    "one_sample",
    formula="Σ_a ½ + ½log 2π + log σ + log|da/dx|,  x = μ + σ·noise;  da/dx = 1 - tanh²x for tanh",
    source="Brax (brax/training/distribution.py)",
    summary="exact for x, one fresh sample for the tanh: actions pushed into saturation cost",
)
def one_sample(
    *, mean: Array, std: Array, noise: Array, log_slope: Callable[[Array], Array]
) -> Array:
    """Unbiased; exact where the action is x."""
    require_equal_shapes(mean=mean, std=std, noise=noise)
    x = mean + std * noise
    return jnp.sum(_normal_entropy(std) + log_slope(x), axis=-1)


@AXIS.choice(
    "negative_log_density",
    formula="-log π(a) = Σ_a ½noise² + ½log 2π + log σ + log|da/dx|,  x = μ + σ·noise",
    source="TorchRL (torchrl/objectives/ppo.py, where the entropy has no closed form)",
    summary="the log density of one fresh sample: one_sample's gradient, a noisier value",
)
def negative_log_density(
    *, mean: Array, std: Array, noise: Array, log_slope: Callable[[Array], Array]
) -> Array:
    """One reparametrised sample; its noise does not depend on the policy."""
    require_equal_shapes(mean=mean, std=std, noise=noise)
    x = mean + std * noise
    surprise = 0.5 * jnp.square(noise) + 0.5 * math.log(2.0 * math.pi) + jnp.log(std)
    return jnp.sum(surprise + log_slope(x), axis=-1)


@AXIS.choice(
    "closed_form",
    formula="Σ_a ½ + ½log 2π + log σ",
    source="CleanRL, Stable-Baselines3, RSL-RL, whose actions are normal, without a tanh",
    summary="the entropy of x, before the tanh: without noise, ignores saturation",
)
def closed_form(*, std: Array) -> Array:
    """Exact for the normal x; an upper bound for the action tanh(x)."""
    return jnp.sum(_normal_entropy(std), axis=-1)

# ruff: noqa: RUF001  # the formulas are in Greek
"""The surrogate that the policy descends, and what keeps it close to the policy that acted.

Shapes: log_ratio and advantages are [B], log ρ and A with ρ = π(a|s) / π_old(a|s) of the actions
that were taken; the outputs are the loss per element [B] and the clip fraction, the share of
samples with |ρ - 1| > ε (of those outside its own range for clip_lower_inverse and those with
another upper bound), a scalar. It is a diagnostic: where nothing is clipped it tells what a clip
would have touched. The coefficients that a choice does not name in its formula are not used by it.
clip_epsilon_high is the upper bound of clip_higher and dual_clip_higher alone; 0.28 is DAPO's.
Tokens [B, L] may be given as well: ρ = 1 at padding is never outside.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from variants.registry import Axis, register
from variants.shapes import require_equal_shapes

Array = jax.Array

_SAMPLES = jax.ShapeDtypeStruct((6,), jnp.float32)
_SCALAR = jax.ShapeDtypeStruct((), jnp.float32)

AXIS = register(
    Axis(
        "policy_loss",
        summary="how far one batch may move the policy, and at what price",
        inputs={
            "log_ratio": _SAMPLES,
            "advantages": _SAMPLES,
            "clip_epsilon": _SCALAR,
            "clip_epsilon_high": _SCALAR,
            "dual_clip": _SCALAR,
            "kl_coefficient": _SCALAR,
        },
    )
)


def _clipped_surrogate(
    log_ratio: Array, advantages: Array, lowest: Array | float, highest: Array | float
) -> tuple[Array, Array]:
    """min(ρA, clip(ρ, lowest, highest)·A) [B], and the share of ratios outside."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, lowest, highest)
    surrogate = jnp.minimum(ratio * advantages, clipped * advantages)
    outside = (ratio < lowest) | (ratio > highest)
    return surrogate, jnp.mean(outside, dtype=log_ratio.dtype)


@AXIS.choice(
    "clip",
    formula="-min(ρA, clip(ρ, 1-ε, 1+ε)·A)",
    source="Schulman et al. 2017, https://arxiv.org/abs/1707.06347, equation 7; every library",
    summary="no gain from moving the ratio out of its range",
)
def clip(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float = 0.28,
    dual_clip: Array | float = 3.0,
    kl_coefficient: Array | float = 1.0,
) -> tuple[Array, Array]:
    """-min(ρA, clip(ρ, 1-ε, 1+ε)A)."""
    surrogate, fraction = _clipped_surrogate(
        log_ratio, advantages, 1 - clip_epsilon, 1 + clip_epsilon
    )
    return -surrogate, fraction


@AXIS.choice(
    "clip_lower_inverse",
    formula="-min(ρA, clip(ρ, 1/(1+ε), 1+ε)·A)",
    source="SEED RL; Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990",
    summary="a range that is symmetric in log ρ: halving is as far as doubling",
)
def clip_lower_inverse(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float = 0.28,
    dual_clip: Array | float = 3.0,
    kl_coefficient: Array | float = 1.0,
) -> tuple[Array, Array]:
    """-min(ρA, clip(ρ, 1/(1+ε), 1+ε)A)."""
    surrogate, fraction = _clipped_surrogate(
        log_ratio, advantages, 1 / (1 + clip_epsilon), 1 + clip_epsilon
    )
    return -surrogate, fraction


@AXIS.choice(
    "dual_clip",
    formula="-max(min(ρA, clip(ρ, 1-ε, 1+ε)·A), cA)  where A < 0, else clip;  c = dual_clip",
    source="Ye et al. 2020, https://arxiv.org/abs/1912.09729; Tianshou, verl",
    summary="clip, and one bad action that became likely cannot pull without bound",
)
def dual_clip(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float = 0.28,
    dual_clip: Array | float = 3.0,
    kl_coefficient: Array | float = 1.0,
) -> tuple[Array, Array]:
    """clip, bounded below by cA where A < 0; c > 1."""
    surrogate, fraction = _clipped_surrogate(
        log_ratio, advantages, 1 - clip_epsilon, 1 + clip_epsilon
    )
    bounded = jnp.maximum(surrogate, dual_clip * advantages)
    return -jnp.where(advantages < 0, bounded, surrogate), fraction


@AXIS.choice(
    "clip_higher",
    formula="-min(ρA, clip(ρ, 1-ε, 1+ε_high)·A),  ε_high = clip_epsilon_high",
    source="DAPO (Yu et al. 2025, https://arxiv.org/abs/2503.14476); OpenRLHF, TRL",
    summary="more room upwards: an unlikely token may become likely, which keeps entropy",
)
def clip_higher(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float = 0.28,
    dual_clip: Array | float = 3.0,
    kl_coefficient: Array | float = 1.0,
) -> tuple[Array, Array]:
    """-min(ρA, clip(ρ, 1-ε, 1+ε_high)A)."""
    surrogate, fraction = _clipped_surrogate(
        log_ratio, advantages, 1 - clip_epsilon, 1 + clip_epsilon_high
    )
    return -surrogate, fraction


@AXIS.choice(
    "dual_clip_higher",
    formula="-max(min(ρA, clip(ρ, 1-ε, 1+ε_high)·A), cA)  where A < 0, else clip_higher",
    source="verl's default, with clip_ratio_low, clip_ratio_high and clip_ratio_c",
    summary="clip_higher, and dual_clip's bound of what one bad action can do",
)
def dual_clip_higher(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float = 0.28,
    dual_clip: Array | float = 3.0,
    kl_coefficient: Array | float = 1.0,
) -> tuple[Array, Array]:
    """clip_higher, bounded below by cA where A < 0; c > 1."""
    surrogate, fraction = _clipped_surrogate(
        log_ratio, advantages, 1 - clip_epsilon, 1 + clip_epsilon_high
    )
    bounded = jnp.maximum(surrogate, dual_clip * advantages)
    return -jnp.where(advantages < 0, bounded, surrogate), fraction


@AXIS.choice(
    "none",
    formula="-ρA",
    source="the importance-weighted policy gradient; A2C at ρ = 1",
    summary="nothing holds the policy: what clip and penalty are there to prevent",
)
def none(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float = 0.28,
    dual_clip: Array | float = 3.0,
    kl_coefficient: Array | float = 1.0,
) -> tuple[Array, Array]:
    """-ρA."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    ratio = jnp.exp(log_ratio)
    fraction = jnp.mean(jnp.abs(ratio - 1) > clip_epsilon, dtype=log_ratio.dtype)
    return -ratio * advantages, fraction


@AXIS.choice(
    "kl_penalty",
    formula="-ρA + β(ρ - 1 - log ρ),  β = kl_coefficient",
    source="Schulman et al. 2017, equation 8, with a fixed β and KL(π_old, π) estimated per sample",
    summary="no clip; leaving the old policy costs, in proportion to the divergence",
)
def kl_penalty(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float = 0.28,
    dual_clip: Array | float = 3.0,
    kl_coefficient: Array | float = 1.0,
) -> tuple[Array, Array]:
    """-ρA + β(ρ - 1 - log ρ).

    ρ - 1 - log ρ is the estimate known as k3 (http://joschu.net/blog/kl-approx.html): over actions
    of the old policy its mean is KL(π_old, π), and the mean of its gradient that of the divergence.
    Every sample of it is at least 0.
    """
    surrogate, fraction = none(
        log_ratio=log_ratio, advantages=advantages, clip_epsilon=clip_epsilon
    )
    # expm1 keeps ρ - 1 - log ρ from cancelling to a small negative number near ρ = 1.
    divergence = jnp.expm1(log_ratio) - log_ratio
    return surrogate + kl_coefficient * divergence, fraction

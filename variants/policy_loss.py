# ruff: noqa: RUF001  # the formulas are in Greek
"""The surrogate that the policy descends, and what keeps it close to the policy that acted.

Shapes: log_ratio and advantages are [B, L], log ρ and A with ρ = π(a|s) / π_old(a|s) of the tokens
of B sequences, or [B], of actions: sequences of length one. mask is of that shape, 1 at the tokens
that count (None: all do). The outputs are the loss per element and the clip fraction, a scalar: the
share of elements whose ratio is outside the choice's own range, NaN where a choice has none.
log_ratio is 0 at padding, which is never outside.

log_probs: log π now, differentiable; without them (None) log ρ stands for them, which differs by
what is constant in differentiation. noise: a function, noise(shape) -> uniform in [0, 1), for the
choice that draws.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from variants.choice import Number
from variants.on_policy import WHERE, on_policy
from variants.registry import Axis, register
from variants.rules import inert
from variants.shapes import require_equal_shapes

Array = jax.Array

_TOKENS = jax.ShapeDtypeStruct((6, 4), jnp.float32)

CLIP_EPSILON_HIGH = Number(0.28, 0.0, 10.0, "upper ε of the policy losses with two; DAPO's")
DUAL_CLIP = Number(3.0, 1.0, 1e6, "c of policy_loss=dual_clip and dual_clip_higher")


def _in_order(shape: tuple[int, ...]) -> Array:
    """Return ascending numbers in place of noise: the first come first."""
    return jnp.linspace(0.0, 1.0, math.prod(shape), endpoint=False).reshape(shape)


AXIS = register(
    Axis(
        "policy_loss",
        summary="how far one batch may move the policy, and at what price",
        inputs={
            "log_ratio": _TOKENS,
            "advantages": _TOKENS,
            "mask": _TOKENS,
            "log_probs": _TOKENS,
            "noise": _in_order,
        },
        defaults={"mask": None, "log_probs": None, "noise": _in_order},
        numbers={"clip_epsilon": Number(0.2, 0.0, 10.0, "ε of the clipped policy ratio")},
    )
)


def clipped_surrogate(
    log_ratio: Array, advantages: Array, lowest: Array | float, highest: Array | float
) -> tuple[Array, Array]:
    """min(ρA, clip(ρ, lowest, highest)·A) [B], and the share of ratios outside."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, lowest, highest)
    surrogate = jnp.minimum(ratio * advantages, clipped * advantages)
    outside = (ratio < lowest) | (ratio > highest)
    return surrogate, jnp.mean(outside, dtype=log_ratio.dtype)


def _bounded(surrogate: Array, advantages: Array, dual_clip: Array | float) -> Array:
    """max(surrogate, cA) where A < 0."""
    bounded = jnp.maximum(surrogate, dual_clip * advantages)
    return jnp.where(advantages < 0, bounded, surrogate)


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
) -> tuple[Array, Array]:
    """-min(ρA, clip(ρ, 1-ε, 1+ε)A)."""
    surrogate, fraction = clipped_surrogate(
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
) -> tuple[Array, Array]:
    """-min(ρA, clip(ρ, 1/(1+ε), 1+ε)A)."""
    surrogate, fraction = clipped_surrogate(
        log_ratio, advantages, 1 / (1 + clip_epsilon), 1 + clip_epsilon
    )
    return -surrogate, fraction


@AXIS.choice(
    "dual_clip",
    formula="-max(min(ρA, clip(ρ, 1-ε, 1+ε)·A), cA)  where A < 0, else clip;  c = dual_clip",
    source="Ye et al. 2020, https://arxiv.org/abs/1912.09729; Tianshou, verl",
    summary="clip, and one bad action that became likely cannot pull without bound",
    numbers={"dual_clip": DUAL_CLIP},
)
def dual_clip(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    dual_clip: Array | float,
) -> tuple[Array, Array]:
    """clip, bounded below by cA where A < 0; c > 1."""
    surrogate, fraction = clipped_surrogate(
        log_ratio, advantages, 1 - clip_epsilon, 1 + clip_epsilon
    )
    return -_bounded(surrogate, advantages, dual_clip), fraction


@AXIS.choice(
    "clip_higher",
    formula="-min(ρA, clip(ρ, 1-ε, 1+ε_high)·A),  ε_high = clip_epsilon_high",
    source="DAPO (Yu et al. 2025, https://arxiv.org/abs/2503.14476); OpenRLHF, TRL",
    summary="more room upwards: an unlikely token may become likely, which keeps entropy",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def clip_higher(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float,
) -> tuple[Array, Array]:
    """-min(ρA, clip(ρ, 1-ε, 1+ε_high)A)."""
    surrogate, fraction = clipped_surrogate(
        log_ratio, advantages, 1 - clip_epsilon, 1 + clip_epsilon_high
    )
    return -surrogate, fraction


@AXIS.choice(
    "dual_clip_higher",
    formula="-max(min(ρA, clip(ρ, 1-ε, 1+ε_high)·A), cA)  where A < 0, else clip_higher",
    source="verl's default, with clip_ratio_low, clip_ratio_high and clip_ratio_c",
    summary="clip_higher, and dual_clip's bound of what one bad action can do",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH, "dual_clip": DUAL_CLIP},
)
def dual_clip_higher(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float,
    dual_clip: Array | float,
) -> tuple[Array, Array]:
    """clip_higher, bounded below by cA where A < 0; c > 1."""
    surrogate, fraction = clipped_surrogate(
        log_ratio, advantages, 1 - clip_epsilon, 1 + clip_epsilon_high
    )
    return -_bounded(surrogate, advantages, dual_clip), fraction


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
) -> tuple[Array, Array]:
    """-ρA."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    return -jnp.exp(log_ratio) * advantages, jnp.full((), jnp.nan, log_ratio.dtype)


@AXIS.choice(
    "kl_penalty",
    formula="-ρA + β(ρ - 1 - log ρ),  β = penalty_coefficient",
    source="Schulman et al. 2017, equation 8, with a fixed β and KL(π_old, π) estimated per sample",
    summary="no clip; leaving the old policy costs, in proportion to the divergence",
    numbers={
        "penalty_coefficient": Number(
            1.0, 0.0, 1e6, "β of policy_loss=kl_penalty, against the policy that acted"
        ),
    },
)
def kl_penalty(
    *,
    log_ratio: Array,
    advantages: Array,
    penalty_coefficient: Array | float,
) -> tuple[Array, Array]:
    """-ρA + β(ρ - 1 - log ρ).

    ρ - 1 - log ρ is the estimate known as k3 (http://joschu.net/blog/kl-approx.html): over actions
    of the old policy its mean is KL(π_old, π), and the mean of its gradient that of the divergence.
    Every sample of it is at least 0.
    """
    surrogate, fraction = none(log_ratio=log_ratio, advantages=advantages)
    # expm1 keeps ρ - 1 - log ρ from cancelling to a small negative number near ρ = 1.
    divergence = jnp.expm1(log_ratio) - log_ratio
    return surrogate + penalty_coefficient * divergence, fraction


@AXIS.choice(
    "spo",
    formula="-ρA + |A|·(ρ - 1)²/(2ε)",
    source=(
        "Simple Policy Optimization (Xie et al. 2024, https://arxiv.org/abs/2401.16025), and its "
        "authors' MyRepositories-hub/Simple-Policy-Optimization (mujoco/trainer.py)"
    ),
    summary="a parabola for a clip: each ratio is pulled to 1 ± ε, back from beyond too",
)
def spo(
    *,
    log_ratio: Array,
    advantages: Array,
    clip_epsilon: Array | float,
) -> tuple[Array, Array]:
    """-ρA + |A|(ρ - 1)²/2ε, which is least at ρ = 1 + ε where A > 0 and at 1 - ε where A < 0."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    moved = jnp.expm1(log_ratio)
    # One product, so that a huge ratio gives no ∞ - ∞; at ε = 0 nothing may move.
    slope = moved / (2 * jnp.maximum(clip_epsilon, 1e-6)) - jnp.sign(advantages)
    outside = jnp.mean(jnp.abs(moved) > clip_epsilon, dtype=log_ratio.dtype)
    return jnp.abs(advantages) * moved * slope - advantages, outside


@inert
def the_first_ratio_is_one(
    *,
    policy_loss: str,
    epochs: int,
    num_minibatches: int,
    observation_normalization: str = "none",
    mean_perturbation: str = "none",
) -> dict[str, str]:
    if not on_policy(
        epochs=epochs,
        num_minibatches=num_minibatches,
        observation_normalization=observation_normalization,
        mean_perturbation=mean_perturbation,
    ):
        return {}
    reason = f"the policy ratio is always 1 {WHERE}, where every policy_loss has one gradient"
    # What clip_cov leaves out, it leaves out at ρ = 1 too.
    acts = ("policy_loss",) if policy_loss == "clip_cov" else ()
    names = ["policy_loss", *(n for n in AXIS.known_numbers if not n.startswith("clip_cov"))]
    return {name: reason for name in names if name not in acts}

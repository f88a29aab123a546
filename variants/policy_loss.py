# ruff: noqa: RUF001  # the formulas are in Greek
"""The loss of the policy, and its constraint to the policy that acted.

Shapes: log_ratio log ρ and advantages A are [B, L] for the tokens of B sequences, or [B] for
actions; ρ = π(a|s) / π_old(a|s), and log ρ is 0 at padding. mask has the same shape, 1 at the
tokens that count (None: all). The outputs are the loss per element and the clip fraction: the share
of elements whose ratio is outside the choice's range, NaN if it has no range.

log_probs: log π, differentiable; None: log ρ, which differs by a constant. noise: a function,
noise(shape) -> uniform in [0, 1), for a choice that draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import WHERE, inert, on_policy
from variants.shapes import Array, Scalar, floats, require_equal_shapes

CLIP_EPSILON_HIGH = Number(0.28, 0.0, 10.0, "upper ε of the policy losses with two; DAPO's")
DUAL_CLIP = Number(3.0, 1.0, 1e6, "c of policy_loss=dual_clip and dual_clip_higher")


def _in_order(shape: tuple[int, ...]) -> Array:
    """Return ascending numbers in place of noise."""
    return jnp.linspace(0.0, 1.0, math.prod(shape), endpoint=False).reshape(shape)


AXIS = Axis(
    "policy_loss",
    summary="how the loss limits the change of the policy per batch",
    inputs={
        "log_ratio": floats(6, 4),
        "advantages": floats(6, 4),
        "mask": floats(6, 4),
        "log_probs": floats(6, 4),
        "noise": _in_order,
    },
    defaults={"mask": None, "log_probs": None, "noise": _in_order},
    numbers={"clip_epsilon": Number(0.2, 0.0, 10.0, "ε of the clipped policy ratio")},
)


def clipped_surrogate(
    log_ratio: Array, advantages: Array, lowest: Scalar, highest: Scalar
) -> tuple[Array, Array]:
    """min(ρA, clip(ρ, lowest, highest)·A) [B], and the share of ratios outside."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, lowest, highest)
    surrogate = jnp.minimum(ratio * advantages, clipped * advantages)
    outside = (ratio < lowest) | (ratio > highest)
    return surrogate, jnp.mean(outside, dtype=log_ratio.dtype)


def _loss_of(surrogate: Array, fraction: Array) -> tuple[Array, Array]:
    return -surrogate, fraction


def _dual(
    surrogate: Array, fraction: Array, advantages: Array, dual_clip: Scalar
) -> tuple[Array, Array]:
    """-max(surrogate, cA) where A < 0, -surrogate elsewhere."""
    bounded = jnp.maximum(surrogate, dual_clip * advantages)
    return -jnp.where(advantages < 0, bounded, surrogate), fraction


class Bounded(NamedTuple):
    """Inputs of the choices with two bounds, 1 - ε and 1 + ε_high."""

    log_ratio: Array
    advantages: Array
    mask: Array | None
    log_probs: Array | None
    clip_epsilon: Scalar
    clip_epsilon_high: Scalar

    @property
    def bounds(self) -> tuple[Scalar, Scalar]:
        """The lowest and the highest ratio."""
        return 1 - self.clip_epsilon, 1 + self.clip_epsilon_high

    def clipped(self, log_ratio: Array) -> tuple[Array, Array]:
        """`clipped_surrogate` of these ratios."""
        return clipped_surrogate(log_ratio, self.advantages, *self.bounds)

    def of_sequences(self, *, average: bool) -> Array:
        """Log s at each token that counts: the sum or mean of log ρ of its sequence's tokens."""
        if self.log_ratio.ndim == 1:
            return self.log_ratio
        mask = jnp.ones_like(self.log_ratio) if self.mask is None else self.mask
        if average:
            lengths = jnp.maximum(jnp.sum(mask, axis=-1, keepdims=True), 1)
        total = jnp.sum(self.log_ratio * mask, axis=-1, keepdims=True)
        return (total / lengths if average else total) * mask


@AXIS.choice(
    "clip",
    formula="-min(ρA, clip(ρ, 1-ε, 1+ε)·A)",
    source="Schulman et al. 2017, https://arxiv.org/abs/1707.06347, equation 7; every library",
    summary="no gain from moving the ratio out of its range",
)
def clip(*, log_ratio: Array, advantages: Array, clip_epsilon: Scalar) -> tuple[Array, Array]:
    bounds = 1 - clip_epsilon, 1 + clip_epsilon
    return _loss_of(*clipped_surrogate(log_ratio, advantages, *bounds))


@AXIS.choice(
    "clip_lower_inverse",
    formula="-min(ρA, clip(ρ, 1/(1+ε), 1+ε)·A)",
    source="SEED RL; Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990",
    summary="a range that is symmetric in log ρ: halving is as far as doubling",
)
def clip_lower_inverse(
    *, log_ratio: Array, advantages: Array, clip_epsilon: Scalar
) -> tuple[Array, Array]:
    bounds = 1 / (1 + clip_epsilon), 1 + clip_epsilon
    return _loss_of(*clipped_surrogate(log_ratio, advantages, *bounds))


@AXIS.choice(
    "dual_clip",
    formula="-max(min(ρA, clip(ρ, 1-ε, 1+ε)·A), cA)  where A < 0, else clip;  c = dual_clip",
    source="Ye et al. 2020, https://arxiv.org/abs/1912.09729; Tianshou, verl",
    summary="clip, with a bound on the loss of a bad action that became likely",
    numbers={"dual_clip": DUAL_CLIP},
)
def dual_clip(
    *, log_ratio: Array, advantages: Array, clip_epsilon: Scalar, dual_clip: Scalar
) -> tuple[Array, Array]:
    bounds = 1 - clip_epsilon, 1 + clip_epsilon
    clipped = clipped_surrogate(log_ratio, advantages, *bounds)
    return _dual(*clipped, advantages, dual_clip)


@AXIS.choice(
    "clip_higher",
    pack=Bounded,
    formula="-min(ρA, clip(ρ, 1-ε, 1+ε_high)·A),  ε_high = clip_epsilon_high",
    source="DAPO (Yu et al. 2025, https://arxiv.org/abs/2503.14476); OpenRLHF, TRL",
    summary="more room upwards: an unlikely token may become likely, which keeps entropy",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def clip_higher(ratios: Bounded) -> tuple[Array, Array]:
    return _loss_of(*ratios.clipped(ratios.log_ratio))


@AXIS.choice(
    "dual_clip_higher",
    pack=Bounded,
    formula="-max(min(ρA, clip(ρ, 1-ε, 1+ε_high)·A), cA)  where A < 0, else clip_higher",
    source="verl's default, with clip_ratio_low, clip_ratio_high and clip_ratio_c",
    summary="clip_higher with the bound of dual_clip",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH, "dual_clip": DUAL_CLIP},
)
def dual_clip_higher(ratios: Bounded, *, dual_clip: Scalar) -> tuple[Array, Array]:
    return _dual(*ratios.clipped(ratios.log_ratio), ratios.advantages, dual_clip)


@AXIS.choice(
    "none",
    formula="-ρA",
    source="the importance-weighted policy gradient; A2C at ρ = 1",
    summary="no constraint to the policy that acted",
)
def none(*, log_ratio: Array, advantages: Array) -> tuple[Array, Array]:
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    return -jnp.exp(log_ratio) * advantages, jnp.full((), jnp.nan, log_ratio.dtype)


@AXIS.choice(
    "kl_penalty",
    formula="-ρA + β(ρ - 1 - log ρ),  β = penalty_coefficient",
    source="Schulman et al. 2017, equation 8, with a fixed β and KL(π_old, π) estimated per sample",
    summary="no clip; a penalty in proportion to the divergence from the old policy",
    numbers={
        "penalty_coefficient": Number(
            1.0, 0.0, 1e6, "β of policy_loss=kl_penalty, against the policy that acted"
        )
    },
)
def kl_penalty(
    *, log_ratio: Array, advantages: Array, penalty_coefficient: Scalar
) -> tuple[Array, Array]:
    """ρ - 1 - log ρ is the estimate k3 of KL(π_old, π), http://joschu.net/blog/kl-approx.html.

    Over actions of the old policy, k3 and its gradient are unbiased. k3 is never negative.
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
    summary="a parabola instead of a clip: it pulls each ratio to 1 ± ε, from both sides",
)
def spo(*, log_ratio: Array, advantages: Array, clip_epsilon: Scalar) -> tuple[Array, Array]:
    """The minimum is at ρ = 1 + ε where A > 0, and at 1 - ε where A < 0."""
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
    if not on_policy(epochs, num_minibatches, observation_normalization, mean_perturbation):
        return {}
    reason = f"the policy ratio is always 1 {WHERE}, where every policy_loss has one gradient"
    # clip_cov also drops tokens at ρ = 1.
    acts = ("policy_loss",) if policy_loss == "clip_cov" else ()
    names = ["policy_loss", *(n for n in AXIS.known_numbers if not n.startswith("clip_cov"))]
    return {name: reason for name in names if name not in acts}


# Choices made for completions: they look at a sequence of tokens


@AXIS.choice(
    "gspo",
    pack=Bounded,
    formula="-min(sA, clip(s, 1-ε, 1+ε_high)·A),  log s = the mean log ρ of the sequence's tokens",
    source=(
        "GSPO (Zheng et al. 2025, https://arxiv.org/abs/2507.18071); TRL "
        "(importance_sampling_level sequence)"
    ),
    summary="one ratio for a whole completion, differentiated through all its tokens",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def gspo(ratios: Bounded) -> tuple[Array, Array]:
    return _loss_of(*ratios.clipped(ratios.of_sequences(average=True)))


@AXIS.choice(
    "clip_sequence",
    pack=Bounded,
    formula="-min(sA, clip(s, 1-ε, 1+ε_high)·A),  s = π/π_old of the whole sequence",
    source="TRL (RLOOTrainer, which takes the mean over sequences)",
    summary="the exact ratio of a completion: long completions leave the range sooner",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def clip_sequence(ratios: Bounded) -> tuple[Array, Array]:
    return _loss_of(*ratios.clipped(ratios.of_sequences(average=False)))


@AXIS.choice(
    "gspo_token",
    pack=Bounded,
    formula="gspo with s_t = sg(s)·π_t/sg(π_t) at token t,  sg: constant in differentiation",
    source="GSPO-token (Zheng et al. 2025, section 4.3); verl (loss_mode gspo)",
    summary="gspo with a gradient per token: differs from gspo if a completion's advantages differ",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def gspo_token(ratios: Bounded) -> tuple[Array, Array]:
    """verl also bounds log s_t by 10."""
    own = ratios.log_ratio - jax.lax.stop_gradient(ratios.log_ratio)
    sequence = jax.lax.stop_gradient(ratios.of_sequences(average=True))
    return _loss_of(*ratios.clipped(own + sequence))


def _weighted_log_probs(
    log_ratio: Array, advantages: Array, log_probs: Array | None, lowest: Scalar, highest: Scalar
) -> tuple[Array, Array]:
    """-sg(clip(ρ, lowest, highest))·A·log π, and the share of ratios outside."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    ratio = jax.lax.stop_gradient(jnp.exp(log_ratio))
    weight = jnp.clip(ratio, lowest, highest)
    outside = (ratio < lowest) | (ratio > highest)
    loss = -weight * advantages * (log_ratio if log_probs is None else log_probs)
    return loss, jnp.mean(outside, dtype=log_ratio.dtype)


@AXIS.choice(
    "cispo",
    pack=Bounded,
    formula="-sg(clip(ρ, 1-ε, 1+ε_high))·A·log π,  sg: constant in differentiation",
    source="CISPO (MiniMax 2025, https://arxiv.org/abs/2506.13585); verl (loss_mode cispo)",
    summary="clips the weight, not the gradient: every token keeps a gradient",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def cispo(ratios: Bounded) -> tuple[Array, Array]:
    return _weighted_log_probs(
        ratios.log_ratio, ratios.advantages, ratios.log_probs, *ratios.bounds
    )


@AXIS.choice(
    "cispo_cap",
    formula="-sg(min(ρ, c))·A·log π,  c = ratio_cap",
    source="TRL (loss_type cispo, whose epsilon_high is the cap itself)",
    summary="cispo without a lower bound",
    numbers={"ratio_cap": Number(5.0, 0.0, 1e6, "c of policy_loss=cispo_cap: the largest weight")},
)
def cispo_cap(
    *, log_ratio: Array, advantages: Array, log_probs: Array | None, ratio_cap: Scalar
) -> tuple[Array, Array]:
    return _weighted_log_probs(log_ratio, advantages, log_probs, 0.0, ratio_cap)


@AXIS.choice(
    "sapo",
    formula="-4/τ·sigmoid(τ(ρ - 1))·A,  τ = sapo_temperature where A > 0, else its _negative",
    source="SAPO (2025, https://arxiv.org/abs/2511.20347); TRL (loss_type sapo), verl 0.9.1 (sapo)",
    summary="a soft gate instead of a clip: the gradient fades on both sides of ρ = 1",
    numbers={
        "sapo_temperature": Number(1.0, 1e-6, 1e6, "τ of policy_loss=sapo where A > 0"),
        "sapo_temperature_negative": Number(1.05, 1e-6, 1e6, "τ of policy_loss=sapo elsewhere"),
    },
)
def sapo(
    *,
    log_ratio: Array,
    advantages: Array,
    sapo_temperature: Scalar,
    sapo_temperature_negative: Scalar,
) -> tuple[Array, Array]:
    """At ρ = 1 the gradient equals the gradient of clip."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    temperature = jnp.where(advantages > 0, sapo_temperature, sapo_temperature_negative)
    gate = jax.nn.sigmoid(temperature * (jnp.exp(log_ratio) - 1)) * 4 / temperature
    return -gate * advantages, jnp.full((), jnp.nan, log_ratio.dtype)


@AXIS.choice(
    "clip_cov",
    pack=Bounded,
    formula=(
        "clip_higher, times 0 at max(1, ⌊r·n⌋) tokens drawn among those unclipped with\n"
        "low < (A - mean A)(log π - mean log π) < high;  n: how many tokens count"
    ),
    source="Cui et al. 2025, https://arxiv.org/abs/2505.22617; verl (loss_mode clip_cov)",
    summary="drops the few tokens that would lower the entropy most",
    numbers={
        "clip_epsilon_high": CLIP_EPSILON_HIGH,
        "clip_cov_ratio": Number(2e-4, 0.0, 1.0, "r of policy_loss=clip_cov: share left out"),
        "clip_cov_low": Number(1.0, -1e6, 1e6, "lowest covariance that policy_loss=clip_cov drops"),
        "clip_cov_high": Number(5.0, -1e6, 1e6, "highest covariance that it drops"),
    },
)
def clip_cov(
    ratios: Bounded,
    *,
    noise: Callable[[tuple[int, ...]], Array],
    clip_cov_ratio: Scalar,
    clip_cov_low: Scalar,
    clip_cov_high: Scalar,
) -> tuple[Array, Array]:
    """Drop the candidates with the smallest noise; the fraction is the share of dropped tokens."""
    log_ratio, advantages, mask, log_probs, *_ = ratios
    counted = jnp.ones_like(log_ratio) if mask is None else mask
    surrogate, _ = ratios.clipped(log_ratio)
    tokens = jnp.sum(counted)

    def centred(numbers: Array) -> Array:
        return numbers - jnp.sum(numbers * counted) / jnp.maximum(tokens, 1)

    log_probs = jax.lax.stop_gradient(log_ratio if log_probs is None else log_probs)
    covariance = centred(advantages) * centred(log_probs)
    unclipped = surrogate >= jnp.exp(log_ratio) * advantages
    within = (covariance > clip_cov_low) & (covariance < clip_cov_high)
    candidate = (counted > 0) & unclipped & within
    turn = jnp.where(candidate, noise(log_ratio.shape), jnp.inf).reshape(-1)
    rank = jnp.argsort(jnp.argsort(turn)).reshape(log_ratio.shape)
    count = jnp.maximum(jnp.floor(clip_cov_ratio * tokens), 1)
    dropped = candidate & (rank < count)
    return jnp.where(dropped, 0, -surrogate), jnp.mean(dropped, dtype=log_ratio.dtype)

# ruff: noqa: RUF001  # the formulas are in Greek
"""Choices of policy_loss that were made for completions: what they look at is a sequence of tokens.

Shapes as in policy_loss.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from variants.choice import Number
from variants.policy_loss import AXIS, CLIP_EPSILON_HIGH, clipped_surrogate
from variants.shapes import require_equal_shapes

Array = jax.Array


def _sequence_mean(log_ratio: Array, mask: Array | None) -> Array:
    """Return log s, the mean log ρ of each sequence's tokens that count, at every token of it."""
    if log_ratio.ndim == 1:
        return log_ratio
    if mask is None:
        mask = jnp.ones_like(log_ratio)
    lengths = jnp.maximum(jnp.sum(mask, axis=-1, keepdims=True), 1)
    mean = jnp.sum(log_ratio * mask, axis=-1, keepdims=True) / lengths
    return mean * mask


def _sequence_sum(log_ratio: Array, mask: Array | None) -> Array:
    """Return log s, the sum of log ρ of each sequence's tokens that count, at every token of it."""
    if log_ratio.ndim == 1:
        return log_ratio
    if mask is None:
        mask = jnp.ones_like(log_ratio)
    return jnp.sum(log_ratio * mask, axis=-1, keepdims=True) * mask


@AXIS.choice(
    "gspo",
    formula="-min(sA, clip(s, 1-ε, 1+ε_high)·A),  log s = the mean log ρ of the sequence's tokens",
    source=(
        "GSPO (Zheng et al. 2025, https://arxiv.org/abs/2507.18071); TRL "
        "(importance_sampling_level sequence)"
    ),
    summary="one ratio for a whole completion, differentiated through all of its tokens",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def gspo(
    *,
    log_ratio: Array,
    advantages: Array,
    mask: Array | None,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float,
) -> tuple[Array, Array]:
    """clip_higher of the sequence's ratio s; of one token it is clip_higher."""
    surrogate, fraction = clipped_surrogate(
        _sequence_mean(log_ratio, mask), advantages, 1 - clip_epsilon, 1 + clip_epsilon_high
    )
    return -surrogate, fraction


@AXIS.choice(
    "clip_sequence",
    formula="-min(sA, clip(s, 1-ε, 1+ε_high)·A),  s = π/π_old of the whole sequence",
    source="TRL (RLOOTrainer, which takes the mean over sequences)",
    summary="the exact ratio of a completion: it leaves the range the sooner the longer it is",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def clip_sequence(
    *,
    log_ratio: Array,
    advantages: Array,
    mask: Array | None,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float,
) -> tuple[Array, Array]:
    """clip_higher of the sequence's ratio s, at every token of it."""
    surrogate, fraction = clipped_surrogate(
        _sequence_sum(log_ratio, mask), advantages, 1 - clip_epsilon, 1 + clip_epsilon_high
    )
    return -surrogate, fraction


@AXIS.choice(
    "gspo_token",
    formula="gspo with s_t = sg(s)·π_t/sg(π_t) at token t,  sg: constant in differentiation",
    source="GSPO-token (Zheng et al. 2025, section 4.3); verl (loss_mode gspo)",
    summary=(
        "gspo's values, each token with its own gradient: parts from gspo where the advantages of "
        "a completion's tokens differ"
    ),
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def gspo_token(
    *,
    log_ratio: Array,
    advantages: Array,
    mask: Array | None,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float,
) -> tuple[Array, Array]:
    """gspo with s_t = sg(s)·π_t/sg(π_t).

    verl also bounds log s_t by 10, out of reach here.
    """
    own = log_ratio - jax.lax.stop_gradient(log_ratio)
    sequence = jax.lax.stop_gradient(_sequence_mean(log_ratio, mask))
    surrogate, fraction = clipped_surrogate(
        own + sequence, advantages, 1 - clip_epsilon, 1 + clip_epsilon_high
    )
    return -surrogate, fraction


def _weighted_log_probs(
    log_ratio: Array,
    advantages: Array,
    log_probs: Array | None,
    lowest: Array | float,
    highest: Array | float,
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
    formula="-sg(clip(ρ, 1-ε, 1+ε_high))·A·log π,  sg: constant in differentiation",
    source="CISPO (MiniMax 2025, https://arxiv.org/abs/2506.13585); verl (loss_mode cispo)",
    summary="the weight is clipped, not the gradient: every token keeps teaching",
    numbers={"clip_epsilon_high": CLIP_EPSILON_HIGH},
)
def cispo(
    *,
    log_ratio: Array,
    advantages: Array,
    log_probs: Array | None,
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float,
) -> tuple[Array, Array]:
    """-sg(clip(ρ, 1-ε, 1+ε_high))·A·log π."""
    return _weighted_log_probs(
        log_ratio, advantages, log_probs, 1 - clip_epsilon, 1 + clip_epsilon_high
    )


@AXIS.choice(
    "cispo_cap",
    formula="-sg(min(ρ, c))·A·log π,  c = ratio_cap",
    source="TRL (loss_type cispo, whose epsilon_high is the cap itself)",
    summary="cispo without a lower bound",
    numbers={"ratio_cap": Number(5.0, 0.0, 1e6, "c of policy_loss=cispo_cap: the largest weight")},
)
def cispo_cap(
    *,
    log_ratio: Array,
    advantages: Array,
    log_probs: Array | None,
    ratio_cap: Array | float,
) -> tuple[Array, Array]:
    """-sg(min(ρ, c))·A·log π."""
    return _weighted_log_probs(log_ratio, advantages, log_probs, 0.0, ratio_cap)


@AXIS.choice(
    "sapo",
    formula="-4/τ·sigmoid(τ(ρ - 1))·A,  τ = sapo_temperature where A > 0, else its _negative",
    source="SAPO (2025, https://arxiv.org/abs/2511.20347); TRL (loss_type sapo), verl 0.9.1 (sapo)",
    summary="a soft gate for a clip: the gradient fades on both sides of ρ = 1, none is cut off",
    numbers={
        "sapo_temperature": Number(1.0, 1e-6, 1e6, "τ of policy_loss=sapo where A > 0"),
        "sapo_temperature_negative": Number(1.05, 1e-6, 1e6, "τ of policy_loss=sapo elsewhere"),
    },
)
def sapo(
    *,
    log_ratio: Array,
    advantages: Array,
    sapo_temperature: Array | float,
    sapo_temperature_negative: Array | float,
) -> tuple[Array, Array]:
    """-4/τ·sigmoid(τ(ρ - 1))·A: at ρ = 1 the gradient is that of clip."""
    require_equal_shapes(log_ratio=log_ratio, advantages=advantages)
    temperature = jnp.where(advantages > 0, sapo_temperature, sapo_temperature_negative)
    gate = jax.nn.sigmoid(temperature * (jnp.exp(log_ratio) - 1)) * 4 / temperature
    return -gate * advantages, jnp.full((), jnp.nan, log_ratio.dtype)


@AXIS.choice(
    "clip_cov",
    formula=(
        "clip_higher, times 0 at max(1, ⌊r·n⌋) tokens drawn among those unclipped with\n"
        "low < (A - mean A)(log π - mean log π) < high;  n: how many tokens count"
    ),
    source="Cui et al. 2025, https://arxiv.org/abs/2505.22617; verl (loss_mode clip_cov)",
    summary="the few tokens that would lower the entropy most are left out",
    numbers={
        "clip_epsilon_high": CLIP_EPSILON_HIGH,
        "clip_cov_ratio": Number(2e-4, 0.0, 1.0, "r of policy_loss=clip_cov: share left out"),
        "clip_cov_low": Number(1.0, -1e6, 1e6, "lowest covariance that policy_loss=clip_cov drops"),
        "clip_cov_high": Number(5.0, -1e6, 1e6, "highest covariance that it drops"),
    },
)
def clip_cov(  # noqa: PLR0913  # a choice names all that it reads
    *,
    log_ratio: Array,
    advantages: Array,
    mask: Array | None,
    log_probs: Array | None,
    noise: Callable[[tuple[int, ...]], Array],
    clip_epsilon: Array | float,
    clip_epsilon_high: Array | float,
    clip_cov_ratio: Array | float,
    clip_cov_low: Array | float,
    clip_cov_high: Array | float,
) -> tuple[Array, Array]:
    """clip_higher with a loss of 0 where a token is dropped; the fraction is that of the dropped.

    Dropped are the candidates with the least noise.
    """
    counted = jnp.ones_like(log_ratio) if mask is None else mask
    surrogate, _ = clipped_surrogate(log_ratio, advantages, 1 - clip_epsilon, 1 + clip_epsilon_high)
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

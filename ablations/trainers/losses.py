"""Parts of losses: means over samples, the critic's part, divergences, changing coefficients.

mask: 1 at the samples that count and 0 elsewhere, of the shape of the samples; None: all count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ablations.trainers.choices import apply
from ablations.trainers.trainer import Metrics, TracedConfig, Tree

Array = jax.Array
# Coefficients that may change from update to update -> the axis of their schedule.
SCHEDULES = {"entropy_coefficient": "entropy_schedule", "penalty_coefficient": "penalty_schedule"}


def mean(samples: Array, mask: Array | None = None) -> Array:
    """Return the mean of the samples that count; 0 where none does."""
    if mask is None:
        return jnp.mean(samples)
    return jnp.sum(samples * mask) / jnp.maximum(jnp.sum(mask), 1.0)


def variance(samples: Array, mask: Array | None = None) -> Array:
    """Return the variance of the samples that count (ddof 0); 0 where none does."""
    if mask is None:
        return jnp.var(samples)
    return mean(jnp.square(samples - mean(samples, mask)), mask)


def share_that_counts(fraction: Array, mask: Array | None) -> Array:
    """Return a fraction of all samples, none of them outside the mask, as one of those inside."""
    if mask is None:
        return fraction
    return fraction * mask.size / jnp.maximum(jnp.sum(mask), 1.0)


def value_loss(
    *,
    value: Array,
    target: Array,
    old_value: Array,
    variant: TracedConfig,
    mask: Array | None = None,
    error: Callable[..., Array] | None = None,
) -> tuple[Array, Metrics]:
    """Return c_v E[value loss], of `value_error` under `value_clip`, and metrics of the critic.

    value, target, old_value: of one shape; the estimates at rollout are the old ones. Outside the
    mask all of them are 0. error: in place of `value_error`, of flat values and targets.
    """

    def of_axis(*, values: Array, targets: Array) -> Tree:
        return apply("value_error", variant, values=values, targets=targets)

    losses, clip_fraction = apply(
        "value_clip",
        variant,
        error=error or of_axis,
        values=value.reshape(-1),
        targets=target.reshape(-1),
        old_values=old_value.reshape(-1),
    )
    counts = None if mask is None else mask.reshape(-1)
    loss = variant.numbers["value_coefficient"] * mean(losses, counts)
    unexplained = variance(target - value, mask) / (variance(target, mask) + 1e-8)
    return loss, {
        "loss/value": loss,
        "value/clip_fraction": share_that_counts(clip_fraction, mask),
        "value/explained_variance": 1.0 - unexplained,
    }


def ratio_metrics(log_ratio: Array, mask: Array | None = None) -> Metrics:
    """Return how far the policy is from the one that acted, by log ρ of any shape, as scalars.

    approximate_kl is the mean of (ρ - 1) - log ρ, known as k3: never negative, and with less
    variance than kl_k1, the mean of -log ρ. effective_sample_size is (Σρ)² / Σρ² as a share of the
    samples: 1 where all weigh the same.
    """
    ratio = jnp.exp(log_ratio)
    return {
        "policy/approximate_kl": mean(jnp.expm1(log_ratio) - log_ratio, mask),
        "policy/kl_k1": -mean(log_ratio, mask),
        "policy/effective_sample_size": jnp.square(mean(ratio, mask))
        / mean(jnp.square(ratio), mask),
        "policy/ratio_mean": mean(ratio, mask),
        "policy/ratio_max": jnp.max(ratio if mask is None else ratio * mask),
    }


class Measured(NamedTuple):
    """Scalars of an update that is over.

    progress: share of the run that is behind. entropy: of the policy, per dimension of the action.
    divergence: KL(π_old, π) over the batch.
    """

    progress: Array
    entropy: Array
    divergence: Array


def scheduled(fixed: Mapping[str, str], variant: TracedConfig) -> dict[str, Array]:
    """Return the coefficients whose schedule is not constant, at their numbers.

    fixed: axis -> the choice that is compiled in.
    """
    return {
        name: jnp.asarray(variant.numbers[name], jnp.float32)
        for name, axis in SCHEDULES.items()
        if fixed[axis] != "constant"
    }


def next_coefficients(
    coefficients: Mapping[str, Array], variant: TracedConfig, measure: Callable[[], Measured]
) -> dict[str, Array]:
    """Return the coefficients of the next update. measure: called only where some change."""
    if not coefficients:
        return {}
    measured = measure()

    def changed(name: str, now: Array) -> Tree:
        if name == "penalty_coefficient":
            return apply("penalty_schedule", variant, penalty=now, divergence=measured.divergence)
        return apply(
            "entropy_schedule",
            variant,
            bonus=now,
            initial=variant.numbers[name],
            progress=measured.progress,
            entropy=measured.entropy,
        )

    return {name: changed(name, now) for name, now in coefficients.items()}

"""Parts of losses: masked means, the critic's loss, metrics of the ratio, scheduled coefficients.

mask: 1 at the samples that count and 0 elsewhere, in the shape of the samples; None: all count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp

from ablations.trainers.choices import apply
from ablations.trainers.trainer import Array, Metrics, TracedConfig, Tree

# Coefficient -> the axis of its schedule.
SCHEDULES = {"entropy_coefficient": "entropy_schedule", "penalty_coefficient": "penalty_schedule"}


def mean(samples: Array, mask: Array | None = None) -> Array:
    """Return the mean of the samples that count; 0 without any."""
    if mask is None:
        return jnp.mean(samples)
    return jnp.sum(samples * mask) / jnp.maximum(jnp.sum(mask), 1.0)


def variance(samples: Array, mask: Array | None = None) -> Array:
    """Return the variance (ddof 0) of the samples that count; 0 without any."""
    if mask is None:
        return jnp.var(samples)
    return mean(jnp.square(samples - mean(samples, mask)), mask)


def share_that_counts(fraction: Array, mask: Array | None) -> Array:
    """Convert a share of all samples to a share of the samples that count."""
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
    """Return c_v E[value loss], with `value_error` under `value_clip`, and metrics of the critic.

    value, target, old_value (at rollout): of one shape, 0 outside the mask. error: replaces
    `value_error`, a function of flat values and targets.
    """
    losses, clip_fraction = apply(
        "value_clip",
        variant,
        error=error or partial(apply, "value_error", variant),
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
    """Return scalars of the change of the policy, from log ρ of any shape.

    approximate_kl is the mean of (ρ - 1) - log ρ, the estimate k3. kl_k1 is the mean of -log ρ.
    effective_sample_size is (Σρ)² / Σρ² as a share of the samples, 1 at equal weights.
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
    """Scalars after an update.

    progress: share of the run that is done. entropy: of the policy, per dimension of the action.
    divergence: KL(π_old, π) over the batch.
    """

    progress: Array
    entropy: Array
    divergence: Array


def scheduled(fixed: Mapping[str, str], variant: TracedConfig) -> dict[str, Array]:
    """Return the first values of the coefficients with a schedule.

    fixed: axis -> compiled-in choice.
    """
    return {
        name: jnp.asarray(variant.numbers[name], jnp.float32)
        for name, axis in SCHEDULES.items()
        if fixed[axis] != "constant"
    }


def next_coefficients(
    coefficients: Mapping[str, Array], variant: TracedConfig, measure: Callable[[], Measured]
) -> dict[str, Array]:
    """Return the coefficients of the next update. measure is called only if there are any."""
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

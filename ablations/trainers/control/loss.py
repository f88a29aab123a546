"""The PPO loss of one minibatch: the page to check against the paper."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ablations.trainers.choices import apply, switch
from ablations.trainers.control.networks import Networks, mean_and_std, normal_log_prob
from ablations.trainers.trainer import Variant

Metrics = dict[str, jax.Array]


class Minibatch(NamedTuple):
    """What one gradient step sees: M segments of T steps, from M environments.

    observation: [T, M, O], normalised.
    action: [T, M, A], before tanh.
    log_prob: [T, M], the density of that by the policy that acted. The tanh after it multiplies old
        and new densities by the same slope, which cancels in their ratio.
    old_value: [T, M], the critic's estimate at rollout.
    advantage: [T, M] and target: [T, M], not normalised yet unless advantage_scope is "batch".
    group: int32 [T, M], which environments share a reset.
    """

    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    old_value: jax.Array
    advantage: jax.Array
    target: jax.Array
    group: jax.Array


def normalize_advantages(
    advantage: jax.Array, group: jax.Array, num_groups: int, variant: Variant
) -> jax.Array:
    """The choice of `advantage_statistics` on any batch of samples; keeps its shape."""
    return apply(
        "advantage_statistics",
        variant,
        advantages=advantage.reshape(-1),
        groups=group.reshape(-1),
        num_groups=num_groups,
        ddof=variant.coefficients["advantage_ddof"],
        epsilon=1e-8,
    ).reshape(advantage.shape)


def ppo_loss(
    parameters: Any,
    networks: Networks,
    batch: Minibatch,
    key: jax.Array,
    variant: Variant,
    num_groups: int,
) -> tuple[jax.Array, Metrics]:
    """loss = E[policy loss] + c_v E[value loss] - c_e E[entropy]

    key: for the entropy estimate. num_groups: how many reset groups there are (static).
    Returns the scalar loss and scalar metrics; loss/policy, loss/value and loss/entropy sum up to
    loss/total.
    """
    coefficient = variant.coefficients

    advantage = switch(
        "advantage_scope",
        variant,
        {
            "minibatch": lambda: normalize_advantages(
                batch.advantage, batch.group, num_groups, variant
            ),
            "batch": lambda: batch.advantage,
        },
    )

    raw, value = networks.both(parameters, batch.observation)

    # Policy
    log_ratio = normal_log_prob(raw, batch.action) - batch.log_prob
    policy_losses, clip_fraction = apply(
        "policy_loss",
        variant,
        log_ratio=log_ratio.reshape(-1),
        advantages=advantage.reshape(-1),
        clip_epsilon=coefficient["clip_epsilon"],
        dual_clip=coefficient["dual_clip"],
        kl_coefficient=coefficient["kl_coefficient"],
    )
    policy_loss = jnp.mean(policy_losses)

    # Value
    value_losses, value_clip_fraction = value_loss_of_each(
        values=value.reshape(-1),
        targets=batch.target.reshape(-1),
        old_values=batch.old_value.reshape(-1),
        variant=variant,
    )
    value_loss = coefficient["value_coefficient"] * jnp.mean(value_losses)

    # Entropy
    mean, std = (x.reshape(-1, x.shape[-1]) for x in mean_and_std(raw))
    noise = jax.random.normal(key, mean.shape)
    entropy = jnp.mean(apply("entropy_estimate", variant, mean=mean, std=std, noise=noise))
    entropy_loss = -coefficient["entropy_coefficient"] * entropy

    loss = policy_loss + value_loss + entropy_loss
    return loss, {
        "loss/policy": policy_loss,
        "loss/value": value_loss,
        "loss/entropy": entropy_loss,
        "loss/total": loss,
        "policy/clip_fraction": clip_fraction,
        "policy/entropy": entropy,
        **ratio_metrics(log_ratio),
        "value/clip_fraction": value_clip_fraction,
        "value/explained_variance": 1.0
        - jnp.var(batch.target - value) / (jnp.var(batch.target) + 1e-8),
        "advantage/mean": jnp.mean(batch.advantage),
        "advantage/std": jnp.std(batch.advantage),
    }


def value_loss_of_each(
    *, values: jax.Array, targets: jax.Array, old_values: jax.Array, variant: Variant
) -> tuple[jax.Array, jax.Array]:
    """The choice of `value_error` under that of `value_clip`: losses [B], and the clip fraction.

    values, targets, old_values: [B]; the estimates at rollout are the old ones.
    """
    coefficient = variant.coefficients

    def error(*, values: jax.Array, targets: jax.Array) -> jax.Array:
        return apply(
            "value_error",
            variant,
            values=values,
            targets=targets,
            error_scale=coefficient["error_scale"],
        )

    losses, clip_fraction = apply(
        "value_clip",
        variant,
        error=error,
        values=values,
        targets=targets,
        old_values=old_values,
        clip_range=coefficient["value_clip_range"],
    )
    return losses, clip_fraction


def ratio_metrics(log_ratio: jax.Array) -> Metrics:
    """How far the policy is from the one that acted, by log ρ of any shape, as scalars.

    approximate_kl is the mean of (ρ - 1) - log ρ, known as k3: never negative, and with less
    variance than kl_k1, the mean of -log ρ. effective_sample_size is (Σρ)² / Σρ² as a share of the
    samples: 1 where all weigh the same.
    """
    ratio = jnp.exp(log_ratio)
    return {
        "policy/approximate_kl": jnp.mean(jnp.expm1(log_ratio) - log_ratio),
        "policy/kl_k1": -jnp.mean(log_ratio),
        "policy/effective_sample_size": jnp.square(jnp.mean(ratio)) / jnp.mean(jnp.square(ratio)),
        "policy/ratio_mean": jnp.mean(ratio),
        "policy/ratio_max": jnp.max(ratio),
    }

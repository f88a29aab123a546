"""The PPO loss of one minibatch: the page to check against the paper."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ablations.trainers.choices import apply
from ablations.trainers.control.advantages import standardised
from ablations.trainers.control.networks import Networks, mean_and_std, normal_log_prob
from ablations.trainers.losses import Metrics, ratio_metrics, value_loss
from ablations.trainers.trainer import Variant


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
    advantage = standardised("minibatch", batch.advantage, batch.group, num_groups, variant)
    raw, value = networks.both(parameters, batch.observation)

    # Policy
    log_ratio = normal_log_prob(raw, batch.action) - batch.log_prob
    policy_losses, clip_fraction = apply(
        "policy_loss",
        variant,
        log_ratio=log_ratio.reshape(-1),
        advantages=advantage.reshape(-1),
    )
    policy_loss = jnp.mean(policy_losses)

    # Value
    value_part, value_metrics = value_loss(
        value=value, target=batch.target, old_value=batch.old_value, variant=variant
    )

    # Entropy
    mean, std = (x.reshape(-1, x.shape[-1]) for x in mean_and_std(raw))
    noise = jax.random.normal(key, mean.shape)
    entropy = jnp.mean(apply("entropy_estimate", variant, mean=mean, std=std, noise=noise))
    entropy_loss = -variant.numbers["entropy_coefficient"] * entropy

    loss = policy_loss + value_part + entropy_loss
    return loss, {
        "loss/policy": policy_loss,
        "loss/entropy": entropy_loss,
        "loss/total": loss,
        "policy/clip_fraction": clip_fraction,
        "policy/entropy": entropy,
        **ratio_metrics(log_ratio),
        **value_metrics,
        "advantage/mean": jnp.mean(batch.advantage),
        "advantage/std": jnp.std(batch.advantage),
    }

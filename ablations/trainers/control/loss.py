"""The PPO loss of one minibatch: the page to check against the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

import variants
from ablations.trainers.choices import apply, switch
from ablations.trainers.control.advantages import Estimate, standardised
from ablations.trainers.control.distribution import Distribution
from ablations.trainers.control.networks import Networks
from ablations.trainers.fusion import materialized
from ablations.trainers.losses import ratio_metrics, value_loss
from ablations.trainers.trainer import Metrics, Tree, Variant

OFFSET = 1e-5  # of Brax's divergence


class Minibatch(NamedTuple):
    """A minibatch: M segments of T steps, from M environments.

    observation: [T, M, O], normalised.
    raw: [T, M, R], what the network of the policy that acted made of it.
    x: [T, M, ...], what was drawn, before it became an action.
    log_prob: [T, M], the density of that by the policy that acted.
    old_value: [T, M], the critic's output at rollout, where value_clip reads it.
    target: [T, M], what the critic should answer.
    advantage: [T, M], not standardised yet unless advantage_scope is "batch".
    group: int32 [T, M], which environments share a reset.
    """

    observation: jax.Array
    raw: jax.Array
    x: jax.Array
    log_prob: jax.Array
    old_value: jax.Array
    advantage: jax.Array
    target: jax.Array
    group: jax.Array


def policy_log_ratio(
    parameters: Tree,
    networks: Networks,
    distribution: Distribution,
    batch: Minibatch,
    variant: Variant,
) -> jax.Array:
    """Return log ρ [T, M] of the policy of these parameters against the one that acted."""
    raw = networks.policy(parameters, batch.observation)
    return distribution.log_prob(raw, batch.x, variant) - batch.log_prob


def ppo_loss(
    parameters: Tree,
    networks: Networks,
    distribution: Distribution,
    batch: Minibatch,
    key: jax.Array,
    variant: Variant,
    num_groups: int,
    estimated: Callable[[jax.Array], Estimate] | None = None,
) -> tuple[jax.Array, Metrics]:
    """Compute loss = E[policy loss] + c_v E[value loss] - c_e E[entropy].

    key: for the entropy estimate, and what else draws. num_groups: how many reset groups
        there are (static). estimated: advantages and targets instead of the batch's, by what the
        critic's network answers now [T, M].
    Returns the scalar loss and scalar metrics; loss/policy, loss/value and loss/entropy sum up to
    loss/total.
    """
    raw, outputs = networks.both(parameters, batch.observation)
    value = networks.head.values(outputs)
    if estimated is not None:
        now = estimated(jax.lax.stop_gradient(value))
        batch = batch._replace(advantage=now.advantage, target=now.target)
    advantage = standardised("minibatch", batch.advantage, batch.group, num_groups, variant)

    # Policy
    scored = distribution.perturbed(raw, key, variant)
    new_log_prob = distribution.log_prob(scored, batch.x, variant)
    log_ratio = new_log_prob - batch.log_prob
    policy_losses, clip_fraction = apply(
        "policy_loss",
        variant,
        log_ratio=log_ratio.reshape(-1),
        advantages=advantage.reshape(-1),
        log_probs=new_log_prob.reshape(-1),
        noise=lambda shape: jax.random.uniform(jax.random.fold_in(key, 1), shape),
    )
    policy_loss = jnp.mean(policy_losses)

    # Value
    value_part, value_metrics = value_loss(
        value=value,
        target=batch.target,
        old_value=batch.old_value,
        variant=variant,
        error=networks.head.error(outputs, variant),
    )

    # Entropy
    entropy = jnp.mean(distribution.entropy(scored, key, variant))
    entropy_loss = -variant.numbers["entropy_coefficient"] * entropy

    loss = policy_loss + value_part + entropy_loss
    # As where learning_rate_schedule is data: else exact_kl is rounded otherwise.
    old_raw, now_raw = materialized((batch.raw, jax.lax.stop_gradient(raw)))
    return loss, {
        "loss/policy": policy_loss,
        "loss/entropy": entropy_loss,
        "loss/total": loss,
        "policy/clip_fraction": clip_fraction,
        "policy/entropy": entropy,
        "policy/exact_kl": distribution.kl(old_raw, now_raw, variant),
        "policy/offset_kl": offset_kl(distribution, old_raw, now_raw, variant),
        **ratio_metrics(log_ratio),
        **value_metrics,
        "advantage/mean": jnp.mean(batch.advantage),
        "advantage/std": jnp.std(batch.advantage),
    }


def offset_kl(
    distribution: Distribution, old: jax.Array, new: jax.Array, variant: Variant
) -> jax.Array:
    """Return Brax's divergence where the schedule reads it, else NaN; a scalar.

    A branch of its own: elsewhere it costs nothing, and does not change how exact_kl is rounded.
    """
    axis = "learning_rate_schedule"
    branches = dict.fromkeys(variants.axis(axis), lambda: jnp.asarray(jnp.nan, jnp.float32))
    branches["adaptive_offset_kl"] = lambda: distribution.kl(old, new, variant, OFFSET)
    return switch(axis, variant, branches)

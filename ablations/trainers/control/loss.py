"""The PPO loss of one minibatch: the page to check against the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

import variants
from ablations.trainers.choices import apply, switch
from ablations.trainers.control.advantages import Estimate, standardised
from ablations.trainers.control.distribution import drawn, exact_kl, log_prob, mean_and_std
from ablations.trainers.control.networks import Networks
from ablations.trainers.losses import ratio_metrics, value_loss
from ablations.trainers.trainer import Metrics, Tree, Variant

OFFSET = 1e-5  # of Brax's divergence


class Minibatch(NamedTuple):
    """A minibatch: M segments of T steps, from M environments.

    observation: [T, M, O], normalised.
    raw: [T, M, 2A], what the network of the policy that acted made of it.
    x: [T, M, A], what was drawn, before it became an action.
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
    parameters: Tree, networks: Networks, batch: Minibatch, variant: Variant
) -> jax.Array:
    """Return log ρ [T, M] of the policy of these parameters against the one that acted."""
    raw = networks.policy(parameters, batch.observation)
    return log_prob(raw, batch.x, variant) - batch.log_prob


def ppo_loss(
    parameters: Tree,
    networks: Networks,
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
    scored = perturbed(raw, key, variant)
    new_log_prob = log_prob(scored, batch.x, variant)
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
    mean, std = (x.reshape(-1, x.shape[-1]) for x in mean_and_std(scored, variant))
    entropy = jnp.mean(
        apply(
            "entropy_estimate",
            variant,
            mean=mean,
            std=std,
            noise=_noise_where_read(key, mean.shape, variant),
            log_slope=lambda x: drawn(mean, std, x, variant).log_slope,
        )
    )
    entropy_loss = -variant.numbers["entropy_coefficient"] * entropy

    loss = policy_loss + value_part + entropy_loss
    return loss, {
        "loss/policy": policy_loss,
        "loss/entropy": entropy_loss,
        "loss/total": loss,
        "policy/clip_fraction": clip_fraction,
        "policy/entropy": entropy,
        "policy/exact_kl": exact_kl(batch.raw, jax.lax.stop_gradient(raw), variant),
        "policy/offset_kl": offset_kl(batch.raw, jax.lax.stop_gradient(raw), variant),
        **ratio_metrics(log_ratio),
        **value_metrics,
        "advantage/mean": jnp.mean(batch.advantage),
        "advantage/std": jnp.std(batch.advantage),
    }


def perturbed(raw: jax.Array, key: jax.Array, variant: Variant) -> jax.Array:
    """Displace the means in a network's [..., 2A] by the choice of mean_perturbation."""

    def displaced() -> jax.Array:
        mean, spread = jnp.split(raw, 2, axis=-1)
        noise = jax.random.uniform(jax.random.fold_in(key, 2), mean.shape)
        mean = apply("mean_perturbation", variant, mean=mean, noise=noise)
        return jnp.concatenate([mean, spread], axis=-1)

    return switch("mean_perturbation", variant, {"none": lambda: raw, "uniform": displaced})


def offset_kl(old: jax.Array, new: jax.Array, variant: Variant) -> jax.Array:
    """Return Brax's divergence where the schedule reads it, else NaN; a scalar.

    A branch of its own: elsewhere it costs nothing, and does not change how exact_kl is rounded.
    """
    axis = "learning_rate_schedule"
    branches = dict.fromkeys(variants.axis(axis), lambda: jnp.asarray(jnp.nan, jnp.float32))
    branches["adaptive_offset_kl"] = lambda: exact_kl(old, new, variant, OFFSET)
    return switch(axis, variant, branches)


def _noise_where_read(key: jax.Array, shape: tuple[int, ...], variant: Variant) -> jax.Array:
    """Draw the noise of an entropy estimate that reads some; zeros elsewhere."""
    axis = variants.axis("entropy_estimate")
    branches = {
        name: (lambda: entropy_noise(key, shape))
        if "noise" in choice.inputs
        else (lambda: jnp.zeros(shape))
        for name, choice in axis.items()
    }
    return switch(axis.name, variant, branches)


def entropy_noise(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draw standard normal noise, for one estimate of the entropy."""
    return jax.random.normal(key, shape)

"""The policy's distribution, as the axes policy_std and action_distribution have it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ablations.trainers.choices import apply
from ablations.trainers.trainer import Variant
from variants.action_distribution import Drawn


def mean_and_std(raw: jax.Array, variant: Variant) -> tuple[jax.Array, jax.Array]:
    """Return mean and std [..., A] of the normal that x is drawn from, by a network's [..., 2A]."""
    mean, spread = jnp.split(raw, 2, axis=-1)
    return mean, apply("policy_std", variant, head=spread, parameter=spread)


def drawn(mean: jax.Array, std: jax.Array, x: jax.Array, variant: Variant) -> Drawn:
    """Return what becomes of x [..., A]: the action, and the log density of x."""
    result: Drawn = apply("action_distribution", variant, mean=mean, std=std, x=x)
    return result


def log_prob(raw: jax.Array, x: jax.Array, variant: Variant) -> jax.Array:
    """Return the log density [...] of x [..., A]."""
    return drawn(*mean_and_std(raw, variant), x, variant).log_prob


def exact_kl(old: jax.Array, new: jax.Array, variant: Variant, offset: float = 0.0) -> jax.Array:
    """Mean of KL(old, new) in closed form, a scalar; both raw [..., 2A].

    Σ log(σ'/σ + offset) + (σ² + (μ - μ')²)/2σ'² - ½, of x: what becomes of it changes no
    divergence.
    """
    old_mean, old_std = mean_and_std(old, variant)
    mean, std = mean_and_std(new, variant)
    moved = jnp.square(old_std) + jnp.square(old_mean - mean)
    each = jnp.log(std / old_std + offset) + moved / (2.0 * jnp.square(std)) - 0.5
    return jnp.mean(jnp.sum(each, axis=-1))

"""Running mean and standard deviation of observations: what the axis observation_statistics holds.

What they make of an observation is the matter of observation_scaling.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ablations.trainers.trainer import Scalar
from variants.shapes import merged

# Per-step statistics start as those of so many observations of mean 0 and variance 1.
PRIOR_COUNT = 1e-4


class Normalizer(NamedTuple):
    """Running statistics of observations.

    mean, variance: float32 [O], or [N, O] where each environment has its own; the variance is that
        of the population (ddof 0).
    batches: uint32 scalar or [N], how many batches went in. All are of one size, so that it stands
        for the number of samples and does not overflow before 2**32 batches. With
        per_step_forgetting a float32 scalar, how many observations it still holds.
    """

    mean: jax.Array
    variance: jax.Array
    batches: jax.Array

    @property
    def spread(self) -> jax.Array:
        """The variance; 1 before the first batch."""
        seen = jnp.expand_dims(self.batches, tuple(range(self.batches.ndim, self.mean.ndim)))
        return jnp.where(seen > 0, self.variance, 1.0)

    @property
    def std(self) -> jax.Array:
        """The standard deviation, within [1e-6, 1e6] as in Brax; 1 before the first batch."""
        return jnp.clip(jnp.sqrt(self.spread), 1e-6, 1e6)


def empty(size: int) -> Normalizer:
    """Return statistics of `size` features that have seen nothing."""
    return Normalizer(jnp.zeros(size), jnp.zeros(size), jnp.uint32(0))


def update(normalizer: Normalizer, observation: jax.Array) -> Normalizer:
    """Update the statistics by one more batch [..., O], of the same size each time."""
    axes = tuple(range(observation.ndim - 1))
    weight = 1.0 / (normalizer.batches.astype(jnp.float32) + 1.0)
    mean, variance = merged(
        normalizer.mean,
        normalizer.variance,
        jnp.mean(observation, axes),
        jnp.var(observation, axes),
        weight,
    )
    return Normalizer(mean, variance, normalizer.batches + 1)


def start(statistics: str, observation: jax.Array, forgetting: Scalar) -> Normalizer:
    """Return the statistics before the first step.

    observation: [N, O], those of the first reset.
    statistics: a choice of observation_statistics, and forgetting its number, as in `step`.
    """
    N, size = observation.shape
    if statistics == "per_batch":
        return empty(size)
    if statistics == "per_step_forgetting":
        nothing = empty(size)._replace(batches=jnp.float32(0))
        return _seen_and_forgotten(nothing, observation, jnp.ones(N, bool), forgetting)
    ones = jnp.ones(size)
    if statistics == "per_environment":
        apart = Normalizer(jnp.zeros((N, size)), jnp.ones((N, size)), jnp.zeros(N, jnp.uint32))
        return _seen_apart(apart, observation)
    nothing = Normalizer(jnp.zeros(size), ones, jnp.uint32(0))
    return nothing if statistics == "per_step_after_first" else _seen_together(nothing, observation)


def step(
    statistics: str,
    normalizer: Normalizer,
    final: jax.Array,
    observation: jax.Array,
    done: jax.Array,
    forgetting: Scalar,
) -> tuple[Normalizer, Normalizer]:
    """Return the statistics that normalize the true next observation, and those after the step.

    final: [N, O], the true next observation; one that ended an episode by no number in it is not
        taken in. observation: [N, O], what the policy sees next, after any reset. done: [N], where
        there was one.
    """
    here = ~done | jnp.all(jnp.isfinite(final), axis=-1)
    if statistics == "per_environment":
        before = _where(here, _seen_apart(normalizer, final), normalizer)
        return before, _where(done, _seen_apart(before, observation), before)
    if statistics == "per_step_forgetting":
        before = _seen_and_forgotten(normalizer, final, here, forgetting)
        return before, _seen_and_forgotten(before, observation, done, forgetting)
    together = _seen_together(normalizer, observation)
    return together, together


def pooled(normalizer: Normalizer) -> Normalizer:
    """Return statistics for any environment: where each has its own, those of all together."""
    if normalizer.mean.ndim == 1:
        return normalizer
    variance = jnp.mean(normalizer.variance, 0) + jnp.var(normalizer.mean, 0)
    return Normalizer(jnp.mean(normalizer.mean, 0), variance, jnp.max(normalizer.batches))


def _where(here: jax.Array, these: Normalizer, others: Normalizer) -> Normalizer:
    """Select these statistics [N, ...] where `here` [N] holds, elsewhere the others."""
    selected: Normalizer = jax.tree.map(
        lambda a, b: jnp.where(jnp.expand_dims(here, tuple(range(1, a.ndim))), a, b), these, others
    )
    return selected


def _seen_together(normalizer: Normalizer, observation: jax.Array) -> Normalizer:
    before = normalizer.batches + PRIOR_COUNT / observation.shape[0]
    return _joined(normalizer, jnp.mean(observation, 0), jnp.var(observation, 0), before)


def _seen_and_forgotten(
    normalizer: Normalizer, observation: jax.Array, here: jax.Array, forgetting: Scalar
) -> Normalizer:
    """Take in those observations [N, O] that are `here` [N]; see per_step_forgetting.

    A decay is that of all three sums, so that mean and variance are those of a set that weighs
    βn, and are kept instead of S and Q, whose difference a large mean would round away.
    """
    k = jnp.sum(here).astype(jnp.float32)
    old = normalizer.batches * (1.0 - jnp.where(k > 0, forgetting, 0.0))
    mean = jnp.mean(observation, 0, where=here[:, None])
    variance = jnp.var(observation, 0, where=here[:, None])
    joined = merged(normalizer.mean, normalizer.variance, mean, variance, k / (old + k))
    kept = zip(Normalizer(*joined, old + k), normalizer, strict=True)
    return Normalizer(*(jnp.where(k > 0, new, before) for new, before in kept))


def _seen_apart(normalizer: Normalizer, observation: jax.Array) -> Normalizer:
    before = (normalizer.batches + PRIOR_COUNT)[:, None]
    return _joined(normalizer, observation, jnp.zeros_like(observation), before)


def _joined(
    normalizer: Normalizer, mean: jax.Array, variance: jax.Array, before: jax.Array
) -> Normalizer:
    """Join the statistics with those of one more batch; before: how many there were, in batches.

    What `shapes.merged` says, for a prior that weighs next to nothing: 1 less a weight of nearly 1
    would keep three digits of it.
    """
    shift = mean - normalizer.mean
    old, new = before / (before + 1.0), 1.0 / (before + 1.0)
    joined = old * normalizer.variance + new * variance + old * new * jnp.square(shift)
    return Normalizer(normalizer.mean + new * shift, joined, normalizer.batches + 1)

"""Running mean and standard deviation of observations, by observation_statistics.

observation_scaling decides how they normalise an observation.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ablations.trainers.trainer import Array, Scalar
from variants.shapes import merged

# Per-step statistics start from this many observations of mean 0 and variance 1.
PRIOR_COUNT = 1e-4


class Normalizer(NamedTuple):
    """Running statistics of observations.

    mean, variance: float32 [O], or [N, O] for separate statistics per environment; ddof 0.
    batches: uint32 scalar or [N], number of batches, all of one size. With per_step_forgetting a
        float32 scalar: the weight of all observations.
    """

    mean: Array
    variance: Array
    batches: Array

    @property
    def spread(self) -> Array:
        """The variance; 1 before the first batch."""
        seen = jnp.expand_dims(self.batches, tuple(range(self.batches.ndim, self.mean.ndim)))
        return jnp.where(seen > 0, self.variance, 1.0)


def empty(size: int) -> Normalizer:
    """Return the statistics of `size` features before the first batch."""
    return Normalizer(jnp.zeros(size), jnp.zeros(size), jnp.uint32(0))


def update(normalizer: Normalizer, observation: Array) -> Normalizer:
    """Add one batch [..., O] of the common size."""
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


def start(statistics: str, observation: Array, forgetting: Scalar) -> Normalizer:
    """Return the statistics before the first step.

    statistics: a choice of observation_statistics. observation: [N, O], of the first reset.
    forgetting: the number observation_forgetting.
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
    final: Array,
    observation: Array,
    done: Array,
    forgetting: Scalar,
) -> tuple[Normalizer, Normalizer]:
    """Return the statistics for the true next observation, and the statistics after the step.

    final: [N, O], the true next observation; a NaN that ended an episode is left out.
    observation: [N, O], the policy's next input, after any reset. done: [N], whether there was a
    reset.
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
    """Pool separate statistics of environments into statistics for any environment."""
    if normalizer.mean.ndim == 1:
        return normalizer
    variance = jnp.mean(normalizer.variance, 0) + jnp.var(normalizer.mean, 0)
    return Normalizer(jnp.mean(normalizer.mean, 0), variance, jnp.max(normalizer.batches))


def _where(here: Array, these: Normalizer, others: Normalizer) -> Normalizer:
    """Select statistics [N, ...] by `here` [N]."""
    selected: Normalizer = jax.tree.map(
        lambda a, b: jnp.where(jnp.expand_dims(here, tuple(range(1, a.ndim))), a, b), these, others
    )
    return selected


def _seen_together(normalizer: Normalizer, observation: Array) -> Normalizer:
    before = normalizer.batches + PRIOR_COUNT / observation.shape[0]
    return _joined(normalizer, jnp.mean(observation, 0), jnp.var(observation, 0), before)


def _seen_and_forgotten(
    normalizer: Normalizer, observation: Array, here: Array, forgetting: Scalar
) -> Normalizer:
    """Add the observations [N, O] with `here` [N], by per_step_forgetting.

    The decay scales all three sums of its formula, so the old set keeps its mean and variance and
    gets the weight βn. Differences of the sums S and Q would lose digits at a large mean.
    """
    k = jnp.sum(here).astype(jnp.float32)
    old = normalizer.batches * (1.0 - jnp.where(k > 0, forgetting, 0.0))
    mean = jnp.mean(observation, 0, where=here[:, None])
    variance = jnp.var(observation, 0, where=here[:, None])
    joined = merged(normalizer.mean, normalizer.variance, mean, variance, k / (old + k))
    kept = zip(Normalizer(*joined, old + k), normalizer, strict=True)
    return Normalizer(*(jnp.where(k > 0, new, before) for new, before in kept))


def _seen_apart(normalizer: Normalizer, observation: Array) -> Normalizer:
    before = (normalizer.batches + PRIOR_COUNT)[:, None]
    return _joined(normalizer, observation, jnp.zeros_like(observation), before)


def _joined(normalizer: Normalizer, mean: Array, variance: Array, before: Array) -> Normalizer:
    """Merge the statistics with one more batch; before: their weight in batches.

    Like `shapes.merged`, but exact for a prior of tiny weight, of which 1 - weight would keep three
    digits.
    """
    shift = mean - normalizer.mean
    old, new = before / (before + 1.0), 1.0 / (before + 1.0)
    joined = old * normalizer.variance + new * variance + old * new * jnp.square(shift)
    return Normalizer(normalizer.mean + new * shift, joined, normalizer.batches + 1)

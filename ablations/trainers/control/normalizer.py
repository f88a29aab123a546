"""Running mean and standard deviation of observations."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.moments import merged


class Normalizer(NamedTuple):
    """Statistics of everything seen so far.

    mean, variance: float32 [O]; the variance is that of the population (ddof 0).
    batches: uint32 scalar, how many batches went in. All are of one size, so that it stands for the
        number of samples and does not overflow before 2**32 batches.
    """

    mean: jax.Array
    variance: jax.Array
    batches: jax.Array

    @property
    def std(self) -> jax.Array:
        """Standard deviation [O], within [1e-6, 1e6] as in Brax; 1 before the first batch."""
        return jnp.where(self.batches > 0, jnp.clip(jnp.sqrt(self.variance), 1e-6, 1e6), 1.0)

    def __call__(self, observation: jax.Array) -> jax.Array:
        """(observation - mean) / std, over the last axis. The identity before the first batch."""
        return (observation - self.mean) / self.std


def empty(size: int) -> Normalizer:
    """A normaliser of `size` features that has seen nothing."""
    return Normalizer(jnp.zeros(size), jnp.zeros(size), jnp.uint32(0))


def update(normalizer: Normalizer, observation: jax.Array) -> Normalizer:
    """The statistics with one more batch [..., O], of the same size each time."""
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

"""Running mean and variance: what a choice and a trainer's observation statistics both update."""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def merged(
    mean: Array, variance: Array, new_mean: Array, new_variance: Array, weight: Array
) -> tuple[Array, Array]:
    """Mean and variance (ddof 0) of two sets, by Chan, Golub and LeVeque (1979).

    new_mean, new_variance: m and v, those of the second set. weight: w, its share in all samples.

        mean' = mean + w (m - mean)
        variance' = variance + w (v - variance + (m - mean)(m - mean'))
    """
    shift = new_mean - mean
    merged_mean = mean + weight * shift
    merged_variance = variance + weight * (
        new_variance - variance + shift * (new_mean - merged_mean)
    )
    return merged_mean, jnp.maximum(merged_variance, 0)

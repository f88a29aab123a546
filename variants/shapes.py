"""Shared array functions: stand-ins, shape checks, merged moments, the symmetric logarithm."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

Array = jax.Array
Scalar = Array | float
Tree: TypeAlias = Any  # a pytree of arrays or other leaves


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    """Return the stand-in of a float32 array for the registration check."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def require_equal_shapes(**arrays: ArrayLike) -> None:
    """Raise ValueError unless all arrays have one shape: [B] and [B, 1] broadcast to [B, B]."""
    shapes = {name: jnp.shape(array) for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"these must have one shape: {listed}")


def merged(
    mean: Array, variance: Array, new_mean: Array, new_variance: Array, weight: Array
) -> tuple[Array, Array]:
    """Merge mean and variance (ddof 0) of two sets, by Chan, Golub and LeVeque (1979).

    new_mean m, new_variance v: of the second set. weight w: the second set's share of all samples.

        mean' = mean + w (m - mean)
        variance' = variance + w (v - variance + (m - mean)(m - mean'))
    """
    shift = new_mean - mean
    merged_mean = mean + weight * shift
    merged_variance = variance + weight * (
        new_variance - variance + shift * (new_mean - merged_mean)
    )
    return merged_mean, jnp.maximum(merged_variance, 0)


def symlog(x: jax.Array) -> jax.Array:
    """sign(x)·ln(1 + |x|): Webber 2013; DreamerV3 (Hafner et al. 2023), equation 9."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def symexp(x: jax.Array) -> jax.Array:
    """sign(x)(exp|x| - 1), the inverse of `symlog`."""
    return jnp.sign(x) * jnp.expm1(jnp.abs(x))

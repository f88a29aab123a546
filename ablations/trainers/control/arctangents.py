"""Arc tangent, arc sine and arc cosine in float32, without the C library.

XLA on a CPU calls the C library for them, whose last bits changed with glibc 2.41, one number at a
time. These are a polynomial, a quotient and a square root, which XLA vectorizes, with the same bits
on every x86 processor that has AVX2, given the flags of `worker_environment` in
ablations/sweep/machine.py. They are not made to be differentiated.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

# atan(t) = t + t z q(z) with z = t^2: q on [0, 1], highest power first, where the largest relative
# error of the whole is least (2e-9, by reweighted least squares).
_Q = np.array(
    [
        -0.0017539302,
        0.010726945,
        -0.030804602,
        0.057552110,
        -0.083773158,
        0.10942031,
        -0.14261933,
        0.19998266,
        -0.33333284,
    ],
    np.float32,
)


def arctan2(y: jax.Array, x: jax.Array) -> jax.Array:
    """Angle of the point (x, y) in radians, float32, within 2 units in the last place.

    Subnormal numbers count as 0, as everywhere in XLA's code.
    """
    across, up = jnp.abs(x), jnp.abs(y)
    least, most = jnp.minimum(across, up), jnp.maximum(across, up)
    ratio = least / jnp.where(most == 0, 1, most)
    ratio = jnp.where(jnp.isinf(least), 1, ratio)
    square = ratio * ratio
    angle = ratio + ratio * (square * jnp.polyval(_Q, square, unroll=_Q.size))
    angle = jnp.where(up > across, np.float32(np.pi / 2) - angle, angle)
    angle = jnp.where(jnp.signbit(x), np.float32(np.pi) - angle, angle)
    return jnp.copysign(angle, y)


def arctan(x: jax.Array) -> jax.Array:
    """Angle whose tangent is x, in radians."""
    return arctan2(x, jnp.ones_like(x))


def arcsin(x: jax.Array) -> jax.Array:
    """Angle whose sine is x, in radians; not a number beyond 1."""
    return arctan2(x, jnp.sqrt((1 - x) * (1 + x)))


def arccos(x: jax.Array) -> jax.Array:
    """Angle whose cosine is x, in radians; not a number beyond 1."""
    return arctan2(jnp.sqrt((1 - x) * (1 + x)), x)

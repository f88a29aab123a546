"""The symmetric logarithm, which squashes large numbers of either sign, and its inverse.

Webber 2013; Hafner et al. 2023 (DreamerV3), https://arxiv.org/abs/2301.04104, equation 9.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def symlog(x: jax.Array) -> jax.Array:
    """sign(x)·ln(1 + |x|)."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def symexp(x: jax.Array) -> jax.Array:
    """sign(x)(exp|x| - 1)."""
    return jnp.sign(x) * jnp.expm1(jnp.abs(x))

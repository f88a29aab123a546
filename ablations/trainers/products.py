"""Matrix products whose gradients XLA compiles itself on a CPU.

XLA's own code for a product has the same bits on every processor of an instruction set, but it
takes only products of the form [M, K] by [K, N]; others go to a library that looks at the machine.
The gradient of a product has two of those others, so here it transposes first. `worker_environment`
of ablations/sweep/machine.py sets the flags that go with it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


@jax.custom_vjp
def product(left: jax.Array, right: jax.Array) -> jax.Array:
    """left [..., M, K] times right [..., K, N] -> [..., M, N]; the leading axes are the same."""
    return jnp.matmul(left, right)


def transposed(matrix: jax.Array) -> jax.Array:
    """[..., M, N] -> [..., N, M]; on a CPU a copy of its own, which XLA does not fold into a
    product."""
    turned = jnp.swapaxes(matrix, -1, -2)
    return jax.lax.optimization_barrier(turned) if jax.default_backend() == "cpu" else turned


def _forward(left: jax.Array, right: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return jnp.matmul(left, right), (left, right)


def _backward(
    factors: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    left, right = factors
    return jnp.matmul(gradient, transposed(right)), jnp.matmul(transposed(left), gradient)


product.defvjp(_forward, _backward)


def dense_product(
    inputs: jax.Array, kernel: jax.Array, dimension_numbers: Any, **_: Any
) -> jax.Array:
    """`product` in place of `jax.lax.dot_general` in a flax Dense layer: inputs [..., I], kernel
    [I, O] -> [..., O]."""
    del dimension_numbers  # always the last axis by the first
    flat = product(inputs.reshape(-1, inputs.shape[-1]), kernel)
    return flat.reshape(*inputs.shape[:-1], kernel.shape[-1])

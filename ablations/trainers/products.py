"""Matrix products whose gradients XLA compiles itself on a CPU.

XLA's own code for a product has the same bits on every processor of an instruction set, but it
takes only products of the form [M, K] by [K, N]; others go to a library that looks at the machine.
The gradient of a product has two of those others, so here it transposes first. `worker_environment`
of ablations/sweep/machine.py sets the flags that go with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen


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


def dense_product(inputs: jax.Array, kernel: jax.Array) -> jax.Array:
    """`product` of the last axis: inputs [..., I], kernel [I, O] -> [..., O]."""
    flat = product(inputs.reshape(-1, inputs.shape[-1]), kernel)
    return flat.reshape(*inputs.shape[:-1], kernel.shape[-1])


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def repeated(vector: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """vector [O] broadcast to a shape [..., O]. Its gradient is summed as a product with ones: XLA
    fuses a sum over rows with what makes them, and walks down each column on its own."""
    return jnp.broadcast_to(vector, shape)


def _repeated(vector: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, None]:
    return repeated(vector, shape), None


def _summed(shape: tuple[int, ...], _: None, gradient: jax.Array) -> tuple[jax.Array]:
    rows = gradient.reshape(-1, shape[-1])
    ones = jax.lax.optimization_barrier(jnp.ones((1, rows.shape[0]), rows.dtype))
    return (jnp.matmul(ones, rows)[0],)


repeated.defvjp(_repeated, _summed)


class Dense(linen.Module):
    """As `linen.Dense`, with the products of this module."""

    features: int
    use_bias: bool = True
    kernel_init: Callable[..., Any] = linen.initializers.lecun_normal()
    bias_init: Callable[..., Any] = linen.initializers.zeros_init()

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", self.kernel_init, (x.shape[-1], self.features))
        y = dense_product(x, kernel)
        if self.use_bias:
            y = y + repeated(self.param("bias", self.bias_init, (self.features,)), y.shape)
        return y

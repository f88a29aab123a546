"""Matrix products whose gradients XLA compiles itself on a CPU.

XLA's own code for a product gives the same bits on every processor of an instruction set, but it
takes only products [M, K] by [K, N]. The gradient of a product contains two other forms, which XLA
passes to a library that adapts to the machine. Here these are transposed first.
`worker_environment` in ablations/engine/machine.py sets the flags for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from flax import linen

from ablations.trainers.trainer import Array

Arrays = TypeVar("Arrays")


def materialized(arrays: Arrays) -> Arrays:
    """Return the same arrays, which XLA on a CPU then computes once.

    It does so given the flags of `worker_environment` in ablations/engine/machine.py.

    XLA fuses operations into loops, and an array that several loops read is computed in each. It
    fuses nothing across this barrier; without those flags it drops the barrier before it fuses.
    """
    if jax.default_backend() != "cpu":
        return arrays
    barred: Arrays = jax.lax.optimization_barrier(arrays)
    return barred


@jax.custom_vjp
def product(left: Array, right: Array) -> Array:
    """Multiply left [..., M, K] by right [..., K, N]; the leading axes are the same."""
    return jnp.matmul(left, right)


def transposed(matrix: Array) -> Array:
    """Transpose [..., M, N], on a CPU by a copy, which XLA may fuse with what makes the matrix.

    The factor 1 is behind a barrier, so XLA cannot leave out the multiplication and fold the
    transposition into a product.
    """
    return jnp.swapaxes(matrix, -1, -2) * materialized(jnp.ones((), matrix.dtype))


def _backward(factors: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    left, right = factors
    return jnp.matmul(gradient, transposed(right)), jnp.matmul(transposed(left), gradient)


product.defvjp(lambda left, right: (jnp.matmul(left, right), (left, right)), _backward)


@jax.custom_vjp
def affine(inputs: Array, kernel: Array, bias: Array) -> Array:
    """Multiply inputs [M, K] by kernel [K, N] and add bias [N] to every row.

    The gradient of the bias is one more row of the kernel's. XLA would fuse its sum over M with
    what makes the terms and walk down each column on its own, which takes longer than the product.
    """
    return jnp.matmul(inputs, kernel) + bias


def _affine_backward(factors: tuple[Array, Array], gradient: Array) -> tuple[Array, Array, Array]:
    inputs, kernel = factors
    if jax.default_backend() != "cpu":
        return *_backward(factors, gradient), gradient.sum(0)
    # Not `transposed`: an activation that is fused into the copy is computed along its columns.
    ones = jnp.ones((inputs.shape[0], 1), inputs.dtype)
    rows = jnp.matmul(materialized(jnp.concatenate([inputs, ones], 1).T), gradient)
    return jnp.matmul(gradient, materialized(kernel.T)), rows[:-1], rows[-1]


affine.defvjp(
    lambda inputs, kernel, bias: (jnp.matmul(inputs, kernel) + bias, (inputs, kernel)),
    _affine_backward,
)


def dense_product(inputs: Array, kernel: Array) -> Array:
    """Multiply the last axis of inputs [..., I] by kernel [I, O], as `product` does."""
    return _of_rows(product, inputs, kernel)


def _of_rows(function: Callable[..., Array], inputs: Array, *more: Array) -> Array:
    """Apply a function of inputs [M, I], with rows of outputs, to inputs [..., I]."""
    rows = function(inputs.reshape(-1, inputs.shape[-1]), *more)
    return rows.reshape(*inputs.shape[:-1], rows.shape[-1])


class Dense(linen.Module):
    """As `linen.Dense` in float32, with the products of this module."""

    features: int
    use_bias: bool = True
    kernel_init: Callable[..., Array] = linen.initializers.lecun_normal()
    bias_init: Callable[..., Array] = linen.initializers.zeros_init()

    @linen.compact
    def __call__(self, x: Array) -> Array:
        """Return the outputs [..., features] for inputs x [..., I]."""
        kernel = self.param("kernel", self.kernel_init, (x.shape[-1], self.features), jnp.float32)
        if not self.use_bias:
            return dense_product(x, kernel)
        bias = self.param("bias", self.bias_init, (self.features,), jnp.float32)
        return _of_rows(affine, x, kernel, bias)

"""Dense layers on products whose gradients XLA compiles itself, against flax's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

from ablations.trainers.products import Dense

LANES = 2


@pytest.mark.parametrize(
    ("use_bias", "shape"), [(True, (7,)), (True, (3, 5, 7)), (False, (3, 5, 7))]
)
def test_a_layer_starts_computes_and_learns_as_that_of_flax(
    use_bias: bool, shape: tuple[int, ...]
) -> None:
    inputs = jax.random.normal(jax.random.key(1), (LANES, *shape))
    keys = jax.random.split(jax.random.key(0), LANES)

    def start(layer: Any) -> Any:
        return jax.vmap(lambda key: layer.init(key, inputs[0]))(keys)

    def learned(layer: Any, parameters: Any) -> Any:
        def loss(parameters: Any, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
            outputs = layer.apply(parameters, inputs)
            return jnp.sum(jnp.sin(outputs)), outputs

        gradients = jax.jit(jax.grad(loss, (0, 1), has_aux=True))
        alone = gradients(jax.tree.map(lambda x: x[0], parameters), inputs[0].astype(float))
        return alone, jax.jit(jax.vmap(gradients))(parameters, inputs.astype(float))

    ours, theirs = (
        kind(4, use_bias=use_bias, bias_init=linen.initializers.normal())
        for kind in (Dense, linen.Dense)
    )
    parameters = start(ours)
    jax.tree.map(np.testing.assert_array_equal, parameters, start(theirs))
    with jax.enable_x64(True):
        parameters = jax.tree.map(lambda x: x.astype(float), parameters)
        jax.tree.map(
            lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12),
            learned(ours, parameters),
            learned(theirs, parameters),
        )

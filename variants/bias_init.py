"""The initial biases of one layer.

Shapes: the output is [O]; fan_in (inputs of the layer) and size (O) are static; key is a PRNG key.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from variants.registry import Axis
from variants.shapes import Array

AXIS = Axis(
    "bias_init",
    summary="the biases that learning starts from",
    inputs={"key": jax.eval_shape(lambda: jax.random.key(0)), "fan_in": 4, "size": 3},
)


@AXIS.choice("zeros", formula="0", source="all but RSL-RL", summary="every bias starts at 0")
def zeros(*, size: int) -> Array:
    return jnp.zeros(size)


@AXIS.choice(
    "torch_uniform",
    formula="b ~ U(-1/√I, 1/√I),  I: inputs of the layer",
    source="PyTorch's default for linear layers, so RSL-RL (rsl_rl/modules/mlp.py)",
    summary="biases as spread out as PyTorch's weights",
)
def torch_uniform(*, key: Array, fan_in: int, size: int) -> Array:
    bound = 1 / math.sqrt(fan_in)
    return jax.random.uniform(key, (size,), minval=-bound, maxval=bound)

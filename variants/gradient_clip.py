"""Limiting a gradient before the optimiser sees it.

Shapes: gradients is any pytree of arrays, returned with the same structure, shapes and dtypes.
max_gradient_norm is the limit of whichever norm: of the whole gradient, or of each single entry.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from variants.choice import Number
from variants.registry import Axis, register

Array = jax.Array

AXIS = register(
    Axis(
        "gradient_clip",
        summary="how large a gradient may be",
        inputs={
            "gradients": {
                "kernel": jax.ShapeDtypeStruct((3, 2), jnp.float32),
                "bias": jax.ShapeDtypeStruct((2,), jnp.float32),
            },
        },
        numbers={
            "max_gradient_norm": Number(
                0.5, 0.0, 1e6, "limit of gradient_clip, of the whole gradient or of each entry"
            ),
        },
    )
)


@AXIS.choice("none", formula="g", source="Brax's default", summary="the gradient as it is")
def none(*, gradients: Any) -> Any:
    """g, unchanged."""
    return gradients


@AXIS.choice(
    "global_norm",
    formula="g·min(1, c/‖g‖₂),  c = max_gradient_norm,  ‖·‖₂ over all parameters at once",
    source="CleanRL, Stable-Baselines3, OpenAI Baselines (c = 0.5), RSL-RL (c = 1)",
    summary="the whole gradient is shortened to a maximal length, its direction kept",
)
def global_norm(*, gradients: Any, max_gradient_norm: Array | float) -> Any:
    """g·min(1, c/‖g‖₂); a zero gradient stays zero."""
    squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradients))
    # A gradient within the limit is returned bit by bit: its factor is exactly 1.
    inside = squares <= jnp.square(max_gradient_norm)
    factor = jnp.where(inside, 1, max_gradient_norm / jnp.sqrt(jnp.where(inside, 1, squares)))
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), gradients)


@AXIS.choice(
    "element_wise",
    formula="clip(g, -c, c) for each entry,  c = max_gradient_norm",
    source="optax.clip; PyTorch's clip_grad_value_",
    summary="each entry by itself is cut to the limit: the direction may change",
)
def element_wise(*, gradients: Any, max_gradient_norm: Array | float) -> Any:
    """clip(g, -c, c), entry by entry."""
    limit = jnp.asarray(max_gradient_norm)
    return jax.tree.map(
        lambda leaf: jnp.clip(leaf, -limit.astype(leaf.dtype), limit.astype(leaf.dtype)), gradients
    )

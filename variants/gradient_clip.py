"""Limits on a gradient before the optimiser uses it.

gradients is any pytree of arrays; the output has the same structure, shapes and dtypes.
per_network treats each outermost entry as a network. max_gradient_norm limits the norm of the whole
gradient, the norm of each network's gradient, or the size of each entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.shapes import Scalar, Tree, floats

Gradients = TypeVar("Gradients")

AXIS = Axis(
    "gradient_clip",
    summary="how large a gradient may be",
    inputs={"gradients": {"kernel": floats(3, 2), "bias": floats(2)}},
    numbers={
        "max_gradient_norm": Number(
            0.5, 0.0, 1e6, "limit of gradient_clip, of the whole gradient or of each entry"
        ),
        "gradient_norm_epsilon": Number(
            0.0, 0.0, 1.0, "added to the norm that gradient_clip divides by; 1e-6 in PyTorch"
        ),
    },
)


@AXIS.choice("none", formula="g", source="Brax's default", summary="the gradient as it is")
def none(*, gradients: Gradients) -> Gradients:
    return gradients


@AXIS.choice(
    "global_norm",
    formula=(
        "g·min(1, c/(‖g‖₂ + ε)),  ‖·‖₂ over all parameters at once,\n"
        "c = max_gradient_norm,  ε = gradient_norm_epsilon"
    ),
    source="PureJaxRL, OpenAI Baselines (c = 0.5); CleanRL, Stable-Baselines3 (and ε = 10⁻⁶)",
    summary="the whole gradient is shortened to a maximal length, its direction kept",
)
def global_norm(
    *, gradients: Tree, max_gradient_norm: Scalar, gradient_norm_epsilon: Scalar
) -> Tree:
    squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradients))
    # The factor of a gradient within the limit is exactly 1.
    room = jnp.maximum(max_gradient_norm - gradient_norm_epsilon, 0)
    inside = squares <= jnp.square(room)
    norm = jnp.sqrt(jnp.where(inside, 1, squares)) + gradient_norm_epsilon
    factor = jnp.where(inside, 1, max_gradient_norm / norm)
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), gradients)


@AXIS.choice(
    "per_network",
    formula="global_norm of each network by itself; the policy's std parameter belongs to it",
    source="RSL-RL since 4.0.0 (rsl_rl/algorithms/ppo.py), c = 1, ε = 10⁻⁶",
    summary="a large gradient of the critic does not shorten the policy's step",
)
def per_network(
    *, gradients: Mapping[str, Tree], max_gradient_norm: Scalar, gradient_norm_epsilon: Scalar
) -> dict[str, Tree]:
    return {
        name: global_norm(
            gradients=part,
            max_gradient_norm=max_gradient_norm,
            gradient_norm_epsilon=gradient_norm_epsilon,
        )
        for name, part in gradients.items()
    }


@AXIS.choice(
    "element_wise",
    formula="clip(g, -c, c) for each entry,  c = max_gradient_norm",
    source="optax.clip; PyTorch's clip_grad_value_",
    summary="each entry by itself is cut to the limit: the direction may change",
)
def element_wise(*, gradients: Tree, max_gradient_norm: Scalar) -> Tree:
    limit = jnp.asarray(max_gradient_norm)
    return jax.tree.map(
        lambda leaf: jnp.clip(leaf, -limit.astype(leaf.dtype), limit.astype(leaf.dtype)), gradients
    )

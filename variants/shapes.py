"""Shapes that must agree: a [B] by mistake against a [B, 1] would broadcast to [B, B] silently."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax.numpy as jnp
from jax.typing import ArrayLike

Tree: TypeAlias = Any  # a pytree of arrays or other leaves


def require_equal_shapes(**arrays: ArrayLike) -> None:
    """Raise ValueError, naming the arrays, unless all of them have one shape."""
    shapes = {name: jnp.shape(array) for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"these must have one shape: {listed}")

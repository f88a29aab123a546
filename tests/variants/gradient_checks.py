"""What variants/gradient_clip.py must satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from oracles import check_of, close


def gradient_tree(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "kernel": jnp.asarray(rng.normal(size=(4, 3)), jnp.float32),
        "layers": [jnp.asarray(rng.normal(size=5), jnp.float32), jnp.float32(0.4)],
    }


@check_of("gradient_clip")
def global_norm_equals_optax(module: ModuleType) -> None:
    import optax

    gradients = gradient_tree(0)
    for max_norm in (0.1, 0.5, 3.0, 100.0):
        clip = optax.clip_by_global_norm(max_norm)
        expected, _ = clip.update(gradients, clip.init(gradients))
        got = module.AXIS.apply("global_norm", gradients=gradients, max_gradient_norm=max_norm)
        jax.tree.map(close, got, expected)
        norm = np.sqrt(sum(np.sum(np.square(x, dtype=np.float64)) for x in jax.tree.leaves(got)))
        assert norm <= max_norm * (1 + 1e-6)


@check_of("gradient_clip")
def element_wise_equals_optax(module: ModuleType) -> None:
    import optax

    gradients = gradient_tree(2)
    for limit in (0.1, 0.5, 100.0):
        clip = optax.clip(limit)
        expected, _ = clip.update(gradients, clip.init(gradients))
        got = module.AXIS.apply("element_wise", gradients=gradients, max_gradient_norm=limit)
        jax.tree.map(np.testing.assert_array_equal, got, expected)


@check_of("gradient_clip")
def small_gradients_keep_their_bits(module: ModuleType) -> None:
    gradients = gradient_tree(1)
    for choice, max_norm in (
        ("none", 0.0),
        ("global_norm", 100.0),
        ("global_norm", np.inf),
        ("element_wise", 100.0),
        ("element_wise", np.inf),
    ):
        got = module.AXIS.apply(choice, gradients=gradients, max_gradient_norm=max_norm)
        jax.tree.map(np.testing.assert_array_equal, got, gradients)
    zero = jax.tree.map(jnp.zeros_like, gradients)
    for max_norm in (0.0, 0.5):
        got = module.AXIS.apply("global_norm", gradients=zero, max_gradient_norm=max_norm)
        jax.tree.map(np.testing.assert_array_equal, got, zero)

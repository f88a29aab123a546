"""On an accelerator a switch computes every choice and selects one: the others must do no harm."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_switching import WITH_FUNCTIONS, inputs_of

BOUNDED = ("mask", "termination", "truncation", "done")


def is_data(x) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating)) and x.ndim > 0


@pytest.mark.parametrize("axis", WITH_FUNCTIONS, ids=lambda axis: axis.name)
def test_a_lane_has_the_gradient_of_its_choice_beside_overflowing_ones(axis):
    """0 times infinity, in the derivative of a choice that is not selected, would be NaN."""
    (state, data), static = inputs_of(axis, batch=8)
    static |= {name: 64 for name in static if name == "num_groups"}
    wide = {
        name: jax.tree.map(lambda x: 400 * (2 * x - 1) if is_data(x) else x, value)
        for name, value in data.items()
        if name in axis.inputs and name not in BOUNDED
    }
    leaves, tree = jax.tree.flatten({**data, **wide})
    where = [i for i, leaf in enumerate(leaves) if is_data(leaf)]

    def total(choice, moved):
        given = list(leaves)
        for i, leaf in zip(where, moved, strict=True):
            given[i] = leaf
        out = axis.apply(choice, *state, **jax.tree.unflatten(tree, given), **static)
        floats = [x for x in jax.tree.leaves(out) if jnp.issubdtype(x.dtype, jnp.floating)]
        # Not a plain sum: of normalised numbers it is 0, whatever they are.
        return sum(jnp.vdot(jnp.cos(jnp.arange(x.size)), x.ravel()) for x in floats)

    moved = [leaves[i] for i in where]
    gradient = jax.grad(lambda choice, moved: 0.0 + total(choice, moved), argnums=1)
    lanes = jax.jit(jax.vmap(gradient, in_axes=(0, None)))(jnp.arange(len(axis)), moved)
    for index, name in enumerate(axis):
        alone = jax.jit(gradient, static_argnums=0)(name, moved)
        for one, other in zip(alone, lanes, strict=True):
            healthy = np.isfinite(one)
            size = np.abs(one[healthy]).max(initial=0.0) + 1e-2
            np.testing.assert_allclose(other[index][healthy], one[healthy], atol=1e-3 * size)

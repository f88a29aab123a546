"""Permutations against JAX's own, and the sort beneath them against NumPy's."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from composed import variant

import variants
from ablations.trainers.shuffles import ascending, orders, permutation


@pytest.mark.parametrize("size", [1, 512, 1626])
def test_a_permutation_is_that_of_jax(size: int) -> None:
    """Up to a size of 1,625 it takes one round, then two."""
    keys = jax.random.split(jax.random.key(size), 2)
    ours = jax.vmap(lambda key: permutation(key, size))(keys)
    theirs = jax.vmap(lambda key: jax.random.permutation(key, size))(keys)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def test_equal_keys_stay_in_their_order() -> None:
    keys = np.random.default_rng(0).integers(0, 9, 1000, dtype=np.uint32)
    keys[::7] = np.uint32(2**32 - 1)
    np.testing.assert_array_equal(ascending(keys), np.argsort(keys, kind="stable"))


def test_orders_of_epochs() -> None:
    """Of each choice, by what two epochs have in common."""
    keys = jax.random.split(jax.random.key(0), 3)
    found = {
        name: np.asarray(orders(keys, 12, variant(minibatch_order=name)))
        for name in variants.axis("minibatch_order")
    }
    fresh = np.stack([np.asarray(jax.random.permutation(key, 12)) for key in keys])
    on = [fresh[0], fresh[0][fresh[1]], fresh[0][fresh[1]][fresh[2]]]
    np.testing.assert_array_equal(found.pop("redrawn"), fresh)
    np.testing.assert_array_equal(found.pop("reused"), [fresh[0]] * 3)
    np.testing.assert_array_equal(found.pop("shuffled_on"), on)
    np.testing.assert_array_equal(found.pop("kept"), [np.arange(12)] * 3)
    assert not found

"""A pytree as named arrays on the host, and back, for checkpoints and saved policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ablations.trainers.trainer import Tree

Array: TypeAlias = "jax.Array | np.ndarray | jax.ShapeDtypeStruct"


class Mismatch(ValueError):
    """Arrays that differ from the expected pytree in names, shapes or dtypes."""


def to_arrays(tree: Tree) -> dict[str, np.ndarray]:
    """Return a copy of every leaf by its path, such as "parameters/policy/params/hidden_0/kernel".

    Random keys become their uint32 data. Leaves without elements are left out. Raises Mismatch if
    two leaves have one path.
    """
    arrays = {name: np.array(leaf) for name, leaf in by_path(jax.tree.map(_data, tree)).items()}
    if len(arrays) != len(jax.tree.leaves(tree)):
        raise Mismatch("two leaves of this pytree have one path: rename a field or a key")
    return {name: array for name, array in arrays.items() if array.size}


def from_arrays(arrays: Mapping[str, np.ndarray], like: Tree) -> Tree:
    """Return a pytree of arrays by path; the inverse of `to_arrays`.

    like: a pytree of the same structure whose leaves have a shape and a dtype, such as a result of
        `jax.eval_shape`. Raises Mismatch.
    """
    expected, treedef = by_path(like), jax.tree.structure(like)
    data = {
        name: jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
        for name, leaf in expected.items()
    }
    empty = {n: np.zeros(leaf.shape, leaf.dtype) for n, leaf in data.items() if 0 in leaf.shape}
    arrays = {**empty, **arrays}
    if differing := differences(arrays, data):
        raise Mismatch(differing)
    leaves = [
        jax.random.wrap_key_data(jnp.asarray(arrays[name]), impl=leaf.dtype._impl.name)
        if _is_key(leaf)
        else arrays[name]
        for name, leaf in expected.items()
    ]
    return jax.tree_util.tree_unflatten(treedef, leaves)


def by_path(tree: Tree) -> dict[str, Tree]:
    """Return every leaf of a pytree by its path."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def differences(arrays: Mapping[str, Array], expected: Mapping[str, Array]) -> str:
    """Describe up to three differences between arrays and their expected shapes; "" if equal."""
    found = [f"'{name}' is missing" for name in expected if name not in arrays]
    found += [f"'{name}' is not expected" for name in arrays if name not in expected]
    for name, leaf in expected.items():
        if name in arrays:
            mine, its = (f"{x.dtype}{list(x.shape)}" for x in (leaf, arrays[name]))
            if mine != its:
                found.append(f"'{name}' is {its}, not {mine}")
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _data(leaf: jax.Array | np.ndarray | float) -> jax.Array | np.ndarray:
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    return jax.random.key_data(array) if _is_key(array) else array

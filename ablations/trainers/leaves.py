"""A pytree as named arrays on the host, and back: what checkpoints and saved policies hold."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from ablations.trainers.trainer import Tree


class Mismatch(ValueError):
    """Arrays that are not those of the expected pytree; the message says what differs."""


def to_arrays(tree: Tree) -> dict[str, np.ndarray]:
    """Return a copy of every leaf by its path, random keys as their uint32 data.

    A path is such as "parameters/policy/params/hidden_0/kernel".
    """
    leaves = jax.tree_util.tree_leaves_with_path(jax.tree.map(_data, tree))
    arrays = {_name(path): np.array(leaf) for path, leaf in leaves}
    if len(arrays) != len(leaves):
        raise Mismatch("two leaves of this pytree have one path: rename a field or a key")
    return arrays


def from_arrays(arrays: Mapping[str, np.ndarray], like: Tree) -> Tree:
    """Return the pytree of these arrays.

    like: a pytree of the same structure whose leaves have a shape and a dtype, such as
        `jax.eval_shape` returns. Raises Mismatch.
    """
    paths, treedef = jax.tree_util.tree_flatten_with_path(like)
    expected = {_name(path): leaf for path, leaf in paths}
    if complaints := _differences(arrays, {n: _data_like(leaf) for n, leaf in expected.items()}):
        more = f" and {len(complaints) - 3} more" if len(complaints) > 3 else ""
        raise Mismatch("; ".join(complaints[:3]) + more)
    leaves = [
        jax.random.wrap_key_data(jnp.asarray(arrays[name]), impl=leaf.dtype._impl.name)
        if _is_key(leaf)
        else arrays[name]
        for name, leaf in expected.items()
    ]
    return jax.tree_util.tree_unflatten(treedef, leaves)


def _differences(
    arrays: Mapping[str, np.ndarray], expected: Mapping[str, jax.ShapeDtypeStruct]
) -> list[str]:
    found = [f"'{name}' is missing" for name in expected if name not in arrays]
    found += [f"'{name}' is not expected" for name in arrays if name not in expected]
    for name, leaf in expected.items():
        if name in arrays:
            mine, its = (f"{x.dtype}{list(x.shape)}" for x in (leaf, arrays[name]))
            if mine != its:
                found.append(f"'{name}' is {its}, not {mine}")
    return found


def _name(path: tuple[jax.tree_util.KeyEntry, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_key(leaf: jax.Array | np.ndarray | jax.ShapeDtypeStruct) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _data(leaf: jax.Array | np.ndarray | float) -> jax.Array | np.ndarray:
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    return jax.random.key_data(array) if _is_key(array) else array


def _data_like(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf

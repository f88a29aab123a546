"""Comparing what functions take and return, without running them: for the registration check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax

from variants.shapes import Tree


def is_abstract(value: Tree) -> bool:
    """Return whether a pytree consists of stand-ins for arrays (`jax.ShapeDtypeStruct`) alone."""
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)


def split_inputs(inputs: Mapping[str, Tree]) -> tuple[dict[str, Tree], dict[str, Tree]]:
    """Return the inputs that are data, as stand-ins, and those that are static."""
    data = {name: value for name, value in inputs.items() if is_abstract(value)}
    return data, {name: value for name, value in inputs.items() if name not in data}


def first_difference(got: Tree, expected: Tree) -> tuple[str, str] | None:
    """Return the first difference of two abstract pytrees, in words, or None."""
    if repr(jax.tree.structure(got)) != repr(jax.tree.structure(expected)):
        return _tree(got), _tree(expected)
    pairs = zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True)
    for (path, one), other in pairs:
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            return _array(one) + place, _array(other)
    return None


def _tree(value: Tree) -> str:
    return str(jax.tree.map(_array, value)).replace("'", "")


def _array(value: jax.ShapeDtypeStruct) -> str:
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def differences(missing: Iterable[str], unknown: Iterable[str]) -> str:
    """Return the missing and the unknown names, for a message; empty where there are none."""
    parts = {"missing": ", ".join(missing), "unknown": ", ".join(unknown)}
    return "; ".join(f"{kind} {names}" for kind, names in parts.items() if names)

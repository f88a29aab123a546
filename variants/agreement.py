"""Comparing what functions take and return, without running them: for the registration check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax


def is_abstract(value: Any) -> bool:
    """Whether a pytree consists of stand-ins for arrays (`jax.ShapeDtypeStruct`) alone."""
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)


def split_inputs(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs that are data, as stand-ins, and those that are static."""
    data = {name: value for name, value in inputs.items() if is_abstract(value)}
    return data, {name: value for name, value in inputs.items() if name not in data}


def first_difference(got: Any, expected: Any) -> tuple[str, str] | None:
    """Where two abstract pytrees part, in words, or None."""
    if repr(jax.tree.structure(got)) != repr(jax.tree.structure(expected)):
        return _tree(got), _tree(expected)
    pairs = zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True)
    for (path, one), other in pairs:
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            return _array(one) + place, _array(other)
    return None


def _tree(value: Any) -> str:
    return str(jax.tree.map(_array, value)).replace("'", "")


def _array(value: Any) -> str:
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def differences(missing: Iterable[str], unknown: Iterable[str]) -> str:
    """What is missing and what is unknown, for a message; empty when neither."""
    parts = {"missing": ", ".join(missing), "unknown": ", ".join(unknown)}
    return "; ".join(f"{kind} {names}" for kind, names in parts.items() if names)

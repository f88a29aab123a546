"""Calls of the registry for choices that are data of a program, or compiled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

import variants
from ablations.trainers.trainer import TracedConfig, Tree
from variants.registry import NameOrIndex

Result = TypeVar("Result")


class Fixed(NamedTuple):
    """A choice that is compiled in. data: the variant's choice, of which only the sign is read."""

    name: str
    data: NameOrIndex


def fix(variant: TracedConfig, names: Mapping[str, str]) -> TracedConfig:
    """Return the variant with the choices `names`, axis -> choice, compiled in."""
    fixed = {
        axis: Fixed(name, choice)
        for axis, name in names.items()
        if not isinstance(choice := variant.choices[axis], Fixed)
    }
    return variant._replace(choices={**variant.choices, **fixed})


def apply(axis: str, variant: TracedConfig, *state: Tree, **inputs: Tree) -> Tree:
    """Apply the variant's choice on an axis, with its numbers; see `variants.Axis.apply`."""
    one = variants.axis(axis)
    numbers = {name: variant.numbers[name] for name in one.known_numbers if name in variant.numbers}
    choice = variant.choices[axis]
    if isinstance(choice, Fixed):
        return _apart(
            axis, lambda: one.apply(choice.name, *state, numbers=numbers, **inputs), choice
        )
    return one.apply(choice, *state, numbers=numbers, **inputs)


def switch(
    axis: str, variant: TracedConfig, branches: Mapping[str, Callable[[], Result]]
) -> Result:
    """Call the branch of the variant's choice on an axis; see `variants.Axis.switch`."""
    choice = variant.choices[axis]
    if isinstance(choice, Fixed):
        return _apart(axis, branches[choice.name], choice)
    return variants.axis(axis).switch(choice, branches)


def matches(axis: str, variant: TracedConfig, *names: str) -> bool | jax.Array:
    """Return whether the variant's choice on an axis is among the names: bool, or a bool scalar."""
    choice = variant.choices[axis]
    return variants.axis(axis).matches(choice.name if isinstance(choice, Fixed) else choice, *names)


def either(
    axis: str,
    variant: TracedConfig,
    condition: bool | jax.Array,
    this: Callable[[], Result],
    other: Callable[[], Result],
) -> Result:
    """Return this() where a condition of `matches` on an axis holds, else other()."""
    if not isinstance(condition, bool):
        result: Result = jax.lax.cond(condition, this, other)
        return result
    branch, choice = this if condition else other, variant.choices[axis]
    return _apart(axis, branch, choice) if isinstance(choice, Fixed) else branch()


def where(condition: bool | jax.Array, this: Result, other: Result) -> Result:
    """Return `jnp.where` of two pytrees of arrays."""
    selected: Result = jax.tree.map(lambda a, b: jnp.where(condition, a, b), this, other)
    return selected


def _apart(axis: str, branch: Callable[[], Result], choice: Fixed) -> Result:
    """Call a function in a branch of its own, which the compiler does not fuse with its neighbours.

    Fusion rounds differently, and a specialised program must give the bits of the switched program.
    The condition always holds, but the compiler does not know that; under vmap it costs one select.
    A structural axis has no switched program.
    """
    if isinstance(choice.data, str) or variants.axis(axis).structural:
        return branch()
    nothing = jax.eval_shape(branch)
    result: Result = jax.lax.cond(
        choice.data >= 0,
        branch,
        lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), nothing),
    )
    return result

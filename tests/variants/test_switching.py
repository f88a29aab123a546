"""Applying a choice: a switch is the same as a call, and a choice does not know its neighbours."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import variants
from variants import Axis

WITH_FUNCTIONS = [a for a in variants.axes().values() if not a.loop]
TEXTS = {"formula": "y = x", "source": "here", "summary": "for the test"}


def copy_of(axis: Axis) -> Axis:
    """The same choices in the same order, apart from the registry."""
    copy = Axis(
        axis.name,
        summary=axis.summary,
        inputs=axis.inputs,
        init=axis.init,
        init_inputs=axis.init_inputs,
    )
    for choice in axis.values():
        copy.choice(
            choice.name,
            formula=choice.formula,
            source=choice.source,
            summary=choice.summary,
            revision=choice.revision,
        )(choice.fn)
    return copy


def inputs_of(axis: Axis, batch: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Numbers in the shapes of the stand-ins, `batch` times as long; and the static inputs."""
    rng = np.random.default_rng(0)

    def numbers(stand_in):
        if not isinstance(stand_in, jax.ShapeDtypeStruct):
            return None
        shape = tuple(batch * size for size in stand_in.shape)
        if jnp.issubdtype(stand_in.dtype, jnp.integer):
            return jnp.asarray(rng.integers(0, 4, shape), stand_in.dtype)
        # Between 0 and 1 anything is a sensible coefficient, flag, reward or value.
        return jnp.asarray(rng.uniform(0.1, 0.9, shape), stand_in.dtype)

    assert axis.inputs is not None
    data = {n: jax.tree.map(numbers, x) for n, x in axis.inputs.items()}
    data = {n: x for n, x in data.items() if jax.tree.leaves(x)}
    return data, {n: x for n, x in axis.inputs.items() if n not in data}


def assert_same_bits(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("choice", [-1, 2, 7, np.int32(2), jnp.int32(2)])
def test_index_out_of_range_is_refused(choice):
    """lax.switch would clamp it and train something else."""
    axis = variants.axis("gradient_clip")
    with pytest.raises(IndexError, match="0 to 1 are none, global_norm"):
        axis.apply(choice, gradients={"a": jnp.ones(2)}, max_norm=1.0)


@pytest.mark.parametrize("choice", [0.0, None, True, jnp.float32(0), jnp.asarray([0, 1]), b"none"])
def test_what_is_no_choice_is_refused(choice):
    axis = variants.axis("gradient_clip")
    with pytest.raises(TypeError, match="a choice of axis 'gradient_clip' is"):
        axis.apply(choice, gradients={"a": jnp.ones(2)}, max_norm=1.0)


def test_wrong_inputs_are_named():
    with pytest.raises(TypeError, match=r"error_scale: missing values, targets; unknown value$"):
        variants.axis("value_error").apply("squared", value=1)


@pytest.mark.parametrize("axis", WITH_FUNCTIONS, ids=lambda axis: axis.name)
def test_switch_is_the_same_as_calling(axis):
    """Bit by bit: by name, by index, and by a lane of a vmap over all choices."""
    data, static = inputs_of(axis)
    named = jax.jit(lambda name, data: axis.apply(name, **data, **static), static_argnums=0)
    switched = jax.jit(lambda index, data: axis.apply(index, **data, **static))
    lanes = jax.jit(
        jax.vmap(lambda index, data: axis.apply(index, **data, **static), in_axes=(0, None))
    )(jnp.arange(len(axis)), data)
    for index, choice in enumerate(axis.values()):
        assert choice.fn is not None
        direct = jax.jit(lambda data, fn=choice.fn: fn(**data, **static))(data)
        assert_same_bits(named(choice.name, data), direct)
        assert_same_bits(switched(jnp.int32(index), data), direct)
        lane = jax.tree.map(lambda x, index=index: x[index], lanes)
        for one, other in zip(jax.tree.leaves(lane), jax.tree.leaves(direct), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert switched._cache_size() == 1


@pytest.mark.parametrize("axis", WITH_FUNCTIONS, ids=lambda axis: axis.name)
def test_one_more_choice_leaves_the_others_alone(axis):
    """A plugin adds a branch to a compiled program; the bits of the branches beside it stay."""
    data, static = inputs_of(axis, batch=8)
    static |= {n: 64 for n in static if n == "num_groups"}
    few, more = copy_of(axis), copy_of(axis)
    first = next(iter(axis.values()))

    def mine(**inputs):
        return jax.tree.map(lambda x: x * 3 + 1, first.fn(**inputs))

    mine.__signature__ = inspect.signature(first.fn)
    more.choice("mine", **TEXTS)(mine)
    assert len(more) == len(few) + 1
    run_few = jax.jit(lambda index, data: few.apply(index, **data, **static))
    run_more = jax.jit(lambda index, data: more.apply(index, **data, **static))
    for index in range(len(few)):
        assert_same_bits(run_few(jnp.int32(index), data), run_more(jnp.int32(index), data))
    expected = jax.jit(lambda data: mine(**data, **static))(data)
    for one, other in zip(
        jax.tree.leaves(run_more(jnp.int32(len(few)), data)),
        jax.tree.leaves(expected),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_gradients_pass_through_a_switch():
    axis = variants.axis("value_error")
    values, targets = jnp.asarray([1.0, -2.0, 0.5]), jnp.zeros(3)

    def loss(values, choice):
        return jnp.sum(axis.apply(choice, values=values, targets=targets, error_scale=0.7))

    by_index = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(values, jnp.arange(len(axis)))
    for index, name in enumerate(axis):
        np.testing.assert_allclose(by_index[index], jax.grad(loss)(values, name), rtol=1e-6)

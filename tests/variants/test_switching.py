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


def inputs_of(
    axis: Axis, batch: int = 1
) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """Numbers in the shapes of the stand-ins, `batch` times as long, for the state, where there is
    one, and for the inputs; and the static inputs.
    """
    rng = np.random.default_rng(0)

    def numbers(stand_in):
        if not isinstance(stand_in, jax.ShapeDtypeStruct):
            return None
        if jnp.issubdtype(stand_in.dtype, jax.dtypes.prng_key):
            return jax.random.key(0)
        shape = tuple(batch * size for size in stand_in.shape)
        if jnp.issubdtype(stand_in.dtype, jnp.integer):
            return jnp.asarray(rng.integers(0, 4, shape), stand_in.dtype)
        # Between 0 and 1 anything is a sensible coefficient, flag, reward or value.
        return jnp.asarray(rng.uniform(0.1, 0.9, shape), stand_in.dtype)

    assert axis.inputs is not None
    data = {n: jax.tree.map(numbers, x) for n, x in axis.inputs.items()}
    data = {n: x for n, x in data.items() if jax.tree.leaves(x)}
    static = {n: x for n, x in axis.inputs.items() if n not in data}
    state = ()
    if axis.init is not None:
        state = (jax.tree.map(numbers, jax.eval_shape(lambda: axis.init(**START[axis.name]))),)
    return (state, data), static


START = {"reward_scaling": {"num_envs": 3}, "learning_rate_schedule": {"learning_rate": 1e-3}}


def assert_same_bits(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("choice", [-1, 3, 7, np.int32(3), jnp.int32(3)])
def test_index_out_of_range_is_refused(choice):
    """lax.switch would clamp it and train something else."""
    axis = variants.axis("gradient_clip")
    with pytest.raises(IndexError, match="0 to 2 are none, global_norm, element_wise"):
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
    (state, data), static = inputs_of(axis)

    def call(choice, state, data):
        return axis.apply(choice, *state, **data, **static)

    named = jax.jit(call, static_argnums=0)
    switched = jax.jit(lambda index, state, data: call(index, state, data))
    lanes = jax.jit(jax.vmap(call, in_axes=(0, None, None)))(jnp.arange(len(axis)), state, data)
    for index, choice in enumerate(axis.values()):
        assert choice.fn is not None
        direct = jax.jit(lambda state, data, fn=choice.fn: fn(*state, **data, **static))(
            state, data
        )
        assert_same_bits(named(choice.name, state, data), direct)
        assert_same_bits(switched(jnp.int32(index), state, data), direct)
        lane = jax.tree.map(lambda x, index=index: x[index], lanes)
        for one, other in zip(jax.tree.leaves(lane), jax.tree.leaves(direct), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert switched._cache_size() == 1


@pytest.mark.parametrize("axis", WITH_FUNCTIONS, ids=lambda axis: axis.name)
def test_one_more_choice_leaves_the_others_alone(axis):
    """A plugin adds a branch to a compiled program; the bits of the branches beside it stay."""
    (state, data), static = inputs_of(axis, batch=8)
    static |= {n: 64 for n in static if n == "num_groups"}
    few, more = copy_of(axis), copy_of(axis)
    first = next(iter(axis.values()))

    def mine(*state, **inputs):
        return jax.tree.map(lambda x: x * 3 + 1, first.fn(*state, **inputs))

    mine.__signature__ = inspect.signature(first.fn)
    more.choice("mine", **TEXTS)(mine)
    assert len(more) == len(few) + 1
    run_few, run_more = (
        jax.jit(lambda index, state, data, axis=axis: axis.apply(index, *state, **data, **static))
        for axis in (few, more)
    )
    for index in range(len(few)):
        index = jnp.int32(index)
        assert_same_bits(run_few(index, state, data), run_more(index, state, data))
    expected = jax.jit(lambda state, data: mine(*state, **data, **static))(state, data)
    for one, other in zip(
        jax.tree.leaves(run_more(jnp.int32(len(few)), state, data)),
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

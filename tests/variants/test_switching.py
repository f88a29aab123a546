"""Applying a choice: a switch is the same as a call, and a choice does not know its neighbours."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import variants
from variants import Axis, Choice, Number

# A structural choice is picked by name alone: tests of the trainers hold what it does.
WITH_FUNCTIONS = [a for a in variants.axes().values() if not a.loop and not a.structural]
TEXTS = {"formula": "y = x", "source": "here", "summary": "for the test"}


def copy_of(axis: Axis) -> Axis:
    """The same choices in the same order, apart from the registry."""
    copy = Axis(
        axis.name,
        summary=axis.summary,
        inputs=axis.inputs,
        numbers=axis.numbers,
        defaults=axis.defaults,
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
            numbers={n: x for n, x in choice.numbers.items() if n not in axis.numbers},
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
        # Between 0 and 1 anything is a sensible number, reward or value.
        return jnp.asarray(rng.uniform(0.1, 0.9, shape), stand_in.dtype)

    assert axis.inputs is not None
    stand_ins = {**axis.inputs, **dict.fromkeys(axis.known_numbers, SCALAR)}
    data = {n: jax.tree.map(numbers, x) for n, x in stand_ins.items()}
    data = {n: x for n, x in data.items() if jax.tree.leaves(x)}
    data |= {n: jnp.round(data[n]) for n in ("termination", "truncation") if n in data}
    static = {n: x for n, x in axis.inputs.items() if n not in data}
    state = ()
    if axis.init is not None:
        state = (jax.tree.map(numbers, jax.eval_shape(lambda: axis.init(**START[axis.name]))),)
    return (state, data), static


SCALAR = jax.ShapeDtypeStruct((), jnp.float32)
START = {"reward_scaling": {"num_envs": 3}, "learning_rate_schedule": {"learning_rate": 1e-3}}


def read_by(choice: Choice, given: dict[str, Any]) -> dict[str, Any]:
    """Of all that the axis is given, what the choice takes."""
    return {n: x for n, x in given.items() if n in choice.inputs or n in choice.numbers}


def assert_same_bits(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("choice", [-1, 4, 7, np.int32(4), jnp.int32(4)])
def test_index_out_of_range_is_refused(choice):
    """lax.switch would clamp it and train something else."""
    axis = variants.axis("gradient_clip")
    with pytest.raises(IndexError, match="0 to 3 are none, global_norm, per_network"):
        axis.apply(choice, gradients={"a": jnp.ones(2)}, max_gradient_norm=1.0)


@pytest.mark.parametrize("choice", [0.0, None, True, jnp.float32(0), jnp.asarray([0, 1]), b"none"])
def test_what_is_no_choice_is_refused(choice):
    axis = variants.axis("gradient_clip")
    with pytest.raises(TypeError):
        axis.apply(choice, gradients={"a": jnp.ones(2)}, max_gradient_norm=1.0)


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
        direct = jax.jit(lambda state, data, choice=choice: choice(*state, **data, **static))(
            state, data
        )
        assert_same_bits(named(choice.name, state, data), direct)
        assert_same_bits(switched(jnp.int32(index), state, data), direct)
        lane = jax.tree.map(lambda x, index=index: x[index], lanes)
        for one, other in zip(jax.tree.leaves(lane), jax.tree.leaves(direct), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert switched._cache_size() == 1


@pytest.mark.parametrize("name", ["advantage", "policy_loss", "reward_scaling"])
def test_a_choice_is_called_in_anybodys_code(name):
    """With what it reads alone, jitted or not; its numbers have defaults."""
    axis = variants.axis(name)
    (state, data), static = inputs_of(axis)
    for choice in axis.values():
        inputs = {n: x for n, x in (data | static).items() if n in choice.inputs}
        plain = choice(*state, **inputs)
        inputs_alone = {n: x for n, x in data.items() if n in axis.inputs}
        assert_same_bits(plain, axis.apply(choice.name, *state, **inputs_alone, **static))
        arrays = {n: x for n, x in inputs.items() if n in data}
        rest = {n: x for n, x in inputs.items() if n not in data}
        jitted = jax.jit(lambda state, arrays: choice(*state, **arrays, **rest))(state, arrays)  # noqa: B023
        for one, other in zip(jax.tree.leaves(jitted), jax.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_what_a_choice_cannot_be_called_with():
    with pytest.raises(TypeError, match=r"error_scale: missing targets; unknown value$"):
        variants.axis("value_error")["squared"](values=1, value=1)
    with pytest.raises(TypeError, match=r"advantage_timing.* has no function"):
        variants.axis("advantage_timing")["epoch"]()


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
    more.choice("mine", **TEXTS, numbers=first.numbers)(mine)
    assert len(more) == len(few) + 1
    run_few, run_more = (
        jax.jit(lambda index, state, data, axis=axis: axis.apply(index, *state, **data, **static))
        for axis in (few, more)
    )
    for index in range(len(few)):
        index = jnp.int32(index)
        assert_same_bits(run_few(index, state, data), run_more(index, state, data))
    expected = jax.jit(lambda state, data: mine(*state, **read_by(first, data | static)))(
        state, data
    )
    for one, other in zip(
        jax.tree.leaves(run_more(jnp.int32(len(few)), state, data)),
        jax.tree.leaves(expected),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("axis", WITH_FUNCTIONS, ids=lambda axis: axis.name)
def test_numbers_that_a_choice_does_not_read_change_no_bit(axis):
    """By name and by index: what other choices read is of no account."""
    (state, data), static = inputs_of(axis, batch=8)
    static |= {n: 64 for n in static if n == "num_groups"}
    inputs = {n: x for n, x in data.items() if n in axis.inputs}
    numbers = {n: jnp.float32(0.3) for n in axis.known_numbers}
    run = jax.jit(
        lambda choice, state, numbers: axis.apply(
            choice, *state, numbers=numbers, **inputs, **static
        )
    )
    named = jax.jit(
        lambda state, numbers, choice: axis.apply(
            choice, *state, numbers=numbers, **inputs, **static
        ),
        static_argnums=2,
    )
    for index, choice in enumerate(axis.values()):
        others = {n: x if n in choice.numbers else 7 * x + 1 for n, x in numbers.items()}
        index = jnp.int32(index)
        assert_same_bits(run(index, state, numbers), run(index, state, others))
        assert_same_bits(named(state, numbers, choice.name), named(state, others, choice.name))


@pytest.mark.parametrize("axis", WITH_FUNCTIONS, ids=lambda axis: axis.name)
def test_numbers_that_a_choice_reads_decide(axis):
    """Each of them changes what comes out, or it should not be named."""
    (state, data), static = inputs_of(axis, batch=8)
    # Far from any default and bound: values from -20 to 20, ratios that are tiny and huge.
    wide = {
        n: jax.tree.map(lambda x: 40 * x - 20 if x.ndim and x.dtype == jnp.float32 else x, x)
        for n, x in data.items()
        if n in axis.inputs and n not in ("mask", "termination", "truncation")
    }
    inputs = {n: x for n, x in data.items() if n in axis.inputs} | wide
    static |= {n: 64 for n in static if n == "num_groups"}
    for choice in axis.values():
        for number in choice.numbers:
            low, high = (
                [
                    axis.apply(
                        choice.name, *state, numbers={number: value}, **(inputs | more), **static
                    )
                    for more in SITUATIONS.get(axis.name, ({},))
                ]
                for value in FAR_APART.get(number, (0.1, 0.7))
            )
            pairs = zip(jax.tree.leaves(low), jax.tree.leaves(high), strict=True)
            assert any(np.any(one != other) for one, other in pairs), (choice.name, number)


FAR_APART = {
    "target_interval": (3.0, 4.0),
    "bootstrap_steps": (1.0, 4.0),
    "dual_clip": (1.001, 5.0),
    "learning_rate_low": (0.01, 0.9),
    "ratio_cap": (1.5, 5.0),
    "clip_cov_high": (1.5, 4.0),
}
# From the least covariance of advantages and log-probabilities to the largest.
RISING = jnp.asarray(sorted(np.linspace(-2, 2, 48 * 32), key=abs)).reshape(48, 32)
# Where the divergence is far below the desired one, near it, and far above.
SITUATIONS = {
    "learning_rate_schedule": tuple(
        {f"{name}_kl": jnp.float32(kl) for name in ("approximate", "exact", "offset")}
        for kl in (1e-4, 0.1, 9.0)
    ),
    # Where they hardly vary, and where they do.
    "advantage_statistics": ({"advantages": jnp.linspace(0.0, 1e-3, 48)}, {}),
    # Where clip_cov has something to leave out, the least and the largest first.
    "policy_loss": (
        {},
        *(
            {"log_ratio": 0 * RISING, "mask": 1 + 0 * RISING}
            | {"advantages": first, "log_probs": first}
            for first in (RISING, RISING[::-1, ::-1])
        ),
    ),
    # After an iteration that ends an interval, and before random actions stop becoming fewer.
    "q_target": ({"updates": jnp.float32(4)},),
    "exploration": ({"progress": jnp.float32(0.05)},),
    # Where the choice's own epsilon counts.
    "prompt_advantage": ({}, {"epsilon": None}),
}


def test_branches_of_one_switch_read_different_things():
    """From one function: a number of its own, its default where it is not set, its value where it
    is, and nothing of it for the neighbours.
    """
    copy = copy_of(variants.axis("value_error"))

    @copy.choice("tilted", **TEXTS, numbers={"tilt": Number(0.25, 0.0, 1.0, "share of the target")})
    def tilted(*, values, targets, tilt):
        return values - tilt * targets

    assert dict(copy["tilted"].numbers) == {"tilt": Number(0.25, 0.0, 1.0, "share of the target")}
    assert copy["tilted"].inputs == ("values", "targets")
    assert set(copy.known_numbers) == {"error_scale", "tilt"}
    assert set(copy.numbers) == {"error_scale"}
    values, targets = jnp.asarray([1.0, 2.0]), jnp.asarray([4.0, 8.0])
    run = jax.jit(
        lambda index, numbers: copy.apply(index, numbers=numbers, values=values, targets=targets)
    )
    index = jnp.int32(copy.index("tilted"))
    for choice in ("tilted", index):
        default = copy.apply(choice, values=values, targets=targets)
        np.testing.assert_array_equal(default, [0.0, 0.0])
        given = copy.apply(choice, values=values, targets=targets, tilt=0.5)
        np.testing.assert_array_equal(given, [-1.0, -2.0])
    np.testing.assert_array_equal(run(index, {"tilt": 0.5}), [-1.0, -2.0])
    np.testing.assert_array_equal(run(jnp.int32(0), {"tilt": 0.5}), jnp.square(values - targets))


def test_gradients_pass_through_a_switch():
    axis = variants.axis("value_error")
    values, targets = jnp.asarray([1.0, -2.0, 0.5]), jnp.zeros(3)

    def loss(values, choice):
        return jnp.sum(axis.apply(choice, values=values, targets=targets, error_scale=0.7))

    by_index = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(values, jnp.arange(len(axis)))
    for index, name in enumerate(axis):
        np.testing.assert_allclose(by_index[index], jax.grad(loss)(values, name), rtol=1e-6)

"""Registering axes and choices: what is refused, and in which words."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import variants
from variants import Axis, Number, RegistrationError, UnknownName

TEXTS = {"formula": "y = x", "source": "here", "summary": "for the test"}


def number_axis() -> Axis:
    """An axis of its own: x [4] -> 2x."""
    axis = Axis(
        "number",
        summary="what becomes of x",
        inputs={
            "x": jax.ShapeDtypeStruct((4,), jnp.float32),
            "shift": jax.ShapeDtypeStruct((), jnp.float32),
        },
        defaults={"shift": 0.0},
        numbers={"scale": Number(1.0, 0.0, 10.0, "factor")},
    )

    @axis.choice("double", **TEXTS)
    def double(*, x, scale):
        return 2 * x * scale

    return axis


def test_what_apply_is_given_is_known():
    axis, x = number_axis(), jnp.ones(4)
    np.testing.assert_array_equal(axis.apply("double", x=x), 2 * x)
    np.testing.assert_array_equal(axis.apply("double", x=x, scale=3.0), 6 * x)
    np.testing.assert_array_equal(axis.apply(0, numbers={"scale": 3.0}, x=x), 6 * x)
    for arguments, message in (
        ({"x": x, "numbers": {"y": 1.0}}, "takes x, shift, scale: unknown y$"),
        ({"x": x, "y": 1.0}, "takes x, shift, scale: unknown y$"),
        ({"y": 1.0}, "takes x, shift, scale: missing x; unknown y$"),
    ):
        for choice in ("double", 0):
            with pytest.raises(TypeError, match=message):
                axis.apply(choice, **arguments)


def test_structural_choices_may_differ_in_shape_and_are_picked_by_name():
    axis = Axis(
        "order",
        summary="which comes first",
        inputs={"x": jax.ShapeDtypeStruct((4,), jnp.float32)},
        structural=True,
    )
    axis.choice("all", **TEXTS)(lambda *, x: x)
    axis.choice("first", **TEXTS)(lambda *, x: x[0])
    assert axis.structural
    assert not variants.axis("advantage").structural
    assert axis.apply("first", x=jnp.ones(4)) == 1
    assert axis.apply("all", x=jnp.ones(4)).shape == (4,)
    assert axis.matches("all", "all", "first") is True
    for ask in (lambda: axis.apply(0, x=jnp.ones(4)), lambda: axis.matches(jnp.int32(0), "all")):
        with pytest.raises(TypeError, match="is compiled in: give its name, not an index"):
            ask()


def average_axis() -> Axis:
    """A stateful axis of its own: the sum so far, and x [4] with it added."""
    axis = Axis(
        "average",
        summary="what is remembered of x",
        inputs={"x": jax.ShapeDtypeStruct((4,), jnp.float32)},
        init=lambda *, size, start: {"sum": jnp.full(size, start)},
        init_inputs={"size": 4, "start": jax.ShapeDtypeStruct((), jnp.float32)},
    )

    @axis.choice("all", **TEXTS)
    def everything(state, *, x):
        total = state["sum"] + x
        return {"sum": total}, x + total

    @axis.choice("nothing", **TEXTS)
    def nothing(state, *, x):
        return state, x

    return axis


def test_state_passes_from_call_to_call():
    axis = average_axis()
    x = jnp.arange(4.0)
    for choice, expected in (("all", [2 * x, 3 * x]), ("nothing", [x, x])):
        for name in (choice, jnp.int32(axis.index(choice))):
            state = axis.init(size=4, start=0.0)
            for one in expected:
                state, got = axis.apply(name, state, x=x)
                np.testing.assert_array_equal(got, one)


def test_loop_axes_have_names_only():
    axis = Axis("order", summary="which comes first")
    with pytest.raises(RegistrationError, match=r"use declare\('first', ...\)"):
        axis.choice("first", **TEXTS)
    axis.declare("first", **TEXTS)
    axis.declare("second", **TEXTS)
    with pytest.raises(RegistrationError, match="registered twice"):
        axis.declare("first", **TEXTS)
    with pytest.raises(RegistrationError, match="takes functions"):
        number_axis().declare("mine", **TEXTS)
    with pytest.raises(TypeError, match="has no function: use switch"):
        axis.apply("first")

    branches = {"second": lambda x: x + 1, "first": lambda x: x * 10}
    for choice in ("first", 0, jnp.int32(0)):
        assert axis.switch(choice, branches, jnp.float32(3)) == 30
    for choice in ("second", 1, np.int64(1)):
        assert axis.switch(choice, branches, jnp.float32(3)) == 4
    for choice in ("second", 0):
        with pytest.raises(ValueError, match="'second' of axis 'order' is not handled here"):
            axis.switch(choice, {"first": lambda: 0})

    assert axis.matches("first", "first") is True
    assert axis.matches("first", "second") is False
    got = jax.vmap(lambda i: axis.matches(i, "second"))(jnp.arange(2))
    np.testing.assert_array_equal(got, [False, True])
    with pytest.raises(UnknownName):
        axis.matches("first", "third")


def test_this_package_s_own_choices_are_checked_when_asked():
    axis = number_axis()

    def half(*, x):
        return x[:2]

    half.__module__ = "variants.number"
    axis.choice("half", **TEXTS)(half)
    with pytest.raises(RegistrationError, match=r"choice 'half' .* disagrees with 'double'"):
        axis.check()


WIDTH = Number(0.5, 0.0, 1.0, "width of a window")


def mine(function, **more):
    return lambda axis: axis.choice("mine", **TEXTS, **more)(function)


def described(name):
    return lambda axis: axis.choice(name, **TEXTS)


def window(*, x, width):
    return x * width


def same(*, x):
    return x


# What an axis of x [4] that has the choice `double` refuses, and why.
REFUSED = [
    (mine(lambda *, x, s, offset=0.0: x), "asks for s, offset, which the axis does not offer"),
    *(
        (mine(function), "must name its arguments as keywords")
        for function in (
            lambda **inputs: 0,
            lambda x, scale, /: x,
            lambda *x, scale: x,
            lambda x, *, scale: x,
        )
    ),
    (mine(lambda *, x, scale=2.0: x), r"says scale=2.0, whose default on the axis is 1.0"),
    (mine(lambda *, x, shift=2.0: x), r"says shift=2.0, whose default on the axis is 0.0"),
    (mine(lambda *, x=0.0: x), r"says x=0.0, whose default on the axis does not exist"),
    (mine(window), "asks for width, which the axis does not offer"),
    (mine(window, numbers={"x": WIDTH}), "number 'x' is the name of an input of the axis"),
    (mine(window, numbers={"my width": WIDTH}), "number is an identifier .* not 'my width'"),
    (mine(window, numbers={"state": WIDTH}), "number is an identifier .* not reserved"),
    (mine(window, numbers={"scale": WIDTH}), r"brings scale as .* which the axis knows as"),
    (mine(lambda *, x, scale: jnp.sum(x)), r"returns float32\[\], 'double' returns float32\[4\]"),
    (mine(lambda *, x, scale: x > 0), r"returns bool\[4\], 'double' returns float32\[4\]"),
    (mine(lambda *, x, scale: (x, x)), r"returns \(float32\[4\], float32\[4\]\), 'double'"),
    (mine(lambda *, x, scale: x if scale > 0 else -x), "cannot be traced.*TracerBoolConversion"),
    (described("double"), "'double' of axis 'number' is registered twice"),
    (described("a/b"), "the name is an identifier"),
    (lambda axis: axis.declare("mine", **TEXTS), "takes functions"),
    (lambda axis: variants.register(Axis("advantage", summary="a")), "is registered twice"),
    (lambda axis: Number(2.0, 0.0, 1.0, "a"), "a number's default lies within its bounds"),
    (lambda axis: Number(float("nan"), 0.0, 1.0, "a"), "a number's default lies within its bounds"),
]


@pytest.mark.parametrize(("register", "message"), REFUSED)
def test_what_does_not_fit_is_refused(register, message):
    axis = number_axis()
    with pytest.raises(RegistrationError, match=message):
        register(axis)
    assert axis.names == ("double",)
    assert set(axis.known_numbers) == {"scale"}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *, x: x, r"must take its state first: \(state, \*, \.\.\.\)"),
        (lambda *, state, x: x, r"must take its state first"),
        (lambda state, *, x: x, r"must return a pair: its next state, its output"),
        (
            lambda state, *, x: ({"sum": jnp.sum(x)}, x),
            r"a state like the one it takes: it takes float32\[4\] and returns float32\[\] at",
        ),
        (lambda state, *, x: (x, x), r"it takes {sum: float32\[4\]} and returns float32\[4\]"),
        (lambda state, *, x: (state, x[:2]), r"disagrees with 'all': it returns float32\[2\] at"),
    ],
)
def test_a_state_keeps_its_structure(function, message):
    axis = average_axis()
    with pytest.raises(RegistrationError, match=message):
        axis.choice("mine", **TEXTS)(function)
    assert axis.names == ("all", "nothing")
    for other, states in ((average_axis(), ()), (number_axis(), (jnp.zeros(4),))):
        with pytest.raises(TypeError, match=f"apply got {len(states)} states"):
            other.apply(0, *states, x=jnp.zeros(4))


def test_numbers_and_defaults_of_choices():
    axis = number_axis()
    axis.choice("window", **TEXTS, numbers={"width": WIDTH})(window)
    axis.choice("second", **TEXTS, numbers={"width": Number(0.5, 0.0, 1.0, WIDTH.summary)})(window)
    for other in (
        Number(0.6, 0.0, 1.0, WIDTH.summary),
        Number(0.5, 0.0, 2.0, WIDTH.summary),
        Number(0.5, 0.0, 1.0, "width of a door"),
    ):
        with pytest.raises(RegistrationError, match=r"brings width as .* which the axis knows as"):
            axis.choice("third", **TEXTS, numbers={"width": other})
    decorate = axis.choice("mine", **TEXTS)
    assert decorate(same) is same
    with pytest.raises(RegistrationError, match="registered twice"):
        decorate(same)
    assert axis["mine"].inputs == ("x",)
    assert axis["mine"].numbers == {}
    axis.choice("shifted", **TEXTS)(lambda *, x, scale=1.0, shift=0.0: x * scale + shift)
    np.testing.assert_array_equal(axis.apply("shifted", x=jnp.ones(4), shift=2.0), 3 * jnp.ones(4))

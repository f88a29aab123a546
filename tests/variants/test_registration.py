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


def test_arguments_are_what_the_axis_offers_or_the_choice_brings():
    axis = number_axis()
    with pytest.raises(
        RegistrationError,
        match=r"asks for s, offset, which the axis does not offer: it offers x, shift, scale",
    ):
        axis.choice("mine", **TEXTS)(lambda *, x, s, offset=0.0: x)
    for function in (
        lambda **inputs: 0,
        lambda x, scale, /: x,
        lambda *x, scale: x,
        lambda x, *, scale: x,
    ):
        with pytest.raises(RegistrationError, match=r"must name its arguments as keywords"):
            axis.choice("mine", **TEXTS)(function)
    assert axis.names == ("double",)
    axis.choice("nothing", **TEXTS)(lambda: jnp.zeros(4))
    axis.choice("less", **TEXTS)(lambda *, x: x)
    assert axis["less"].inputs == ("x",)
    assert axis["less"].numbers == {}
    assert dict(axis["double"].numbers) == dict(axis.numbers)


def test_defaults_are_those_of_the_axis():
    axis = number_axis()
    for function, message in (
        (lambda *, x, scale=2.0: x, r"says scale=2.0, whose default on the axis is 1.0"),
        (lambda *, x, shift=2.0: x, r"says shift=2.0, whose default on the axis is 0.0"),
        (lambda *, x=0.0: x, r"says x=0.0, whose default on the axis does not exist"),
    ):
        with pytest.raises(RegistrationError, match=message):
            axis.choice("mine", **TEXTS)(function)
    axis.choice("mine", **TEXTS)(lambda *, x, scale=1.0, shift=0.0: x * scale + shift)
    np.testing.assert_array_equal(axis.apply("mine", x=jnp.ones(4)), jnp.ones(4))
    np.testing.assert_array_equal(axis.apply("mine", x=jnp.ones(4), shift=2.0), 3 * jnp.ones(4))
    with pytest.raises(RegistrationError, match="axis 'mood': defaults of no input: y"):
        Axis("mood", summary="how one feels", inputs={"x": 1}, defaults={"y": 2})


def test_a_number_means_one_thing_on_an_axis():
    axis = number_axis()
    width = Number(0.5, 0.0, 1.0, "width of a window")

    def window(*, x, width):
        return x * width

    with pytest.raises(RegistrationError, match="number 'x' is the name of an input of the axis"):
        axis.choice("mine", **TEXTS, numbers={"x": width})
    with pytest.raises(RegistrationError, match="brings depth and does not take it"):
        axis.choice("mine", **TEXTS, numbers={"width": width, "depth": width})(window)
    with pytest.raises(RegistrationError, match=r"width is a variants\.Number, not 0\.5"):
        axis.choice("mine", **TEXTS, numbers={"width": 0.5})
    for name in ("my width", ""):
        with pytest.raises(RegistrationError, match="a name is an identifier"):
            axis.choice("mine", **TEXTS, numbers={name: width})
    for name in ("state", "numbers", "choice"):
        with pytest.raises(RegistrationError, match=f"the registry reserves '{name}'"):
            axis.choice("mine", **TEXTS, numbers={name: width})
    assert "width" not in axis.known_numbers

    axis.choice("window", **TEXTS, numbers={"width": width})(window)
    axis.choice("second", **TEXTS, numbers={"width": Number(0.5, 0.0, 1.0, width.summary)})(window)
    for other in (
        Number(0.6, 0.0, 1.0, width.summary),
        Number(0.5, 0.0, 2.0, width.summary),
        Number(0.5, 0.0, 1.0, "width of a door"),
    ):
        with pytest.raises(RegistrationError, match=r"brings width as .* which the axis knows as"):
            axis.choice("third", **TEXTS, numbers={"width": other})
    with pytest.raises(RegistrationError, match=r"brings scale as .* which the axis knows as"):
        axis.choice("third", **TEXTS, numbers={"scale": width})
    # Neither is what a choice brings offered to those that do not bring it.
    with pytest.raises(RegistrationError, match="asks for width, which the axis does not offer"):
        axis.choice("third", **TEXTS)(window)


def test_numbers_lie_within_their_bounds():
    assert Number(1.0, 1.0, 1.0, "one").default == 1.0
    for default, low, high in ((2.0, 0.0, 1.0), (-1.0, 0.0, 1.0), (float("nan"), 0.0, 1.0)):
        with pytest.raises(RegistrationError, match="a number's default lies within its bounds"):
            Number(default, low, high, "too much")
    with pytest.raises(RegistrationError, match="needs a summary"):
        Number(1.0, 0.0, 2.0, " ")


def test_what_apply_is_given_is_known_and_there_once():
    axis, x = number_axis(), jnp.ones(4)
    np.testing.assert_array_equal(axis.apply("double", x=x), 2 * x)
    np.testing.assert_array_equal(axis.apply("double", x=x, scale=3.0), 6 * x)
    np.testing.assert_array_equal(axis.apply(0, numbers={"scale": 3.0}, x=x), 6 * x)
    for arguments, message in (
        ({"x": x, "numbers": {"y": 1.0}}, "takes x, shift, scale: unknown y$"),
        ({"x": x, "y": 1.0}, "takes x, shift, scale: unknown y$"),
        ({"numbers": {"x": x}}, "takes x, shift, scale: missing x; unknown x$"),
        ({"x": x, "scale": 1.0, "numbers": {"scale": 1.0}}, "was given twice: scale"),
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
    for ask in (
        lambda: axis.apply(0, x=jnp.ones(4)),
        lambda: axis.matches(jnp.int32(0), "all"),
    ):
        with pytest.raises(TypeError, match="is compiled in: give its name, not an index"):
            ask()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *, x, scale: jnp.sum(x), r"returns float32\[\], 'double' returns float32\[4\]"),
        (lambda *, x, scale: x[:2], r"returns float32\[2\], 'double' returns float32\[4\]"),
        (lambda *, x, scale: x > 0, r"returns bool\[4\], 'double' returns float32\[4\]"),
        (lambda *, x, scale: (x, x), r"returns \(float32\[4\], float32\[4\]\), 'double'"),
        (lambda *, x, scale: None, r"returns None, 'double' returns float32\[4\]"),
    ],
)
def test_disagreeing_outputs_are_named(function, message):
    axis = number_axis()
    with pytest.raises(
        RegistrationError, match=r"'mine' of axis 'number' disagrees with 'double'.*" + message
    ):
        axis.choice("mine", **TEXTS)(function)
    assert "mine" not in axis


def test_place_in_a_pytree_is_named():
    axis = Axis("pair", summary="two", inputs={"x": jax.ShapeDtypeStruct((4,), jnp.float32)})
    axis.choice("both", **TEXTS)(lambda *, x: {"all": x, "sum": jnp.sum(x)})
    with pytest.raises(RegistrationError, match=r"returns float32\[4\] at \['sum'\]"):
        axis.choice("mine", **TEXTS)(lambda *, x: {"all": x, "sum": x})


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


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *, x: x, r"must take its state first: \(state, \*, \.\.\.\)"),
        (lambda x: x, r"must take its state first"),
        (lambda *, state, x: x, r"must take its state first"),
        (lambda: 0, r"must take its state first"),
        (lambda state, *, x: x, r"must return a pair: its next state, its output"),
        (
            lambda state, *, x: ({"sum": jnp.sum(x)}, x),
            r"a state like the one it takes: it takes float32\[4\] and returns float32\[\] at",
        ),
        (
            lambda state, *, x: (x, x),
            r"a state like the one it takes: it takes {sum: float32\[4\]} and returns float32\[4\]",
        ),
        (lambda state, *, x: (state, x[:2]), r"disagrees with 'all': it returns float32\[2\] at"),
    ],
)
def test_a_state_keeps_its_structure(function, message):
    axis = average_axis()
    with pytest.raises(RegistrationError, match=message):
        axis.choice("mine", **TEXTS)(function)
    assert axis.names == ("all", "nothing")


def test_state_is_asked_for_where_there_is_one():
    axis = average_axis()
    with pytest.raises(TypeError, match="takes its state before its inputs: apply got 0 states"):
        axis.apply("all", x=jnp.zeros(4))
    with pytest.raises(TypeError, match="takes keywords only: apply got 1 states"):
        number_axis().apply("double", jnp.zeros(4), x=jnp.zeros(4))
    with pytest.raises(RegistrationError, match="a state needs functions"):
        Axis("order", summary="which comes first", init=lambda: 0)


def test_what_cannot_be_traced_is_refused():
    """A branch on a number works when called by hand, and fails in a compiled trainer."""
    axis = number_axis()

    def impatient(*, x, scale):
        return x if scale > 0 else -x

    with pytest.raises(RegistrationError, match=r"cannot be traced.*TracerBoolConversionError"):
        axis.choice("mine", **TEXTS)(impatient)


def test_duplicates_and_bad_descriptions_are_refused():
    axis = number_axis()

    def same(*, x):
        return x

    with pytest.raises(RegistrationError, match="'double' of axis 'number' is registered twice"):
        axis.choice("double", **TEXTS)
    for revision in (0, -1, 1.5, "1", True, None):
        with pytest.raises(
            RegistrationError, match="the revision must be an integer of at least 1"
        ):
            axis.choice("mine", **TEXTS, revision=revision)
    for text in TEXTS:
        with pytest.raises(RegistrationError, match=f"needs a {text}"):
            axis.choice("mine", **(TEXTS | {text: " "}))
    for name in ("", "my choice", "a/b", 3):
        with pytest.raises(RegistrationError, match="a name is an identifier"):
            axis.choice(name, **TEXTS)
    # The same decorator, used twice, would register its name twice.
    decorate = axis.choice("mine", **TEXTS)
    assert decorate(same) is same
    with pytest.raises(RegistrationError, match="registered twice"):
        decorate(same)
    with pytest.raises(RegistrationError, match="axis 'advantage' is registered twice"):
        variants.register(Axis("advantage", summary="another"))


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
    with pytest.raises(ValueError, match="has the choices first, second: missing second"):
        axis.switch(0, {"first": lambda: 0})
    with pytest.raises(ValueError, match="'second' of axis 'order' is not handled here"):
        axis.switch("second", {"first": lambda: 0})

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

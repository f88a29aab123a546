"""The registry: what it refuses and how it says so; switching is the same as calling."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import variants
from variants import Axis, RegistrationError, UnknownName

DESIGN = {
    "advantage": {"standard", "brax", "done_cut", "masked_truncation"},
    "advantage_timing": {"iteration", "epoch", "minibatch"},
    "value_error": {"squared", "absolute", "huber", "smooth_l1"},
    "value_clip": {"none", "pessimistic", "replace"},
    "advantage_statistics": {"none", "all", "per_group"},
    "advantage_scope": {"minibatch", "batch"},
    "observation_normalization": {"none", "before", "after"},
    "gradient_clip": {"none", "global_norm"},
}
WITH_FUNCTIONS = [a for a in variants.axes().values() if not a.loop]
TEXTS = {"formula": "y = x", "source": "here", "summary": "for the test"}


def number_axis() -> Axis:
    """An axis of its own: x [4] -> 2x."""
    axis = Axis(
        "number",
        summary="what becomes of x",
        inputs={
            "x": jax.ShapeDtypeStruct((4,), jnp.float32),
            "scale": jax.ShapeDtypeStruct((), jnp.float32),
        },
    )

    @axis.choice("double", **TEXTS)
    def double(*, x, scale=1.0):
        return 2 * x * scale

    return axis


def copy_of(axis: Axis) -> Axis:
    """The same choices in the same order, apart from the registry."""
    copy = Axis(axis.name, summary=axis.summary, inputs=axis.inputs)
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


# What is there


def test_every_choice_of_the_design_is_registered_and_described():
    for name, choices in DESIGN.items():
        axis = variants.axis(name)
        assert set(axis) >= choices
        assert axis.names == tuple(axis)
        for index, choice in enumerate(axis.values()):
            assert axis.index(choice.name) == index
            assert choice.formula
            assert choice.source
            assert choice.summary
            assert choice.revision >= 1
            assert (choice.fn is None) == axis.loop
    assert {a.name for a in variants.axes().values() if a.loop} >= {
        "advantage_timing",
        "advantage_scope",
        "observation_normalization",
    }
    assert variants.axis("advantage_timing").specialise


def test_axes_are_read_only():
    with pytest.raises(TypeError):
        variants.axes()["mine"] = None
    with pytest.raises(TypeError):
        variants.axis("advantage").inputs["more"] = None
    with pytest.raises(AttributeError):
        variants.axis("advantage")["brax"].revision = 2


def test_unknown_names_come_with_the_nearest():
    with pytest.raises(UnknownName, match=r"unknown axis 'advantge': did you mean 'advantage'\?"):
        variants.axis("advantge")
    axis = variants.axis("advantage")
    message = (
        r"^unknown choice 'donecut' of axis 'advantage': did you mean 'done_cut'\? "
        r"known: standard, done_cut, masked_truncation, brax"
    )
    data, static = inputs_of(axis)
    for ask in (
        axis.__getitem__,
        axis.index,
        lambda name: axis.apply(name, **data, **static),
        lambda name: axis.switch(name, {}),
        lambda name: axis.matches(0, name),
    ):
        with pytest.raises(UnknownName, match=message):
            ask("donecut")
    with pytest.raises(LookupError, match="unknown axis 'qqqqqq': known: advantage, "):
        variants.axis("qqqqqq")
    assert axis.get("donecut") is None
    assert "donecut" not in axis
    assert 3 not in axis


# What is refused


def test_argument_names_must_be_those_of_the_axis():
    axis = number_axis()
    with pytest.raises(
        RegistrationError, match=r"must take x, scale, as 'double' does: missing scale; unknown s$"
    ):
        axis.choice("mine", **TEXTS)(lambda *, x, s: x)
    # One more argument with a default could never be set.
    with pytest.raises(RegistrationError, match=r"unknown offset$"):
        axis.choice("mine", **TEXTS)(lambda *, x, scale=1.0, offset=0.0: x)
    for function in (lambda **inputs: 0, lambda x, scale=1.0, /: x, lambda *x, scale=1.0: x):
        with pytest.raises(RegistrationError, match="must name its arguments as keywords"):
            axis.choice("mine", **TEXTS)(function)
    assert axis.names == ("double",)


def test_defaults_must_be_those_of_the_axis():
    axis = number_axis()
    with pytest.raises(RegistrationError, match=r"defaults are scale=2.0, .* 'double' scale=1.0"):
        axis.choice("mine", **TEXTS)(lambda *, x, scale=2.0: x)
    with pytest.raises(RegistrationError, match=r"its defaults are none"):
        axis.choice("mine", **TEXTS)(lambda *, x, scale: x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *, x, scale=1.0: jnp.sum(x), r"returns float32\[\], 'double' returns float32\[4\]"),
        (lambda *, x, scale=1.0: x[:2], r"returns float32\[2\], 'double' returns float32\[4\]"),
        (lambda *, x, scale=1.0: x > 0, r"returns bool\[4\], 'double' returns float32\[4\]"),
        (lambda *, x, scale=1.0: (x, x), r"returns \(float32\[4\], float32\[4\]\), 'double'"),
        (lambda *, x, scale=1.0: None, r"returns None, 'double' returns float32\[4\]"),
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


def test_what_cannot_be_traced_is_refused():
    """A branch on a number works when called by hand, and fails in a compiled trainer."""
    axis = number_axis()

    def impatient(*, x, scale=1.0):
        return x if scale > 0 else -x

    with pytest.raises(RegistrationError, match=r"cannot be traced.*TracerBoolConversionError"):
        axis.choice("mine", **TEXTS)(impatient)


def test_duplicates_and_bad_descriptions_are_refused():
    axis = number_axis()

    def same(*, x, scale=1.0):
        return x

    with pytest.raises(RegistrationError, match="'double' of axis 'number' is registered twice"):
        axis.choice("double", **TEXTS)
    for revision in (0, -1, 1.5, "1", True, None):
        with pytest.raises(RegistrationError, match="revision is a whole number from 1 upwards"):
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


# Applying


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
    with pytest.raises(TypeError, match=r"takes x, scale: missing x; unknown y$"):
        number_axis().apply("double", y=1)


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


# Conflicts


def test_conflicts_are_said_in_words():
    assert variants.conflicts({}) == []
    assert variants.conflicts({"advantage_timing": "minibatch"}) == []
    sensible = {"advantage_timing": "minibatch", "advantage_scope": "minibatch", "discount": 0.99}
    assert variants.conflicts(sensible) == []
    (complaint,) = variants.conflicts(sensible | {"advantage_scope": "batch"})
    assert "advantage_scope=batch cannot be had with advantage_timing=minibatch" in complaint
    for timing in ("iteration", "epoch"):
        assert not variants.conflicts({"advantage_scope": "batch", "advantage_timing": timing})


def test_conflicts_know_every_name():
    with pytest.raises(UnknownName, match=r"did you mean 'minibatch'\?"):
        variants.conflicts({"advantage_timing": "minibach"})
    with pytest.raises(UnknownName, match=r"unknown axis 'advantage_time': did you mean"):
        variants.conflicts({"advantage_time": "minibatch"})
    with pytest.raises(UnknownName, match="unknown choice '1' of axis 'advantage_timing'"):
        variants.conflicts({"advantage_timing": 1})


def test_rules_name_what_they_look_at(monkeypatch):
    monkeypatch.setattr(variants.registry, "_RULES", [])
    asked = []

    @variants.conflict
    def one_sample_has_no_group(*, advantage_statistics, samples, strict=True):
        asked.append((advantage_statistics, samples, strict))
        return "one sample" if samples == 1 and strict else None

    assert variants.conflicts({"samples": 1}) == []
    assert variants.conflicts({"advantage_statistics": "per_group"}) == []
    assert asked == []
    variant = {"advantage_statistics": "per_group", "samples": 1}
    assert variants.conflicts(variant) == ["one sample"]
    assert variants.conflicts(variant | {"strict": False}) == []
    assert asked == [("per_group", 1, True), ("per_group", 1, False)]
    with pytest.raises(RegistrationError, match="must name what it looks at"):
        variants.conflict(lambda **variant: None)


# Importing


def test_import_starts_no_backend_and_plugins_need_one_module(tmp_path):
    """The process that plans imports the registry and a user's plugins, and never starts JAX."""
    (tmp_path / "my_module.py").write_text(
        textwrap.dedent("""
            import jax.numpy as jnp
            import variants

            @variants.axis("advantage").choice(
                "mine", formula="A = r - V", source="this module", summary="myopic", revision=3
            )
            def mine(*, rewards, values, next_values, termination, truncation, discount, lambda_):
                return rewards - values, jnp.asarray(rewards, jnp.float32)

            mood = variants.register(variants.Axis("mood", summary="how one feels"))
            mood.declare("good", formula="1", source="this module", summary="fine")

            @variants.conflict
            def no_good(*, mood, advantage):
                return "nobody feels good about mine" if advantage == "mine" else None
        """)
    )
    script = """
        import sys
        import variants, my_module
        from jax._src import xla_bridge

        assert not xla_bridge.backends_are_initialized()
        assert not [name for name in sys.modules if name.split(".")[0] == "ablations"]
        axis = variants.axis("advantage")
        assert axis.names == ("standard", "done_cut", "masked_truncation", "brax", "mine")
        assert axis["mine"].revision == 3
        print(variants.conflicts({"mood": "good", "advantage": "mine"}))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)]), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['nobody feels good about mine']"

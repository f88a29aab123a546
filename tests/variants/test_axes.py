"""The registry: what is there, what it refuses and how it says so."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import variants
from variants import Axis, RegistrationError, UnknownName

DESIGN = {
    "advantage": {"standard", "brax", "done_cut", "masked_truncation", "timeout_bonus"},
    "advantage_timing": {"iteration", "epoch", "minibatch"},
    "value_error": {"squared", "absolute", "huber", "smooth_l1"},
    "value_clip": {"none", "pessimistic", "replace"},
    "advantage_statistics": {"none", "all", "per_group"},
    "advantage_scope": {"minibatch", "batch"},
    "observation_normalization": {"none", "before", "after"},
    "gradient_clip": {"none", "global_norm", "element_wise"},
    "policy_loss": {"clip", "clip_lower_inverse", "dual_clip", "kl_penalty", "none"}
    | {"clip_higher", "dual_clip_higher"},
    "prompt_advantage": {
        "none",
        "per_prompt",
        "batch",
        "batch_samples",
        "per_prompt_baseline_batch",
        "leave_one_out",
        "per_prompt_mean",
        "per_prompt_mean_batch_std",
    },
    "policy_loss_reduction": {"token_mean", "sequence_mean", "constant_length"},
    "kl_placement": {"none", "reward_k1", "loss_k2", "loss_k3"},
    "reward_transform": {"raw", "clipped", "plus_minus_one", "per_task_scale"},
    "entropy_estimate": {"one_sample", "closed_form"},
    "reward_scaling": {"constant", "running_return_std"},
    "learning_rate_schedule": {"constant", "linear", "adaptive_kl"},
    "network_init": {"lecun_uniform", "orthogonal", "xavier_uniform", "torch_uniform"},
    "minibatch_unit": {"segments", "transitions"},
}
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
        "minibatch_unit",
    }
    assert {a.name for a in variants.axes().values() if a.init} >= {
        "reward_scaling",
        "learning_rate_schedule",
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
        r"known: standard, done_cut, masked_truncation, brax, timeout_bonus"
    )
    inputs = dict.fromkeys(axis.inputs, 0.0)
    for ask in (
        axis.__getitem__,
        axis.index,
        lambda name: axis.apply(name, **inputs),
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
        (lambda *, x: x, r"must take state, x, as 'all' does: missing state$"),
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


def test_transitions_have_no_advantages_of_their_own():
    transitions = {"minibatch_unit": "transitions"}
    (complaint,) = variants.conflicts(transitions | {"advantage_timing": "minibatch"})
    assert "minibatch_unit=transitions cannot be had with advantage_timing=minibatch" in complaint
    for timing in ("iteration", "epoch"):
        assert not variants.conflicts(transitions | {"advantage_timing": timing})


def test_group_statistics_need_a_group():
    from variants.prompt_advantage import GROUP_STATISTICS

    for choice in variants.axis("prompt_advantage"):
        variant = {"prompt_advantage": choice, "samples_per_prompt": 1, "learning_rate": 1e-3}
        if choice in GROUP_STATISTICS:
            (complaint,) = variants.conflicts(variant)
            assert "samples_per_prompt=1 leaves nothing to compare" in complaint
        else:
            assert variants.conflicts(variant) == []
        assert variants.conflicts(variant | {"samples_per_prompt": 2}) == []


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
        assert axis.names[-2:] == ("timeout_bonus", "mine")
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

"""The axes that are there, their numbers, and importing them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import variants
from variants import UnknownName

DESIGN = {
    "advantage": {"standard", "brax", "done_cut", "masked_truncation", "timeout_bonus"}
    | {"n_step", "vtrace", "vtrace_weighted"},
    "value_target": {"shared", "own_lambda"},
    "advantage_timing": {"iteration", "epoch", "minibatch"},
    "value_error": {"squared", "absolute", "huber", "smooth_l1"},
    "value_clip": {"none", "pessimistic", "replace"},
    "critic_head": {"scalar", "quantiles", "hl_gauss", "two_hot"},
    "advantage_statistics": {"none", "all", "per_group"},
    "advantage_scope": {"minibatch", "batch"},
    "observation_normalization": {"none", "before", "after"},
    "gradient_clip": {"none", "global_norm", "element_wise"},
    "policy_loss": {"clip", "clip_lower_inverse", "dual_clip", "kl_penalty", "none"}
    | {"clip_higher", "dual_clip_higher", "spo"},
    "mean_perturbation": {"none", "uniform"},
    "penalty_schedule": {"constant", "adaptive_kl"},
    "entropy_schedule": {"constant", "linear", "target"},
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
    "learning_rate_schedule": {"constant", "linear", "cosine", "adaptive_kl"},
    "learning_rate_warmup": {"none", "linear"},
    "optimizer": {"adam", "adamw", "sgd", "radam"},
    "network_init": {"lecun_uniform", "orthogonal", "xavier_uniform", "torch_uniform", "he_normal"},
    "q_return": {"peng", "watkins", "purejaxql", "rejax"},
    "q_truncation": {"bootstrap", "terminal"},
    "q_target": {"none", "hard", "polyak"},
    "exploration": {"linear", "constant", "ladder"},
    "minibatch_unit": {"segments", "transitions"},
}


def test_every_choice_can_be_traced_and_returns_what_the_first_of_its_axis_does() -> None:
    for axis in variants.axes().values():
        axis.check()


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


def test_numbers_of_the_design_are_where_they_are_read():
    """Beside what the trainers call them: whoever renames one breaks studies, presets and flags."""
    assert {
        (axis.name, name) for axis in variants.axes().values() for name in axis.known_numbers
    } >= {
        ("advantage", "discount"),
        ("advantage", "gae_lambda"),
        ("advantage_statistics", "ddof"),
        ("advantage_statistics", "epsilon"),
        ("policy_loss", "clip_epsilon"),
        ("policy_loss", "clip_epsilon_high"),
        ("policy_loss", "dual_clip"),
        ("policy_loss", "penalty_coefficient"),
        ("kl_placement", "kl_coefficient"),
        ("value_clip", "value_clip_range"),
        ("value_error", "error_scale"),
        ("gradient_clip", "max_gradient_norm"),
        ("learning_rate_schedule", "desired_kl"),
        ("reward_scaling", "discount"),
        ("reward_scaling", "reward_scale"),
        ("reward_scaling", "reward_clip"),
        ("reward_transform", "reward_clip"),
        ("prompt_advantage", "advantage_clip"),
    }


def test_choices_without_a_range_read_none():
    """And report no clip fraction, not what some range would have clipped."""
    for axis, names in (
        ("policy_loss", ("none", "kl_penalty", "sapo")),
        ("value_clip", ("none",)),
    ):
        for choice in variants.axis(axis).values():
            reads = any("clip" in n or n == "ratio_cap" for n in choice.numbers)
            assert reads == (choice.name not in names), choice.name


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
    with pytest.raises(
        LookupError, match="unknown axis 'qqqqqq': known: action_distribution, advantage, "
    ):
        variants.axis("qqqqqq")
    assert axis.get("donecut") is None
    assert "donecut" not in axis
    assert 3 not in axis


def test_numbers_of_one_name_have_one_set_of_bounds():
    """Whatever trainer puts axes together, a number means one thing to it."""
    seen = {}
    for axis in variants.axes().values():
        for name, number in axis.known_numbers.items():
            bounds = (number.low, number.high)
            assert seen.setdefault(name, bounds) == bounds, (axis.name, name)
            assert name not in variants.axes()
    assert (
        variants.axis("reward_scaling").known_numbers["discount"]
        is (variants.axis("advantage").numbers["discount"])
    )


def test_import_starts_no_backend_and_plugins_need_one_module(tmp_path):
    """The process that plans imports the registry and a user's plugins, and never starts JAX."""
    (tmp_path / "my_module.py").write_text(
        textwrap.dedent("""
            import jax.numpy as jnp
            import variants

            @variants.axis("advantage").choice(
                "mine", formula="A = r - V", source="this module", summary="myopic", revision=3
            )
            def mine(*, rewards, values):
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
        assert axis.names[-2:] == ("vtrace_weighted", "mine")
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

"""Rules: what makes no sense together, and what is read but cannot act."""

from __future__ import annotations

import pytest

import variants
from variants import UnknownName

# Conflicts


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
    monkeypatch.setattr(variants.rules, "_CONFLICTS", [])
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


UNEQUAL = "not divisible by num_minibatches"
TARGET = {"entropy_schedule": "target"}
REFUSED = [
    ({"advantage_timing": "minibatch"}, "advantage_scope", "batch", "minibatch", "be had with"),
    ({"minibatch_unit": "transitions"}, "advantage_timing", "minibatch", "epoch", "be had with"),
    ({"observation_statistics": "per_step"}, "observation_normalization", "before", "after", ""),
    ({"old_value": "epoch"}, "advantage_timing", "iteration", "epoch", ""),
    ({"value_normalization": "running"}, "advantage_timing", "epoch", "iteration", ""),
    ({"value_normalization": "popart"}, "advantage_timing", "epoch", "iteration", ""),
    ({"advantage_scaling": "percentile"}, "advantage_timing", "epoch", "iteration", ""),
    ({"advantage_scaling": "symlog"}, "advantage_timing", "epoch", "iteration", ""),
    ({"advantage_statistics": "per_group"}, "reset_pool", 4, 1, ""),
    ({"advantage_statistics": "per_group"}, "reset_pool", 0, 1, ""),
    ({"completion_unit": "prompts", "prompts": 6}, "num_minibatches", 4, 3, UNEQUAL),
    (
        {"completion_unit": "samples", "prompts": 6, "samples_per_prompt": 2},
        *("num_minibatches", 8, 4, UNEQUAL),
    ),
    ({"minibatch_unit": "segments", "num_envs": 6}, "num_minibatches", 4, 3, "use 4 or 8, or"),
    ({"minibatch_unit": "segments", "num_envs": 6}, "num_minibatches", 7, 6, "use 7, or"),
    (
        {"minibatch_unit": "transitions", "num_envs": 6, "unroll_length": 2},
        *("num_minibatches", 8, 4, UNEQUAL),
    ),
    ({"critic_head": "quantiles"}, "value_clip", "pessimistic", "none", ""),
    ({"value_clip": "replace"}, "critic_head", "two_hot", "scalar", "set value_clip=none"),
    ({"critic_head": "hl_gauss"}, "value_normalization", "popart", "running", ""),
    ({"value_normalization": "popart"}, "critic_head", "two_hot", "quantiles", "has bins there"),
    (TARGET, "entropy_coefficient", 0.0, 0.001, "set it above 0"),
    ({"entropy_coefficient": 0.0}, "entropy_schedule", "target", "linear", "set it above 0"),
    (TARGET | {"discrete": 1.0}, "entropy_target", -1.0, 0.0, "set it to 0 or more"),
    (TARGET | {"entropy_target": -1.0}, "discrete", 1.0, 0.0, "set it to 0 or more"),
    ({"exploration": "linear"}, "learning_rate_schedule", "adaptive_kl", "linear_per_step", ""),
    ({"exploration": "linear"}, "network_normalization", "critic", "both", ""),
    ({"exploration": "linear"}, "network_normalization", "policy", "none", "=both, or none"),
    (
        {"policy_loss_reduction": "token_mean"},
        *("learning_rate_schedule", "adaptive_exact_kl", "adaptive_kl", ""),
    ),
    ({"discrete": 1.0}, "learning_rate_schedule", "adaptive_offset_kl", "adaptive_exact_kl", ""),
    ({"learning_rate_schedule": "adaptive_offset_kl"}, "discrete", 1.0, 0.0, "=adaptive_exact_kl"),
    ({"advantage": "n_step"}, "bootstrap_steps", 2.5, 3.0, "use 2 or 3"),
    ({"bootstrap_steps": 2.5}, "advantage", "n_step", "standard", "use 2 or 3"),
    ({"advantage": "vtrace"}, "advantage_timing", "iteration", "epoch", ""),
    ({"prompt_advantage": "per_prompt"}, "samples_per_prompt", 1, 2, "nothing to compare"),
]


@pytest.mark.parametrize(("setting", "name", "refused", "allowed", "says"), REFUSED)
def test_refused_combinations(setting, name, refused, allowed, says):
    (complaint,) = variants.conflicts(setting | {name: refused})
    assert (says or f"set {name}={allowed}") in complaint
    assert not variants.conflicts(setting | {name: allowed})
    assert variants.conflicts(setting) == []


# What cannot act

ONE_STEP = {"epochs": 1, "num_minibatches": 1}


@pytest.mark.parametrize(
    ("choices", "names"),
    [
        (
            {"policy_loss": "clip"},
            {
                "policy_loss",
                "clip_epsilon",
                "clip_epsilon_high",
                "dual_clip",
                "penalty_coefficient",
                "ratio_cap",
                "sapo_temperature",
                "sapo_temperature_negative",
            },
        ),
        ({"value_clip": "replace"}, {"value_clip", "value_clip_range"}),
        (
            {"learning_rate_schedule": "adaptive_kl"},
            {"learning_rate_schedule", "desired_kl", "learning_rate_low"},
        ),
    ],
)
def test_nothing_moves_within_one_step_per_batch(choices, names):
    for normalization in ({}, {"observation_normalization": "after"}):
        found = variants.inert_settings(choices | ONE_STEP | normalization)
        assert set(found) == names
        assert all("with one epoch of one minibatch" in reason for reason in found.values())
    for more in (
        {"epochs": 2},
        {"num_minibatches": 2},
        # The policy is scored on other inputs than it acted on: the first ratio is not 1.
        {"observation_normalization": "before"},
    ):
        assert variants.inert_settings(choices | ONE_STEP | more) == {}
    assert variants.inert_settings(choices) == {}


EPOCH = {"old_value": "epoch", "epochs": 2}
SCALED = {"advantage_scaling": "percentile"}
GROUPS = {"advantage_statistics": "per_group"}


TWO = {"epochs": 2, "num_minibatches": 2}
PRICE = {"penalty_schedule": "adaptive_kl"}
VTRACE = {"advantage": "vtrace", "advantage_timing": "epoch"}
EXACT = {"learning_rate_schedule": "adaptive_exact_kl"}
ADAPTIVE = {"learning_rate_schedule": "adaptive_kl"}
INERT = [
    # what it leaves out it leaves out at once
    ({"policy_loss": "clip_cov"} | ONE_STEP, {"clip_epsilon"}, {"policy_loss", "clip_cov_low"}),
    ({"learning_rate_schedule": "constant"} | ONE_STEP, set(), {"desired_kl"}),
    ({"learning_rate_schedule": "linear"} | ONE_STEP, set(), {"desired_kl"}),
    (GROUPS | {"reset_group_size": 1}, {"advantage_statistics"}, set()),
    (GROUPS | {"reset_group_size": 2}, set(), {"advantage_statistics"}),
    (
        {"observation_normalization": "none"},
        {"observation_statistics", "observation_scaling"},
        set(),
    ),
    ({"minibatch_order": "reused", "epochs": 1}, {"minibatch_order"}, set()),
    (EPOCH | {"value_clip": "none"}, {"old_value"}, set()),
    (EPOCH | {"value_clip": "pessimistic"}, set(), {"old_value"}),
    (SCALED | {"advantage_statistics": "all"}, {*SCALED, "percentile_decay"}, set()),
    (SCALED | {"advantage_statistics": "none"}, set(), {*SCALED}),
    ({"observation_scaling": "symlog"}, {"observation_statistics"}, set()),
    ({"minibatch_order": "kept", "epochs": 1}, set(), {"minibatch_order"}),
    ({"minibatch_order": "reused", "epochs": 2}, set(), {"minibatch_order"}),
    ({"critic_head": "scalar"}, {"value_outputs", "value_range"}, {"value_error"}),
    ({"critic_head": "quantiles"}, {"value_range", "value_error"}, {"value_outputs"}),
    ({"critic_head": "two_hot"}, {"value_error", "error_scale"}, {"value_outputs", "value_range"}),
    ({"kl_stop": "epoch"} | ONE_STEP, {"kl_stop", "target_kl"}, set()),
    ({"kl_stop": "none"} | ONE_STEP, set(), {"target_kl"}),
    ({"kl_stop": "epoch"} | ONE_STEP | {"mean_perturbation": "uniform"}, set(), {"kl_stop"}),
    ({"network_init": "torch_uniform"}, {"policy_hidden_gain", "value_hidden_gain"}, set()),
    ({"network_init": "orthogonal"}, set(), {"policy_hidden_gain"}),
    ({"optimizer": "sgd"}, {"adam_epsilon", "adam_beta1", "optimizer_reset"}, set()),
    ({"optimizer": "radam"}, set(), {"adam_epsilon"}),
    (PRICE | {"policy_loss": "clip"}, {"penalty_schedule", "penalty_kl"}, set()),
    (PRICE | {"policy_loss": "kl_penalty"}, set(), {"penalty_schedule"}),
    (PRICE | ONE_STEP, {"penalty_schedule", "penalty_kl"}, set()),
    (PRICE | ONE_STEP | {"epochs": 2}, set(), {"penalty_schedule"}),
    ({"penalty_schedule": "constant", "policy_loss": "clip"} | TWO, set(), {"penalty_kl"}),
    ({"penalty_schedule": "constant"} | ONE_STEP, set(), {"penalty_kl"}),
    (VTRACE | ONE_STEP, {"vtrace_rho", "vtrace_c"}, {"advantage"}),
    (VTRACE | ONE_STEP | {"vtrace_c": 0.9}, {"vtrace_rho"}, {"vtrace_c"}),
    (VTRACE | ONE_STEP | {"num_minibatches": 2}, {"vtrace_rho", "vtrace_c"}, set()),
    (VTRACE | TWO, set(), {"vtrace_rho"}),
    (VTRACE | ONE_STEP | {"advantage": "standard"}, set(), {"vtrace_rho"}),
    (
        VTRACE | ONE_STEP | {"num_minibatches": 2, "advantage_timing": "minibatch"},
        *(set(), {"vtrace_rho"}),
    ),
    (EXACT | ONE_STEP, {"learning_rate_schedule", "desired_kl", "learning_rate_high"}, set()),
    (EXACT | ONE_STEP | {"mean_perturbation": "uniform"}, {"desired_kl"}, set()),
    (ADAPTIVE | ONE_STEP | {"mean_perturbation": "uniform"}, set(), {"desired_kl"}),
    ({"value_clip": "replace"} | ONE_STEP, {"value_clip", "value_clip_range"}, set()),
    ({"value_clip": "replace"} | TWO, set(), {"value_clip"}),
    ({"observation_scaling": "epsilon"}, set(), {"observation_statistics"}),
    ({"observation_normalization": "after"}, set(), {"observation_statistics"}),
    ({"value_target": "own_lambda", "advantage": "n_step"}, {"target_lambda"}, set()),
    ({"value_target": "own_lambda", "advantage": "brax"}, set(), {"value_target"}),
    ({"value_target": "shared", "advantage": "n_step"}, set(), {"value_target"}),
    ({"q_return": "rejax", "q_truncation": "terminal"}, {"q_truncation"}, set()),
    ({"q_return": "peng", "q_truncation": "terminal"}, set(), {"q_truncation"}),
    (EPOCH | {"value_clip": "replace", "epochs": 1}, {"old_value"}, set()),
]


@pytest.mark.parametrize(("settings", "inert", "acts"), INERT)
def test_what_cannot_act_is_named(settings, inert, acts):
    found = variants.inert_settings(settings)
    assert inert <= found.keys()
    assert not acts & found.keys()
    assert bool(found) == bool(inert)


def test_inert_rules_are_merged(monkeypatch):
    monkeypatch.setattr(variants.rules, "_INERT", [])

    @variants.inert
    def clips_touch_nothing(*, policy_loss, torso="separate"):
        return {"clip_epsilon": f"{policy_loss} with {torso}"}

    @variants.inert
    def nothing_to_anneal(*, iterations):
        return (
            {"clip_epsilon": "second", "learning_rate": "one iteration"} if iterations == 1 else {}
        )

    assert variants.inert_settings({"iterations": 1}) == {
        "clip_epsilon": "second",
        "learning_rate": "one iteration",
    }
    both = {"policy_loss": "clip", "torso": "shared", "iterations": 1}
    assert variants.inert_settings(both) == {
        "clip_epsilon": "clip with shared",
        "learning_rate": "one iteration",
    }
    assert variants.inert_settings(both | {"iterations": 2}) == {"clip_epsilon": "clip with shared"}


def test_sentences_of_rules_name_what_they_look_at(monkeypatch):
    for rules in ("_CONFLICTS", "_INERT"):
        monkeypatch.setattr(variants.rules, rules, [])

    @variants.conflict_where("{samples} of {wanted:g}")
    def too_few(*, samples, wanted=2.0):
        return samples < wanted

    @variants.inert_where("only {samples}", "a", "b")
    def one_alone(*, samples):
        return samples == 1

    for samples, complaints, reasons in (
        (1, ["1 of 2"], dict.fromkeys("ab", "only 1")),
        (2, [], {}),
    ):
        assert variants.conflicts({"samples": samples}) == complaints
        assert variants.inert_settings({"samples": samples}) == reasons


def test_each_rule_answers_both_ways_in_these_tables():
    asked = [settings for settings, *_ in INERT]
    asked += [
        one | {name: x} for one, name, refused, allowed, _ in REFUSED for x in (refused, allowed)
    ]
    for rule in (*variants.rules._CONFLICTS, *variants.rules._INERT):
        if not rule.__module__.startswith("variants."):  # another test's
            continue
        answers = [bool(x) for one in asked for x in variants.rules._answers([rule], one)]
        assert {*answers} == {True, False}, rule.__name__

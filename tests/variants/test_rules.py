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


@pytest.mark.parametrize(
    ("setting", "name", "refused", "allowed", "says"),
    [
        ({"advantage_timing": "minibatch"}, "advantage_scope", "batch", "minibatch", "be had with"),
        (
            {"minibatch_unit": "transitions"},
            "advantage_timing",
            "minibatch",
            "epoch",
            "be had with",
        ),
        (
            {"observation_statistics": "per_step"},
            "observation_normalization",
            "before",
            "after",
            "",
        ),
        ({"old_value": "epoch"}, "advantage_timing", "iteration", "epoch", ""),
        ({"value_normalization": "running"}, "advantage_timing", "epoch", "iteration", ""),
        ({"value_normalization": "popart"}, "advantage_timing", "epoch", "iteration", ""),
        ({"advantage_scaling": "percentile"}, "advantage_timing", "epoch", "iteration", ""),
        ({"advantage_scaling": "symlog"}, "advantage_timing", "epoch", "iteration", ""),
        ({"advantage_statistics": "per_group"}, "reset_pool", 4, 1, ""),
    ],
)
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


@pytest.mark.parametrize(
    ("settings", "inert", "acts"),
    [
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
    ],
)
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

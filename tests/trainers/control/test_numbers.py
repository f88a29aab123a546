"""Numbers as data: what a composition reads acts, and what it does not read changes no bit."""

from __future__ import annotations

from typing import Any

import pytest
from composed import other_unread_numbers, same_bits, train, variant

from ablations.tasks import task
from ablations.trainers.control.ppo import SPEC

FAST = {"learning_rate": 1e-2}  # so that ratios leave their range


@pytest.mark.parametrize(
    "sets",
    [
        {},
        {"policy_loss": "none", "advantage_statistics": "none", "advantage": "brax"},
        {
            "policy_loss": "kl_penalty",
            "value_clip": "replace",
            "value_error": "huber",
            "gradient_clip": "global_norm",
            "reward_scaling": "running_return_std",
            "learning_rate_schedule": "linear",
        },
    ],
    ids=["defaults", "plain", "much"],
)
def test_numbers_that_are_not_read_change_no_bit(sets: dict[str, Any]) -> None:
    one, config = variant(**sets, **FAST), SPEC.resolve(task("fast"), sets)
    state, metrics = train(one, chunks=2)
    again, metrics_again = train(other_unread_numbers(one, config), chunks=2)
    assert same_bits(state, again)
    assert same_bits(metrics, metrics_again)


@pytest.mark.parametrize(
    ("sets", "name", "value"),
    [
        ({"policy_loss": "clip_higher"}, "clip_epsilon_high", 1e-3),
        ({"policy_loss": "dual_clip_higher"}, "clip_epsilon_high", 1e-3),
        ({"policy_loss": "kl_penalty"}, "penalty_coefficient", 5.0),
        ({"value_clip": "replace"}, "value_clip_range", 1e-3),
        ({"value_error": "huber"}, "error_scale", 0.1),
        ({"gradient_clip": "element_wise"}, "max_gradient_norm", 1e-3),
        ({"advantage_statistics": "per_group"}, "epsilon", 0.5),
        ({"learning_rate_schedule": "adaptive_kl"}, "desired_kl", 100.0),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_numbers_that_are_read_act(sets: dict[str, Any], name: str, value: float) -> None:
    default = train(variant(**sets, **FAST))[0].parameters
    assert not same_bits(default, train(variant(**sets, **FAST, **{name: value}))[0].parameters)

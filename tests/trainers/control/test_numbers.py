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

"""Every formula against its oracles and identities."""

from __future__ import annotations

import advantage_checks
import gradient_checks
import network_checks
import policy_checks
import pytest
import reward_checks
import schedule_checks
import statistics_checks
import value_checks

import variants.advantage
import variants.advantage_statistics
import variants.entropy_estimate
import variants.gradient_clip
import variants.learning_rate_schedule
import variants.network_init
import variants.policy_loss
import variants.reward_scaling
import variants.value_clip
import variants.value_error


def named(checks):
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)


@named(advantage_checks.ADVANTAGE)
def test_advantage(check):
    check(variants.advantage)


@named(value_checks.VALUE_ERROR)
def test_value_error(check):
    check(variants.value_error)


@named(value_checks.VALUE_CLIP)
def test_value_clip(check):
    check(variants.value_clip)


@named(statistics_checks.ADVANTAGE_STATISTICS)
def test_advantage_statistics(check):
    check(variants.advantage_statistics)


@named(gradient_checks.GRADIENT_CLIP)
def test_gradient_clip(check):
    check(variants.gradient_clip)


@named(policy_checks.POLICY_LOSS)
def test_policy_loss(check):
    check(variants.policy_loss)


@named(policy_checks.ENTROPY_ESTIMATE)
def test_entropy_estimate(check):
    check(variants.entropy_estimate)


@named(reward_checks.REWARD_SCALING)
def test_reward_scaling(check):
    check(variants.reward_scaling)


@named(schedule_checks.LEARNING_RATE_SCHEDULE)
def test_learning_rate_schedule(check):
    check(variants.learning_rate_schedule)


@named(network_checks.NETWORK_INIT)
def test_network_init(check):
    check(variants.network_init)

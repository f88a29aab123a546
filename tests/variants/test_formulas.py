"""Every formula against its oracles and identities."""

from __future__ import annotations

import advantage_checks
import gradient_checks
import language_loss_checks
import multistep_checks
import network_checks
import policy_checks
import prompt_checks
import pytest
import q_checks
import reward_checks
import schedule_checks
import statistics_checks
import token_loss_checks
import value_checks

import variants.advantage
import variants.advantage_statistics
import variants.entropy_estimate
import variants.gradient_clip
import variants.kl_placement
import variants.learning_rate_schedule
import variants.multistep_advantage
import variants.network_init
import variants.policy_loss
import variants.policy_loss_reduction
import variants.prompt_advantage
import variants.q_return
import variants.reward_scaling
import variants.reward_transform
import variants.token_losses
import variants.value_clip
import variants.value_error
import variants.whitened_advantage


def named(checks):
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)


@named(advantage_checks.ADVANTAGE)
def test_advantage(check):
    check(variants.advantage)


@named(multistep_checks.MULTISTEP)
def test_multistep_advantage(check):
    check(variants.multistep_advantage)


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


@named(token_loss_checks.TOKEN_LOSSES)
def test_token_losses(check):
    check(variants.token_losses)


@named(policy_checks.ENTROPY_ESTIMATE)
def test_entropy_estimate(check):
    check(variants.entropy_estimate)


@named(reward_checks.REWARD_SCALING)
def test_reward_scaling(check):
    check(variants.reward_scaling)


@named(q_checks.Q_RETURN)
def test_q_return(check):
    check(variants.q_return)


@named(schedule_checks.LEARNING_RATE_SCHEDULE)
def test_learning_rate_schedule(check):
    check(variants.learning_rate_schedule)


@named(network_checks.NETWORK_INIT)
def test_network_init(check):
    check(variants.network_init)


@named(prompt_checks.PROMPT_ADVANTAGE)
def test_prompt_advantage(check):
    check(variants.prompt_advantage)


@named(prompt_checks.WHITENED_ADVANTAGE)
def test_whitened_advantage(check):
    check(variants.whitened_advantage)


@named(language_loss_checks.POLICY_LOSS_REDUCTION)
def test_policy_loss_reduction(check):
    check(variants.policy_loss_reduction)


@named(language_loss_checks.KL_PLACEMENT)
def test_kl_placement(check):
    check(variants.kl_placement)


@named(language_loss_checks.REWARD_TRANSFORM)
def test_reward_transform(check):
    check(variants.reward_transform)


@named(language_loss_checks.WHOLE_LOSSES)
def test_losses_of_language_libraries(check):
    check()

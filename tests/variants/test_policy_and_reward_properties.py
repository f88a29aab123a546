"""What holds for any input: policy losses, reward scaling, schedules, and padded environments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from advantage_checks import trajectory
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_checks import policy_case
from reward_checks import rewards_of

import variants

ADVANTAGE = variants.axis("advantage")
POLICY = variants.axis("policy_loss")
REWARDS = variants.axis("reward_scaling")
RATES = variants.axis("learning_rate_schedule")

SEEDS = st.integers(0, 2**32 - 1)
properties = settings(max_examples=20, deadline=None, derandomize=True)

advantage = jax.jit(ADVANTAGE.apply, static_argnums=0)
policy_loss = jax.jit(POLICY.apply, static_argnums=0)
scaled = jax.jit(REWARDS.apply, static_argnums=0)


# Policy loss


@properties
@given(SEEDS, st.floats(0.01, 0.9))
def test_clips_only_ever_take_gains_away(seed, epsilon):
    """clip is never a smaller loss than none, and dual_clip never a larger one than clip."""
    case = policy_case(seed) | {"clip_epsilon": epsilon, "dual_clip": 1.1}
    loss = {choice: np.asarray(policy_loss(choice, **case)[0]) for choice in POLICY}
    assert np.all(loss["clip"] >= loss["none"])
    assert np.all(loss["clip_lower_inverse"] >= loss["none"])
    assert np.all(loss["dual_clip"] <= loss["clip"])
    # 1/(1+ε) is above 1-ε: the tighter range takes away more.
    assert np.all(loss["clip_lower_inverse"] >= loss["clip"] - 1e-6)
    assert np.all(loss["kl_penalty"] >= loss["none"])


@pytest.mark.parametrize("choice", [name for name in POLICY if name != "clip_cov"])
def test_first_step_on_a_batch_is_the_policy_gradient(choice):
    """At ρ = 1 nothing is clipped or penalised yet: all choices are one."""
    advantages = policy_case(0)["advantages"]

    def total(log_ratio):
        loss, fraction = POLICY.apply(
            choice, log_ratio=log_ratio, advantages=advantages, clip_epsilon=0.2
        )
        return jnp.sum(loss), fraction

    gradient, fraction = jax.grad(total, has_aux=True)(jnp.zeros(40))
    np.testing.assert_allclose(gradient, -advantages, rtol=1e-6)
    assert np.isnan(fraction) if choice in ("none", "kl_penalty", "sapo") else fraction == 0


# Reward scaling


@pytest.mark.parametrize("choice", REWARDS.names)
def test_diverged_rewards_stay_visible(choice):
    steps = rewards_of(0) | {"rewards": jnp.full((20, 6), jnp.nan)}
    _, got = REWARDS.apply(choice, REWARDS.init(num_envs=6), **steps, discount=0.9)
    assert np.all(np.isnan(got))


# Padding


@properties
@given(SEEDS, st.integers(1, 6), st.sampled_from(ADVANTAGE.names))
def test_padding_a_finished_environment_changes_nothing(seed, padding, choice):
    """Steps that nobody took, after the last episode ended, leave every advantage as it was.

    After a truncation brax and others still look at the step's own next value, so it is kept.
    """
    steps = trajectory(seed)
    last = np.random.default_rng(seed).random(6) < 0.5
    steps["termination"] = steps["termination"].at[-1].set(last)
    steps["truncation"] = steps["truncation"].at[-1].set(~last)
    padded = {
        n: jnp.concatenate([x, jnp.full((padding, 6), 0.0 if n.endswith("ion") else 9.0)])
        for n, x in steps.items()
    }
    plain = advantage(choice, **steps, discount=0.97, gae_lambda=0.9)
    got = advantage(choice, **padded, discount=0.97, gae_lambda=0.9)
    for one, other in zip(plain, got, strict=True):
        np.testing.assert_allclose(one, other[:12], rtol=1e-6, atol=1e-6)


# Learning rate

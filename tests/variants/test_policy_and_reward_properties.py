"""What holds for any input: policy losses, reward scaling, schedules, and padded environments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from advantage_checks import trajectory
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_checks import PER_SAMPLE, policy_case
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


@properties
@given(SEEDS, st.floats(0.1, 50), st.sampled_from([c for c in PER_SAMPLE if c != "kl_penalty"]))
def test_policy_loss_scales_with_advantages(seed, scale, choice):
    case = policy_case(seed) | {"clip_epsilon": 0.2}
    plain, fraction = policy_loss(choice, **case)
    loss, same = policy_loss(choice, **(case | {"advantages": scale * case["advantages"]}))
    np.testing.assert_allclose(loss, scale * plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_equal(np.asarray(fraction), np.asarray(same))


@properties
@given(SEEDS, st.permutations(range(40)), st.sampled_from(PER_SAMPLE))
def test_policy_loss_is_per_sample(seed, order, choice):
    case, order = policy_case(seed), np.asarray(order)
    plain, fraction = policy_loss(choice, **case, clip_epsilon=0.2)
    moved, same = policy_loss(choice, **{n: x[order] for n, x in case.items()}, clip_epsilon=0.2)
    np.testing.assert_array_equal(plain[order], moved)
    np.testing.assert_allclose(fraction, same, rtol=1e-6)


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


@properties
@given(SEEDS, st.permutations(range(6)), st.sampled_from(REWARDS.names))
def test_rewards_of_permuted_environments_are_permuted(seed, order, choice):
    steps, order = rewards_of(seed), np.asarray(order)
    state = REWARDS.init(num_envs=6)
    plain_state, plain = scaled(choice, state, **steps, discount=0.9)
    moved_state, moved = scaled(
        choice, state, **{n: x[:, order] for n, x in steps.items()}, discount=0.9
    )
    np.testing.assert_allclose(plain[:, order], moved, rtol=1e-5)
    np.testing.assert_array_equal(plain_state.running[order], moved_state.running)


@properties
@given(SEEDS, st.floats(0.1, 1e3))
def test_running_std_undoes_scale(seed, scale):
    steps = rewards_of(seed)
    state = REWARDS.init(num_envs=6)
    arguments = {"discount": 0.9, "reward_clip": 1e6}
    _, plain = scaled("running_return_std", state, **steps, **arguments)
    larger = steps | {"rewards": scale * steps["rewards"]}
    _, got = scaled("running_return_std", state, **larger, **arguments)
    # The prior, a ten-thousandth of a sample, has a unit of its own.
    np.testing.assert_allclose(got, plain, rtol=0.01)


@properties
@given(SEEDS, st.floats(0.1, 20))
def test_scaled_rewards_stay_within_the_clip(seed, bound):
    _, got = scaled(
        "running_return_std",
        REWARDS.init(num_envs=6),
        **rewards_of(seed),
        discount=0.99,
        reward_clip=bound,
    )
    assert np.all(np.abs(got) <= np.float32(bound))


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


@properties
@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30),
    st.floats(1e-5, 1e-2),
    st.sampled_from(RATES.names),
)
def test_rates_stay_within_their_bounds(divergences, start, choice):
    state = RATES.init(learning_rate=start)
    for step, divergence in enumerate(divergences):
        state, rate = RATES.apply(
            choice,
            state,
            learning_rate=np.float32(start),
            progress=np.float32(step / len(divergences)),
            step_progress=np.float32(step / len(divergences)),
            approximate_kl=np.float32(divergence),
            exact_kl=np.float32(divergence),
            offset_kl=np.float32(divergence),
        )
        low, high = {
            "constant": (start, start),
            "linear": (0, start),
            "linear_per_step": (0, start),
            "cosine": (0, start),
        }.get(choice, (1e-5, 1e-2))
        assert low * (1 - 1e-6) <= float(rate) <= high * (1 + 1e-6)

"""What holds for any input of a choice: gradients that flow, NaN that stays visible, shapes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from advantage_checks import trajectory
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_checks import policy_case
from prompt_checks import GROUPS, rollout
from reward_checks import rewards_of
from value_checks import squared

import variants

ADVANTAGE = variants.axis("advantage")
STATISTICS = variants.axis("advantage_statistics")
POLICY = variants.axis("policy_loss")
PROMPT = variants.axis("prompt_advantage")
REWARDS = variants.axis("reward_scaling")


@pytest.mark.parametrize("choice", ADVANTAGE.names)
def test_gradients_flow_through_advantages(choice):
    """Nothing is stopped inside: that is the trainer's to decide."""
    steps = trajectory(0)

    def total(values):
        advantages, targets = ADVANTAGE.apply(
            choice, **(steps | {"values": values}), discount=0.97, gae_lambda=0.9
        )
        return jnp.sum(advantages) + jnp.sum(targets)

    gradient = jax.grad(total)(steps["values"])
    assert np.all(np.isfinite(gradient))
    assert np.any(np.asarray(gradient) != 0)


def test_mismatched_shapes_are_refused():
    """[B] against [B, 1] would broadcast to a [B, B] loss that trains on nonsense."""
    column = jnp.zeros((4, 1))
    with pytest.raises(ValueError, match=r"values \[4\], targets \[4, 1\]"):
        variants.axis("value_error").apply("squared", values=column[:, 0], targets=column)
    with pytest.raises(ValueError, match=r"old_values \[4, 1\]"):
        variants.axis("value_clip").apply(
            "replace",
            error=squared,
            values=column[:, 0],
            targets=column[:, 0],
            old_values=column,
            value_clip_range=0.2,
        )
    steps = trajectory(0) | {"values": jnp.zeros((13, 6))}
    with pytest.raises(ValueError, match=r"values \[13, 6\]"):
        ADVANTAGE.apply("standard", **steps, discount=0.9, gae_lambda=0.9)


def test_what_diverged_stays_visible():
    """A NaN is not taken for a constant set and turned into a harmless 0."""
    for choice in STATISTICS:
        advantages = jnp.asarray([1.0, jnp.nan, 2.0])
        groups = jnp.zeros(3, jnp.int32)
        got = STATISTICS.apply(choice, advantages=advantages, groups=groups, num_groups=1)
        assert np.isnan(got[1]), choice
    steps = rewards_of(0) | {"rewards": jnp.full((20, 6), jnp.nan)}
    for choice in REWARDS:
        _, got = REWARDS.apply(choice, REWARDS.init(num_envs=6), **steps, discount=0.9)
        assert np.all(np.isnan(got)), choice
    gradients = {"a": jnp.asarray([jnp.nan, 1.0])}
    clip = variants.axis("gradient_clip").apply
    assert np.all(np.isnan(clip("global_norm", gradients=gradients, max_gradient_norm=0.5)["a"]))


@pytest.mark.parametrize("choice", STATISTICS.names)
@pytest.mark.parametrize("constant", [False, True])
def test_gradient_of_statistics_is_finite(choice, constant):
    """Where a constant set is written as 0 the other branch must not leak a NaN either."""
    rng = np.random.default_rng(0)
    advantages, groups = rng.normal(size=24).astype(np.float32), rng.integers(0, 5, size=24)
    advantages = jnp.full_like(advantages, 0.9) if constant else jnp.asarray(advantages)
    gradient = jax.grad(
        lambda a: jnp.sum(
            jnp.square(STATISTICS.apply(choice, advantages=a, groups=groups, num_groups=5))
        )
    )(advantages)
    assert np.all(np.isfinite(gradient))


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


@jax.jit
def prompt_advantages(index, inputs):
    return PROMPT.apply(index, **inputs)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.booleans(), min_size=120, max_size=120),
    st.sampled_from(PROMPT.names),
    st.booleans(),
)
def test_any_mask_of_completions_gives_finite_numbers_and_zeros_outside(seed, mask, choice, equal):
    case = rollout(seed) | {"kl_coefficient": 0.0 if equal else 0.1}
    case["mask"] = jnp.asarray(mask, jnp.float32).reshape(case["mask"].shape)
    case["token_kl"] = jnp.where(case["mask"] > 0, 0.1, jnp.nan)
    if equal:
        case["rewards"] = jnp.full_like(case["rewards"], 0.9)
    got = np.asarray(prompt_advantages(jnp.int32(PROMPT.index(choice)), case))
    assert np.all(np.isfinite(got))
    assert np.all(got[np.asarray(case["mask"]) == 0] == 0)
    if equal and choice in GROUPS and not choice.startswith("per_prompt_baseline_batch"):
        assert np.all(got == 0)

"""What holds for any input, and under jit, vmap and grad as well."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from advantage_checks import trajectory
from gradient_checks import gradient_tree
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import close
from value_checks import clip_case, squared

import variants

ADVANTAGE = variants.axis("advantage")
STATISTICS = variants.axis("advantage_statistics")
VALUE_CLIP = variants.axis("value_clip")
VALUE_ERROR = variants.axis("value_error")

SEEDS = st.integers(0, 2**32 - 1)
# Derandomised: rounding that a tolerance does not foresee shall not surprise a bystander.
properties = settings(max_examples=20, deadline=None, derandomize=True)

B, GROUPS = 24, 5

advantage = jax.jit(ADVANTAGE.apply, static_argnums=0)
standardised = jax.jit(STATISTICS.apply, static_argnums=0, static_argnames="num_groups")


def samples(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    advantages = rng.normal(size=B).astype(np.float32)
    return advantages, rng.integers(0, GROUPS, size=B).astype(np.int32)


# Advantage


@properties
@given(SEEDS, st.permutations(range(6)), st.sampled_from(ADVANTAGE.names))
def test_environments_do_not_know_each_other(seed, order, choice):
    steps = trajectory(seed)
    order = np.asarray(order)
    plain = advantage(choice, **steps, discount=0.97, gae_lambda=0.9)
    moved = advantage(
        choice, **{n: x[:, order] for n, x in steps.items()}, discount=0.97, gae_lambda=0.9
    )
    for one, other in zip(plain, moved, strict=True):
        np.testing.assert_array_equal(one[:, order], other)


@properties
@given(SEEDS, st.floats(0, 1), st.floats(0, 1), st.sampled_from(ADVANTAGE.names))
def test_target_differs_from_value_by_an_advantage(seed, discount, gae_lambda, choice):
    """Targets are values plus an advantage, for most choices the one returned."""
    steps = trajectory(seed)
    estimator = {"brax": "masked_truncation", "vtrace_weighted": "vtrace"}.get(choice, choice)
    advantages, _ = advantage(estimator, **steps, discount=discount, gae_lambda=gae_lambda)
    _, targets = advantage(choice, **steps, discount=discount, gae_lambda=gae_lambda)
    np.testing.assert_allclose(targets, advantages + steps["values"], rtol=1e-6, atol=1e-6)


@properties
@given(SEEDS, st.floats(0.1, 10), st.sampled_from(ADVANTAGE.names))
def test_advantage_scales_with_rewards_and_values(seed, scale, choice):
    steps = trajectory(seed)
    scaled = steps | {n: steps[n] * scale for n in ("rewards", "values", "next_values")}
    plain = advantage(choice, **steps, discount=0.97, gae_lambda=0.9)
    for one, other in zip(
        plain, advantage(choice, **scaled, discount=0.97, gae_lambda=0.9), strict=True
    ):
        np.testing.assert_allclose(one * scale, other, rtol=1e-4, atol=1e-4)


@properties
@given(SEEDS, st.integers(0, 11), st.integers(0, 5), st.sampled_from(ADVANTAGE.names))
def test_nothing_passes_an_episode_end(seed, t, n, choice):
    """Whatever happens after an end leaves no trace before it."""
    steps = trajectory(seed)
    steps["truncation"] = steps["truncation"].at[t, n].set(1.0)
    later = steps | {"rewards": steps["rewards"].at[t + 1 :, n].add(100.0)}
    # Beyond the end the next observation belongs to another episode.
    later["values"] = steps["values"].at[t + 1 :, n].add(7.0)
    plain = advantage(choice, **steps, discount=0.97, gae_lambda=0.9)
    for one, other in zip(
        plain, advantage(choice, **later, discount=0.97, gae_lambda=0.9), strict=True
    ):
        np.testing.assert_array_equal(one[: t + 1, n], other[: t + 1, n])


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


# Value loss


@properties
@given(SEEDS, st.floats(0.01, 2.0))
def test_pessimistic_is_never_the_smaller_loss(seed, clip_range):
    case = clip_case(seed)
    losses = {
        choice: np.asarray(
            VALUE_CLIP.apply(choice, error=squared, **case, value_clip_range=clip_range)[0]
        )
        for choice in VALUE_CLIP
    }
    np.testing.assert_array_equal(
        losses["pessimistic"], np.maximum(losses["none"], losses["replace"])
    )


@pytest.mark.parametrize("choice", VALUE_CLIP.names)
def test_value_clip_is_per_sample(choice):
    case = clip_case(3)
    order = np.random.default_rng(0).permutation(40)
    loss, fraction = VALUE_CLIP.apply(choice, error=squared, **case, value_clip_range=0.2)
    moved, same = VALUE_CLIP.apply(
        choice, error=squared, **{n: x[order] for n, x in case.items()}, value_clip_range=0.2
    )
    np.testing.assert_array_equal(loss[order], moved)
    np.testing.assert_equal(np.asarray(fraction), np.asarray(same))


@pytest.mark.parametrize("error", VALUE_ERROR.names)
def test_any_error_can_be_clipped(error):
    """As a trainer composes them: the error of one axis is an input of another."""
    case = clip_case(4)
    chosen = partial(VALUE_ERROR.apply, jnp.int32(VALUE_ERROR.index(error)), error_scale=0.5)
    composed = jax.jit(
        lambda case: VALUE_CLIP.apply("pessimistic", error=chosen, **case, value_clip_range=0.2)
    )
    loss, _ = composed(case)
    clipped = np.clip(case["values"], case["old_values"] - 0.2, case["old_values"] + 0.2)
    expected = np.maximum(
        chosen(values=case["values"], targets=case["targets"]),
        chosen(values=jnp.asarray(clipped), targets=case["targets"]),
    )
    close(loss, expected)


def test_mismatched_shapes_are_refused():
    """[B] against [B, 1] would broadcast to a [B, B] loss that trains on nonsense."""
    column = jnp.zeros((4, 1))
    with pytest.raises(ValueError, match=r"values \[4\], targets \[4, 1\]"):
        VALUE_ERROR.apply("squared", values=column[:, 0], targets=column)
    with pytest.raises(ValueError, match=r"old_values \[4, 1\]"):
        VALUE_CLIP.apply(
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


# Advantage statistics


@properties
@given(SEEDS, st.floats(0.1, 100), st.floats(-10, 10), st.sampled_from(["all", "per_group"]))
def test_standardising_undoes_scale_and_shift(seed, scale, shift, choice):
    advantages, groups = samples(seed)
    arguments = {"groups": groups, "num_groups": GROUPS}
    plain = standardised(choice, advantages=advantages, **arguments)
    moved = standardised(choice, advantages=advantages * scale + shift, **arguments)
    np.testing.assert_allclose(plain, moved, rtol=1e-2, atol=1e-2)


@properties
@given(SEEDS, st.integers(0, 1))
def test_one_group_is_all(seed, ddof):
    advantages, groups = samples(seed)
    arguments = {"advantages": advantages, "ddof": ddof, "num_groups": GROUPS}
    one = standardised("per_group", groups=np.full_like(groups, 3), **arguments)
    np.testing.assert_allclose(
        one, standardised("all", groups=groups, **arguments), rtol=1e-4, atol=1e-5
    )


@properties
@given(SEEDS, st.permutations(range(B)), st.sampled_from(STATISTICS.names))
def test_order_of_samples_does_not_matter(seed, order, choice):
    advantages, groups = samples(seed)
    order = np.asarray(order)
    plain = standardised(choice, advantages=advantages, groups=groups, num_groups=GROUPS)
    moved = standardised(
        choice, advantages=advantages[order], groups=groups[order], num_groups=GROUPS
    )
    np.testing.assert_allclose(np.asarray(plain)[order], moved, rtol=1e-3, atol=1e-4)


@properties
@given(SEEDS, st.sampled_from(["all", "per_group"]))
def test_standardised_samples_have_mean_0_and_std_1(seed, choice):
    advantages, groups = samples(seed)
    got = np.asarray(standardised(choice, advantages=advantages, groups=groups, num_groups=GROUPS))
    for peers in [groups == g for g in set(groups)] if choice == "per_group" else [groups >= 0]:
        assert abs(got[peers].mean()) < 1e-4
        if peers.sum() > 1:
            assert abs(got[peers].std() - 1) < 1e-3
        else:
            assert got[peers] == 0


@pytest.mark.parametrize("choice", STATISTICS.names)
def test_diverged_advantages_stay_visible(choice):
    """A NaN is not taken for a constant set and turned into a harmless 0."""
    got = STATISTICS.apply(
        choice,
        advantages=jnp.asarray([1.0, jnp.nan, 2.0]),
        groups=jnp.zeros(3, jnp.int32),
        num_groups=1,
    )
    assert np.isnan(got[1])


@pytest.mark.parametrize("choice", STATISTICS.names)
@pytest.mark.parametrize("constant", [False, True])
def test_gradient_of_statistics_is_finite(choice, constant):
    """Where a constant set is written as 0 the other branch must not leak a NaN either."""
    advantages, groups = samples(0)
    advantages = jnp.full_like(advantages, 0.9) if constant else jnp.asarray(advantages)
    gradient = jax.grad(
        lambda a: jnp.sum(
            jnp.square(STATISTICS.apply(choice, advantages=a, groups=groups, num_groups=GROUPS))
        )
    )(advantages)
    assert np.all(np.isfinite(gradient))


# Gradient clipping


def test_clipping_keeps_direction_and_dtype():
    clip = variants.axis("gradient_clip")
    gradients = jax.tree.map(lambda g: g.astype(jnp.bfloat16), gradient_tree(0))
    got = clip.apply("global_norm", gradients=gradients, max_gradient_norm=0.5)
    assert {leaf.dtype for leaf in jax.tree.leaves(got)} == {jnp.dtype(jnp.bfloat16)}
    flat, clipped = (
        np.concatenate([np.ravel(leaf).astype(np.float64) for leaf in jax.tree.leaves(tree)])
        for tree in (gradients, got)
    )
    cosine = flat @ clipped / np.linalg.norm(flat) / np.linalg.norm(clipped)
    assert cosine > 0.9999
    assert np.linalg.norm(clipped) == pytest.approx(0.5, rel=0.01)


def test_diverged_gradient_stays_visible():
    clip = variants.axis("gradient_clip")
    got = clip.apply(
        "global_norm", gradients={"a": jnp.asarray([jnp.nan, 1.0])}, max_gradient_norm=0.5
    )
    assert np.all(np.isnan(got["a"]))

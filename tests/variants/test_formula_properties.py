"""What holds for any input, and under jit, vmap and grad as well."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from advantage_checks import trajectory
from gradient_checks import gradient_tree
from hypothesis import settings
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

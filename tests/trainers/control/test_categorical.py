"""The distribution over whole actions, against NumPy and by the frequencies of what is drawn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.environments import Box, Discrete
from ablations.trainers.control.distribution import Categorical, Normal, distribution_of
from ablations.trainers.control.ppo import SPEC
from ablations.trainers.trainer import TracedConfig

NONE = TracedConfig({}, {})  # there is nothing to choose
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(0, 3, (7, 5, 4)).astype(np.float32)
OTHERS = RNG.normal(0, 3, (7, 5, 4)).astype(np.float32)
ACTIONS = RNG.integers(0, 4, (7, 5)).astype(np.int32)
FOUR = Categorical(4)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def test_log_probability_entropy_and_divergence_are_those_of_numpy() -> None:
    log, other = log_softmax(LOGITS), log_softmax(OTHERS)
    chosen = np.take_along_axis(log, ACTIONS[..., None], -1)[..., 0]
    np.testing.assert_allclose(FOUR.log_prob(LOGITS, ACTIONS, NONE), chosen, rtol=1e-5, atol=1e-5)
    entropy = -np.sum(np.exp(log) * log, axis=-1).reshape(-1)
    np.testing.assert_allclose(FOUR.entropy(LOGITS, jax.random.key(0), NONE), entropy, rtol=1e-5)
    kl = np.mean(np.sum(np.exp(log) * (log - other), axis=-1))
    assert float(FOUR.kl(LOGITS, OTHERS, NONE)) == pytest.approx(kl, rel=1e-5)
    assert float(FOUR.kl(LOGITS, LOGITS, NONE, offset=1e-5)) == 0.0


def test_gradient_of_the_log_probability_is_one_hot_less_softmax() -> None:
    found = jax.grad(lambda raw: jnp.sum(FOUR.log_prob(raw, ACTIONS, NONE)))(jnp.asarray(LOGITS))
    expected = np.eye(4)[ACTIONS] - np.exp(log_softmax(LOGITS))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_logits_of_any_size_and_shift_are_finite() -> None:
    raw = jnp.array([[1e4, 0.0, -1e4, 0.0], [1e4 + 3, 1e4 + 1, 1e4, 1e4 + 2]])
    assert jnp.isfinite(FOUR.entropy(raw, jax.random.key(0), NONE)).all()
    assert float(FOUR.log_prob(raw[0], jnp.int32(0), NONE)) == 0.0
    shifted = FOUR.log_prob(raw[1] - 1e4, jnp.int32(3), NONE)
    assert float(FOUR.log_prob(raw[1], jnp.int32(3), NONE)) == pytest.approx(float(shifted))


def test_the_mode_is_the_first_of_the_most_probable_and_a_whole_number() -> None:
    raw = jnp.array([[0.0, 2.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0]])
    found = FOUR.mode(raw, NONE)
    assert (found.tolist(), found.dtype) == ([1, 0], jnp.int32)


def test_draws_have_the_frequencies_of_the_softmax() -> None:
    """Within five standard deviations of each count."""
    raw, count = jnp.array([1.0, -1.0, 0.5, -3.0]), 100_000
    noise = FOUR.noise(jax.random.key(1), (count,))
    x, action, log_prob = FOUR.sample(jnp.broadcast_to(raw, (count, 4)), noise, NONE)
    assert (action.dtype, x.shape) == (jnp.int32, (count,))
    np.testing.assert_array_equal(x, action)
    p = np.exp(log_softmax(np.asarray(raw)))
    found = np.bincount(np.asarray(action), minlength=4)
    assert (np.abs(found - count * p) < 5 * np.sqrt(count * p * (1 - p))).all(), found
    np.testing.assert_allclose(log_prob, np.log(p)[np.asarray(x)], rtol=1e-5)


def test_noise_is_the_same_for_every_policy() -> None:
    """So two policies that are nearly one draw nearly the same actions from it."""
    noise = FOUR.noise(jax.random.key(2), (10_000,))
    assert noise.shape == (10_000, 4)
    raw = jnp.broadcast_to(jnp.array([1.0, 0.0, 0.5, 0.2]), noise.shape)
    here, near = (FOUR.sample(each, noise, NONE).action for each in (raw, raw.at[:, 0].add(0.01)))
    assert 0 < int(jnp.sum(here != near)) < 100


def test_nothing_displaces_logits() -> None:
    raw = jnp.asarray(LOGITS)
    assert FOUR.perturbed(raw, jax.random.key(0), NONE) is raw


def test_the_distribution_follows_from_the_actions() -> None:
    assert distribution_of(Discrete(3), SPEC.axes) == Categorical(3)
    assert Categorical(3).outputs.layer == 3
    assert isinstance(distribution_of(Box(3), SPEC.axes), Normal)

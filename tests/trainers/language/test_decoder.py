"""The decoder: what is read at once equals what is read one token at a time, under any padding."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ablations.trainers.language.decoder import Decoder, DecoderConfig, token_log_probs

CONFIG = DecoderConfig(vocabulary=11, width=16, layers=2, heads=4, mlp_width=24)
DECODER = Decoder(CONFIG)
B, T = 3, 6

properties = settings(max_examples=15, deadline=None, derandomize=True)


@cache
def weights():
    """Larger than at a start, so that attention attends."""
    return jax.tree.map(lambda x: 3 * x, DECODER.init(jax.random.key(0)))


@partial(jax.jit, static_argnums=0)
def at_once(decoder, parameters, tokens, valid):
    batch, steps = tokens.shape
    features, _ = decoder.extend(parameters, tokens, valid, decoder.empty_cache(batch, steps), 0)
    return decoder.logits(parameters, features)


@jax.jit
def one_by_one(parameters, tokens, valid):
    def step(carry, now):
        cache, i = carry
        token, is_valid = now
        features, cache = DECODER.extend(parameters, token[:, None], is_valid[:, None], cache, i)
        return (cache, i + 1), DECODER.logits(parameters, features[:, 0])

    start = (DECODER.empty_cache(*tokens.shape), 0)
    _, logits = jax.lax.scan(step, start, (tokens.T, valid.T))
    return jnp.swapaxes(logits, 0, 1)


def sequences(seed: int):
    rng = np.random.default_rng(seed)
    return (
        jnp.asarray(rng.integers(0, CONFIG.vocabulary, (B, T))),
        jnp.asarray(rng.random((B, T)) < 0.7),
    )


@properties
@given(seed=st.integers(0, 2**32 - 1))
def test_steps_equal_the_whole(seed):
    tokens, valid = sequences(seed)
    whole, steps = (
        at_once(DECODER, weights(), tokens, valid),
        one_by_one(weights(), tokens, valid),
    )
    assert np.all(np.isfinite(whole))
    assert np.all(np.isfinite(steps))
    np.testing.assert_allclose(whole[valid], steps[valid], rtol=1e-5, atol=1e-5)


def test_prompt_then_completions_equal_the_whole():
    """A prompt's cache, repeated for its samples, and the completions behind it at once."""
    tokens, _ = sequences(0)
    tokens = tokens.at[:, :3].set(tokens[0, :3])
    valid = jnp.ones((B, T), bool).at[:, 0].set(False)
    features, cache = DECODER.extend(
        weights(), tokens[:1, :3], valid[:1, :3], DECODER.empty_cache(1, T), 0
    )
    cache = jax.tree.map(lambda x: jnp.repeat(x, B, axis=0), cache)
    rest, _ = DECODER.extend(weights(), tokens[:, 3:], valid[:, 3:], cache, 3)
    whole = at_once(DECODER, weights(), tokens, valid)
    np.testing.assert_allclose(DECODER.logits(weights(), rest), whole[:, 3:], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        DECODER.logits(weights(), features[0, 2]), whole[1, 2], rtol=1e-5, atol=1e-5
    )


@properties
@given(seed=st.integers(0, 2**32 - 1), shift=st.integers(1, 4))
def test_padding_on_the_left_shifts_nothing(seed, shift):
    tokens, _ = sequences(seed)
    everything = jnp.ones((B, T), bool)
    plain = at_once(DECODER, weights(), tokens, everything)
    padded = at_once(
        DECODER,
        weights(),
        jnp.pad(tokens, ((0, 0), (shift, 0)), constant_values=5),
        jnp.pad(everything, ((0, 0), (shift, 0))),
    )
    np.testing.assert_allclose(padded[:, shift:], plain, rtol=1e-4, atol=1e-5)


def test_nothing_is_seen_of_padding_and_of_the_future():
    tokens, _ = sequences(1)
    valid = jnp.ones((B, T), bool).at[:, 2].set(False)
    plain = at_once(DECODER, weights(), tokens, valid)
    other = at_once(DECODER, weights(), tokens.at[:, 2].add(1) % 11, valid)
    np.testing.assert_array_equal(plain[:, [0, 1, 3, 4, 5]], other[:, [0, 1, 3, 4, 5]])
    other = at_once(DECODER, weights(), tokens.at[:, 4].set((tokens[:, 4] + 1) % 11), valid)
    np.testing.assert_array_equal(plain[:, :4], other[:, :4])
    assert np.all(np.any(np.asarray(plain[:, 4:] != other[:, 4:]), axis=-1))


def test_gradients_are_finite_whatever_is_padding():
    tokens, valid = sequences(2)
    valid = valid.at[0].set(False)

    def loss(parameters):
        logits = at_once(DECODER, parameters, tokens, valid)
        return jnp.sum(jnp.where(valid[:, 1:], token_log_probs(logits[:, :-1], tokens[:, 1:]), 0))

    gradient = jax.grad(loss)(weights())
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
    assert any(np.any(leaf != 0) for leaf in jax.tree.leaves(gradient))


def test_log_probs_are_normalised():
    tokens, valid = sequences(4)
    logits = at_once(DECODER, weights(), tokens, valid)
    every = [token_log_probs(logits, jnp.full((B, T), v)) for v in range(CONFIG.vocabulary)]
    np.testing.assert_allclose(np.sum(np.exp(every), axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(every[3], jax.nn.log_softmax(logits)[..., 3], rtol=1e-5, atol=1e-6)

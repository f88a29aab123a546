"""Completions of prompts: sampled token by token, and read again in one pass.

Shapes: P prompts of S tokens, padded on the left; K neighbouring completions of each, B = P·K in
all; L tokens of a completion; V vocabulary. A prompt is read once, and its K completions share the
keys and values, in sampling and in training.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from ablations.tasks.language.puzzles import END, PAD
from ablations.trainers.language.decoder import Cache, Decoder, token_log_probs
from ablations.trainers.trainer import Array, Scalar, Tree

Writing: TypeAlias = tuple[Array, Array, Cache]  # last token [B], unfinished [B], cache


class Completions(NamedTuple):
    """Sampled completions, each [B, L].

    tokens: int32, padding after the end token. mask: float32, 1 up to and including the end token,
    else 0. log_probs: float32, log π of each token by the policy that sampled, 0 outside the mask.
    """

    tokens: Array
    mask: Array
    log_probs: Array


def read_prompts(
    decoder: Decoder, parameters: Tree, prompts: Array, samples: int, length: int
) -> tuple[Array, Cache]:
    """Read prompts [P, S], and repeat the result for each completion.

    Returns the features [B, D] of the last token, and a cache with room for `length` more tokens.
    """
    count, width = prompts.shape
    cache = decoder.empty_cache(count, width + length)
    features, cache = decoder.extend(parameters, prompts, prompts != PAD, cache, 0)
    last = features[:, -1]
    if samples > 1:
        last, cache = jax.tree.map(lambda leaf: jnp.repeat(leaf, samples, axis=0), (last, cache))
    return last, cache


def write(
    decoder: Decoder,
    parameters: Tree,
    prompts: Array,
    samples: int,
    noise: Array,
    temperature: Scalar = 1.0,
    sampled: Array | float = 1.0,
) -> Completions:
    """Sample completions by the Gumbel trick: argmax of logits/temperature + noise.

    noise: [L, B, V], standard Gumbel, or zeros [L, 1, 1] for the mode.
    sampled: [B, 1], 1 for a sample, 0 for the mode.
    """
    length = noise.shape[0]
    start = prompts.shape[1]
    # The last token is never read.
    last, cache = read_prompts(decoder, parameters, prompts, samples, length - 1)

    def choose(features: Array, noise: Array, going: Array) -> tuple[Array, Array]:
        logits = decoder.logits(parameters, features) / temperature
        token = jnp.argmax(logits + sampled * noise, axis=-1).astype(jnp.int32)
        log_prob = jnp.where(going, token_log_probs(logits, token), 0.0)
        return jnp.where(going, token, PAD), log_prob

    def step(now: Writing, inputs: tuple[Array, Array]) -> tuple[Writing, tuple[Array, ...]]:
        token, going, cache = now
        slot, noise = inputs
        features, cache = decoder.extend(parameters, token[:, None], going[:, None], cache, slot)
        going = going & (token != END)
        token, log_prob = choose(features[:, 0], noise, going)
        return (token, going, cache), (token, log_prob, going)

    going = jnp.ones(last.shape[0], bool)
    token, log_prob = choose(last, noise[0], going)
    slots = start + jnp.arange(length - 1)
    _, rest = jax.lax.scan(step, (token, going, cache), (slots, noise[1:]))
    tokens, log_probs, mask = (
        jnp.concatenate([one[None], others]).T
        for one, others in zip((token, log_prob, going), rest, strict=True)
    )
    return Completions(tokens, mask.astype(jnp.float32), log_probs)


def read(decoder: Decoder, parameters: Tree, prompts: Array, tokens: Array, mask: Array) -> Array:
    """Return the features [B, L, D] that predict each token of completions [B, L].

    They belong to the last token of the prompt [P, S] and to all tokens except the last.
    """
    samples, length = tokens.shape[0] // prompts.shape[0], tokens.shape[1]
    last, cache = read_prompts(decoder, parameters, prompts, samples, length - 1)
    features, _ = decoder.extend(
        parameters, tokens[:, :-1], mask[:, :-1] > 0, cache, prompts.shape[1]
    )
    return jnp.concatenate([last[:, None], features], axis=1)


def masked_log_probs(
    decoder: Decoder,
    parameters: Tree,
    features: Array,
    tokens: Array,
    mask: Array,
    temperature: Scalar = 1.0,
) -> tuple[Array, Array]:
    """Return log π of tokens [B, L] and the policy's entropy, both 0 outside the mask.

    The policy is softmax(logits / temperature).
    """
    logits = decoder.logits(parameters, features) / temperature
    log_probs = token_log_probs(logits, tokens)
    log_softmax = jax.nn.log_softmax(logits, axis=-1)
    entropy = -jnp.sum(jnp.exp(log_softmax) * log_softmax, axis=-1)
    return log_probs * mask, entropy * mask

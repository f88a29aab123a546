"""A decoder-only transformer: RoPE, RMSNorm, SwiGLU, grouped-query attention, a KV cache.

The architecture of Qwen2 (Qwen Team 2024, https://arxiv.org/abs/2407.10671), as small as the
numbers of `DecoderConfig` say.

Shapes: B sequences, T tokens, D width, H heads, G heads of keys and values, h entries of a head,
V vocabulary. A position is an index into the sequence, padding included: RoPE sees differences of
positions alone, so padding on the left shifts nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen

Array = jax.Array

# A finite score for what must not be seen: a query that sees nothing is then finite too, and so
# are its gradients.
HIDDEN = -1e30
# Up to so many tokens an embedding is one matrix product, whose gradient costs less on a CPU than
# the scatter of a look-up.
SMALL_VOCABULARY = 512


@dataclass(frozen=True)
class DecoderConfig:
    """The numbers of a decoder.

    vocabulary, width, layers, mlp_width: V, D, how many blocks, entries of the hidden SwiGLU layer.
    heads, kv_heads, head_width: H, G (H is a multiple of G), h (even).
    attention_bias: whether queries, keys and values have biases. tied: whether the embedding is
    the output matrix too. rope_theta: base of RoPE's wavelengths. norm_epsilon: of RMSNorm.
    """

    vocabulary: int
    width: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 4
    head_width: int = 16
    mlp_width: int = 128
    attention_bias: bool = True
    tied: bool = True
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-6


class Cache(NamedTuple):
    """What a decoder remembers; the batch leads in every leaf. C: capacity, in tokens.

    keys, values: for each layer, [B, C, G, h].
    valid: bool [B, C], which slots hold a token that may be seen.
    """

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    valid: Array


class Decoder(NamedTuple):
    """Pure functions of the parameters. What is sampled one token at a time and what is read again
    at once goes through the same function, `extend`.

    init(key) -> parameters.
    empty_cache(batch, capacity) -> Cache.
    extend(parameters, tokens int [B, T], valid bool [B, T], cache, start) -> (features [B, T, D],
        Cache): writes T tokens into the slots from `start` on, an int or an int32 scalar; each sees
        the valid ones in the slots up to its own. Invalid tokens (padding: of prompts on the left,
        so that completions start together) are seen by nobody; their features are finite.
        The caller minds the capacity: a slot beyond it would overwrite the last ones.
    logits(parameters, features [..., D]) -> float32 [..., V], of the token that comes next.
    """

    config: DecoderConfig
    init: Callable[[Array], Any]
    empty_cache: Callable[[int, int], Cache]
    extend: Callable[[Any, Array, Array, Cache, Any], tuple[Array, Cache]]
    logits: Callable[[Any, Array], Array]


def rotate(x: Array, positions: Array, theta: float) -> Array:
    """RoPE (Su et al. 2021, https://arxiv.org/abs/2104.09864): x [B, T, n, h] at positions [T].

    Entry i and entry i + h/2 turn together, by position · θ^(-2i/h): the halves' order, as in
    Hugging Face's checkpoints, not that of neighbours.
    """
    half = x.shape[-1] // 2
    frequencies = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions.astype(jnp.float32)[:, None, None] * frequencies
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attend(queries: Array, keys: Array, values: Array, seen: Array) -> Array:
    """Softmax attention: queries [B, T, H, h], keys and values [B, S, G, h], seen bool [B, T, S].

    Query head n reads key head n // (H/G). Returns [B, T, H·h].
    """
    batch, steps, heads, width = queries.shape
    groups = keys.shape[2]
    queries = queries.reshape(batch, steps, groups, heads // groups, width)
    scores = jnp.einsum("btgnh,bsgh->bgnts", queries, keys) / width**0.5
    scores = jnp.where(seen[:, None, None], scores.astype(jnp.float32), HIDDEN)
    weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
    return jnp.einsum("bgnts,bsgh->btgnh", weights, values).reshape(batch, steps, heads * width)


class Block(linen.Module):
    """Attention and SwiGLU, each on a normalised copy, added to what came in."""

    config: DecoderConfig

    def setup(self) -> None:
        c = self.config
        self.attention_norm = linen.RMSNorm(epsilon=c.norm_epsilon)
        self.qkv = linen.Dense((c.heads + 2 * c.kv_heads) * c.head_width, use_bias=c.attention_bias)
        self.attention_out = linen.Dense(c.width, use_bias=False)
        self.mlp_norm = linen.RMSNorm(epsilon=c.norm_epsilon)
        self.gate_up = linen.Dense(2 * c.mlp_width, use_bias=False)
        self.mlp_out = linen.Dense(c.width, use_bias=False)

    def __call__(
        self,
        x: Array,
        positions: Array,
        seen: Array,
        insert: Callable[[Array, Array], tuple[Array, Array]],
    ) -> tuple[Array, tuple[Array, Array]]:
        """x [B, T, D] at positions [T] -> the same, and the keys and values that it has seen.

        insert: takes its own keys and values [B, T, G, h] and returns all, [B, C, G, h].
        seen: bool [B, T, C].
        """
        c = self.config
        batch, steps, _ = x.shape
        qkv = self.qkv(self.attention_norm(x))
        qkv = qkv.reshape(batch, steps, c.heads + 2 * c.kv_heads, c.head_width)
        turned = rotate(qkv[:, :, : c.heads + c.kv_heads], positions, c.rope_theta)
        keys, values = insert(turned[:, :, c.heads :], qkv[:, :, c.heads + c.kv_heads :])
        x = x + self.attention_out(attend(turned[:, :, : c.heads], keys, values, seen))
        gate, up = jnp.split(self.gate_up(self.mlp_norm(x)), 2, axis=-1)
        return x + self.mlp_out(jax.nn.silu(gate) * up), (keys, values)


def _insert(
    put: Callable[[Array, Array], Array],
    old_keys: Array,
    old_values: Array,
    keys: Array,
    values: Array,
) -> tuple[Array, Array]:
    return put(old_keys, keys), put(old_values, values)


class Transformer(linen.Module):
    """All layers; the functions of `Decoder` are its methods."""

    config: DecoderConfig

    def setup(self) -> None:
        c = self.config
        self.embedding = self.param(
            "embedding", linen.initializers.normal(0.02), (c.vocabulary, c.width)
        )
        self.blocks = [Block(c) for _ in range(c.layers)]
        self.norm = linen.RMSNorm(epsilon=c.norm_epsilon)
        if not c.tied:
            self.head = linen.Dense(c.vocabulary, use_bias=False)

    def extend(self, tokens: Array, valid: Array, cache: Cache, start: Any) -> tuple[Array, Cache]:
        def put(slots: Array, new: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(
                slots, new.astype(slots.dtype), start, axis=1
            )

        positions = start + jnp.arange(tokens.shape[1])
        all_valid = put(cache.valid, valid)
        causal = positions[:, None] >= jnp.arange(all_valid.shape[1])
        seen = causal & all_valid[:, None, :]

        x, keys, values = self._embed(tokens), [], []
        for block, old_keys, old_values in zip(self.blocks, cache.keys, cache.values, strict=True):
            insert = partial(_insert, put, old_keys, old_values)
            x, (new_keys, new_values) = block(x, positions, seen, insert)
            keys.append(new_keys)
            values.append(new_values)
        return self.norm(x), Cache(tuple(keys), tuple(values), all_valid)

    def _embed(self, tokens: Array) -> Array:
        if self.config.vocabulary <= SMALL_VOCABULARY:
            one_hot = jax.nn.one_hot(tokens, self.config.vocabulary, dtype=self.embedding.dtype)
            return one_hot @ self.embedding
        return self.embedding[tokens]

    def logits(self, features: Array) -> Array:
        logits = features @ self.embedding.T if self.config.tied else self.head(features)
        return logits.astype(jnp.float32)

    def __call__(self, tokens: Array, valid: Array, cache: Cache) -> Array:
        """Every parameter once, for init."""
        return self.logits(self.extend(tokens, valid, cache, 0)[0])


def make_decoder(config: DecoderConfig) -> Decoder:
    """The functions of one decoder. Raises ValueError for numbers that do not fit together."""
    if config.heads % config.kv_heads:
        raise ValueError(f"{config.heads} heads cannot share {config.kv_heads} heads of keys")
    if config.head_width % 2:
        raise ValueError(f"RoPE turns pairs, so a head cannot have {config.head_width} entries")
    model = Transformer(config)

    def empty_cache(batch: int, capacity: int) -> Cache:
        slots = (batch, capacity, config.kv_heads, config.head_width)
        empty = tuple(jnp.zeros(slots) for _ in range(config.layers))
        return Cache(empty, empty, jnp.zeros((batch, capacity), bool))

    def init(key: Array) -> Any:
        token = jnp.zeros((1, 1), jnp.int32)
        return model.init(key, token, token == 0, empty_cache(1, 1))

    def extend(parameters: Any, tokens: Array, valid: Array, cache: Cache, start: Any) -> Any:
        return model.apply(parameters, tokens, valid, cache, start, method="extend")

    def logits(parameters: Any, features: Array) -> Any:
        return model.apply(parameters, features, method="logits")

    return Decoder(config, init, empty_cache, extend, logits)


def token_log_probs(logits: Array, tokens: Array) -> Array:
    """log π of tokens [...] under logits [..., V]."""
    chosen = jax.lax.broadcasted_iota(tokens.dtype, logits.shape, logits.ndim - 1)
    picked = jnp.sum(jnp.where(chosen == tokens[..., None], logits, 0), axis=-1)
    return picked - jax.nn.logsumexp(logits, axis=-1)

"""A decoder-only transformer: RoPE, RMSNorm, SwiGLU, biases of queries, keys and values, a cache.

The architecture of Qwen2 (Qwen Team 2024, https://arxiv.org/abs/2407.10671), with as many heads of
keys as of queries and the embedding as the output matrix.

Shapes: B sequences, T tokens, D width, H heads, h entries of a head, V vocabulary. A position is an
index into the sequence, padding included. RoPE depends on differences of positions only, so padding
on the left changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen

from ablations.trainers.products import Dense, dense_product, product, transposed
from ablations.trainers.trainer import Array, Tree

# The score of hidden keys is finite, so that a query without keys and its gradient are finite.
HIDDEN = -1e30
ROPE_THETA = 10_000.0  # base of RoPE's wavelengths


@dataclass(frozen=True)
class DecoderConfig:
    """The size of a decoder: V, D, number of blocks, H, entries of the hidden SwiGLU layer.

    D/H must be even.
    """

    vocabulary: int
    width: int = 64
    layers: int = 2
    heads: int = 4
    mlp_width: int = 128

    @property
    def head_width(self) -> int:
        """Entries of a head."""
        return self.width // self.heads


class Cache(NamedTuple):
    """Keys and values of past tokens, with a capacity of C tokens.

    keys, values: for each layer, [B, C, H, h].
    valid: bool [B, C], slots with a token that queries may attend to.
    """

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    valid: Array


def rotate(x: Array, positions: Array) -> Array:
    """Rotate x [B, T, n, h] by positions [T]: RoPE (Su et al., https://arxiv.org/abs/2104.09864).

    Entries i and i + h/2 rotate together by position · θ^(-2i/h), the order of Hugging Face's
    checkpoints.
    """
    half = x.shape[-1] // 2
    frequencies = ROPE_THETA ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions.astype(jnp.float32)[:, None, None] * frequencies
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attend(queries: Array, keys: Array, values: Array, seen: Array) -> Array:
    """Compute softmax attention [B, T, H·h].

    queries: [B, T, H, h]. keys, values: [B, S, H, h]. seen: bool [B, T, S].
    """
    batch, steps, heads, width = queries.shape
    queries, keys, values = (jnp.swapaxes(x, 1, 2) for x in (queries, keys, values))
    scores = product(queries, transposed(keys)) / width**0.5  # [B, H, T, S]
    scores = jnp.where(seen[:, None], scores.astype(jnp.float32), HIDDEN)
    weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
    return jnp.swapaxes(product(weights, values), 1, 2).reshape(batch, steps, heads * width)


class Block(linen.Module):
    """Attention and SwiGLU, each on a normalised input, with residual connections."""

    config: DecoderConfig

    def setup(self) -> None:
        """Name the layers."""
        c = self.config
        self.attention_norm = linen.RMSNorm()
        self.qkv = Dense(3 * c.width)
        self.attention_out = Dense(c.width, use_bias=False)
        self.mlp_norm = linen.RMSNorm()
        self.gate_up = Dense(2 * c.mlp_width, use_bias=False)
        self.mlp_out = Dense(c.width, use_bias=False)

    def __call__(
        self,
        x: Array,
        positions: Array,
        seen: Array,
        put: Callable[[Array, Array], Array],
        past: Sequence[Array],
    ) -> tuple[Array, tuple[Array, Array]]:
        """Return x [B, T, D] at positions [T] after the block, and its keys and values.

        put: adds new keys or values [B, T, H, h] to those of the past [B, C, H, h].
        seen: bool [B, T, C], slots that each token attends to.
        """
        c = self.config
        batch, steps, _ = x.shape
        qkv = self.qkv(self.attention_norm(x))
        qkv = qkv.reshape(batch, steps, 3 * c.heads, c.head_width)
        turned = rotate(qkv[:, :, : 2 * c.heads], positions)
        new = turned[:, :, c.heads :], qkv[:, :, 2 * c.heads :]
        keys, values = map(put, past, new)
        x = x + self.attention_out(attend(turned[:, :, : c.heads], keys, values, seen))
        gate, up = jnp.split(self.gate_up(self.mlp_norm(x)), 2, axis=-1)
        return x + self.mlp_out(jax.nn.silu(gate) * up), (keys, values)


class Transformer(linen.Module):
    """All layers; its methods are the functions of `Decoder`."""

    config: DecoderConfig

    def setup(self) -> None:
        """Name the layers."""
        c = self.config
        self.embedding = self.param(
            "embedding", linen.initializers.normal(0.02), (c.vocabulary, c.width)
        )
        self.blocks = [Block(c) for _ in range(c.layers)]
        self.norm = linen.RMSNorm()

    def extend(
        self, tokens: Array, valid: Array, cache: Cache, start: int | Array
    ) -> tuple[Array, Cache]:
        """Write tokens into the cache; see `Decoder`."""

        def put(slots: Array, new: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(
                slots, new.astype(slots.dtype), start, axis=1
            )

        positions = start + jnp.arange(tokens.shape[1])
        all_valid = put(cache.valid, valid)
        causal = positions[:, None] >= jnp.arange(all_valid.shape[1])
        seen = causal & all_valid[:, None, :]

        # A matrix product, whose gradient is cheaper on a CPU than a look-up's.
        one_hot = jax.nn.one_hot(tokens, self.config.vocabulary, dtype=self.embedding.dtype)
        x, keys, values = dense_product(one_hot, self.embedding), [], []
        for block, *past in zip(self.blocks, cache.keys, cache.values, strict=True):
            x, (new_keys, new_values) = block(x, positions, seen, put, past)
            keys.append(new_keys)
            values.append(new_values)
        return self.norm(x), Cache(tuple(keys), tuple(values), all_valid)

    def logits(self, features: Array) -> Array:
        """Return the logits of the next token; see `Decoder`."""
        return dense_product(features, transposed(self.embedding)).astype(jnp.float32)

    def __call__(self, tokens: Array, valid: Array, cache: Cache) -> Array:
        """Use every parameter once, for init."""
        return self.logits(self.extend(tokens, valid, cache, 0)[0])


@dataclass(frozen=True)
class Decoder:
    """Pure functions of the parameters of a decoder."""

    config: DecoderConfig

    def init(self, key: Array) -> Tree:
        """Initialize the parameters."""
        token = jnp.zeros((1, 1), jnp.int32)
        return Transformer(self.config).init(key, token, token == 0, self.empty_cache(1, 1))

    def empty_cache(self, batch: int, capacity: int) -> Cache:
        """Return a cache for `capacity` tokens of each sequence."""
        slots = (batch, capacity, self.config.heads, self.config.head_width)
        empty = tuple(jnp.zeros(slots) for _ in range(self.config.layers))
        return Cache(empty, empty, jnp.zeros((batch, capacity), bool))

    def extend(
        self, parameters: Tree, tokens: Array, valid: Array, cache: Cache, start: int | Array
    ) -> tuple[Array, Cache]:
        """Return the features [B, T, D] of tokens int [B, T], and the cache with them.

        It writes T tokens into the slots from `start` (int or int32 scalar); each attends to valid
        tokens up to its own slot. Features of invalid tokens (padding) are finite. A slot beyond
        the capacity overwrites the last slots. valid: bool [B, T].
        """
        extended: Tree = Transformer(self.config).apply(
            parameters, tokens, valid, cache, start, method="extend"
        )
        return extended[0], extended[1]

    def logits(self, parameters: Tree, features: Array) -> Array:
        """Return the logits of the next token, float32 [..., V], of features [..., D]."""
        logits: Tree = Transformer(self.config).apply(parameters, features, method="logits")
        return jnp.asarray(logits)


def token_log_probs(logits: Array, tokens: Array) -> Array:
    """Return log π of tokens [...] under logits [..., V]."""
    chosen = jax.lax.broadcasted_iota(tokens.dtype, logits.shape, logits.ndim - 1)
    picked = jnp.sum(jnp.where(chosen == tokens[..., None], logits, 0), axis=-1)
    return picked - jax.nn.logsumexp(logits, axis=-1)

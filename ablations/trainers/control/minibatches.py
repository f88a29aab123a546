"""Assign samples to gradient steps, at random, ahead of a whole update."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from ablations.trainers.choices import switch
from ablations.trainers.shuffles import orders
from ablations.trainers.trainer import Variant

Batch = TypeVar("Batch")


class Draws(NamedTuple):
    """The randomness of an update: for each epoch, for each minibatch.

    order: int32 [epochs, minibatches, T, M], places in the batch, row by row. key: for its loss.
    """

    order: jax.Array
    key: jax.Array


def draws(key: jax.Array, *, shape: tuple[int, int], T: int, N: int, variant: Variant) -> Draws:
    """Draw the randomness of an update on T steps of N environments, ahead of it.

    shape: number of epochs, and of minibatches in each.
    """
    epochs, minibatches = shape
    keys = jax.vmap(jax.random.split)(jax.random.split(key, epochs))
    for_losses = jax.vmap(lambda key: jax.random.split(key, minibatches))(keys[:, 1])
    return Draws(order(keys[:, 0], shape=shape, T=T, N=N, variant=variant), for_losses)


def order(
    keys: jax.Array, *, shape: tuple[int, int], T: int, N: int, variant: Variant
) -> jax.Array:
    """Sample the permutations that assign samples to minibatches.

    They are int32 [epochs, minibatches, T, N/minibatches], places in the batch, row by row;
    [epochs, minibatches, 1, T·N/minibatches] where that is no whole number.

    keys: of each epoch. Segments stay whole: each column of a minibatch is one environment's.
    """

    def segments() -> jax.Array:
        columns = orders(keys, N, variant).reshape(*shape, 1, -1)
        return columns + N * jnp.arange(T)[:, None]

    def transitions() -> jax.Array:
        rows = T if N % shape[1] == 0 else 1
        return orders(keys, T * N, variant).reshape(*shape, rows, -1)

    return switch("minibatch_unit", variant, {"segments": segments, "transitions": transitions})


def take(batch: Batch, index: jax.Array) -> Batch:
    """Gather the places `index` of every leaf [T, N, ...], counted row by row."""
    taken: Batch = jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]).at[index].get(mode="promise_in_bounds"), batch
    )
    return taken

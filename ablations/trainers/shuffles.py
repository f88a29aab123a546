"""The order in which the epochs of an update take what was collected, cut into minibatches."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from ablations.trainers.choices import switch
from ablations.trainers.trainer import TracedConfig


def permutation(key: jax.Array, size: int) -> jax.Array:
    """Return `jax.random.permutation(key, size)` in a quarter of a CPU's time.

    It sorts by random keys, as many rounds as make a permutation in which two were equal rare.
    """
    order = jnp.arange(size)
    for _ in range(math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))):
        key, key_round = jax.random.split(key)
        order = order[ascending(jax.random.bits(key_round, (size,), jnp.uint32))]
    return order


def ascending(keys: jax.Array) -> jax.Array:
    """Return the places of keys, uint32 [N], in ascending order; equal ones as they stand.

    XLA sorts one array of numbers faster than two by a comparison, so key and place are one number.
    """
    with jax.enable_x64(True):
        places = jnp.arange(keys.size, dtype=jnp.uint64)
        together = jax.lax.sort(keys.astype(jnp.uint64) << np.uint64(32) | places)
        return (together & np.uint64(2**32 - 1)).astype(jnp.int32)


def orders(keys: jax.Array, size: int, variant: TracedConfig) -> jax.Array:
    """Return the order of `size` units in each epoch, int32 [epochs, size], by minibatch_order.

    keys: of each epoch.
    """
    fresh = jax.vmap(lambda key: permutation(key, size))(keys)

    def shuffled_on() -> jax.Array:
        def epoch(order: jax.Array, fresh: jax.Array) -> tuple[jax.Array, jax.Array]:
            return order[fresh], order[fresh]

        _, shuffled = jax.lax.scan(epoch, jnp.arange(size, dtype=fresh.dtype), fresh)
        return jnp.asarray(shuffled)

    return switch(
        "minibatch_order",
        variant,
        {
            "redrawn": lambda: fresh,
            "reused": lambda: jnp.broadcast_to(fresh[0], fresh.shape),
            "shuffled_on": shuffled_on,
            "kept": lambda: jnp.broadcast_to(jnp.arange(size, dtype=fresh.dtype), fresh.shape),
        },
    )

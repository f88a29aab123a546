"""The order in which the epochs of an update take what was collected, cut into minibatches."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ablations.trainers.choices import switch
from ablations.trainers.trainer import Variant


def orders(keys: jax.Array, size: int, variant: Variant) -> jax.Array:
    """Return the order of `size` units in each epoch, int32 [epochs, size], by minibatch_order.

    keys: of each epoch.
    """
    fresh = jax.vmap(lambda key: jax.random.permutation(key, size))(keys)

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

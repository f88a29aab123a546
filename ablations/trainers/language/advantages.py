"""Advantages of the tokens of a completion where there is a critic: PPO's way.

Shapes: B completions of L tokens; mask is 1 up to and with the end token.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ablations.trainers.choices import apply
from ablations.trainers.trainer import Variant

Array = jax.Array


def token_advantages(
    reward: Array, price: Array, value: Array, mask: Array, variant: Variant
) -> tuple[Array, Array]:
    """Estimate advantages and value targets [B, L] by the choice of `advantage`.

    They are 0 outside the mask.

    reward: [B], paid at the last token of the mask, which is terminal. price: [B, L], taken off the
    reward of each token. value: [B, L], before each token.
    """
    following = jnp.concatenate([mask[:, 1:], jnp.zeros_like(mask[:, :1])], axis=1)
    final = mask * (1.0 - following)
    next_value = jnp.concatenate([value[:, 1:], jnp.zeros_like(value[:, :1])], axis=1)
    advantage, target = apply(
        "advantage",
        variant,
        rewards=(final * reward[:, None] - price * mask).T,
        values=value.T,
        next_values=next_value.T,
        termination=jnp.maximum(final, 1.0 - mask).T,
        truncation=jnp.zeros_like(mask).T,
    )
    return advantage.T * mask, target.T * mask

"""A choice of prompt_advantage: scaled by the spread of the rewards, then by that of the tokens.

Shapes as there.
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.prompt_advantage import (
    AXIS,
    SAMPLES_EPSILON,
    Array,
    Scalar,
    centred_tokens,
    per_prompt_mean_batch_std,
)


@AXIS.choice(
    "per_prompt_mean_batch_std_whitened",
    formula=(
        "clip((G - mean G) / sqrt(var G + 1e-8)) over all valid tokens,\n"
        "a as in per_prompt_mean_batch_std, not clipped"
    ),
    source="ROLL's page on Lite PPO (whiten_advantages, then advantage_clip)",
    summary=(
        "the unit is that of the tokens, whatever the rewards' was: per_prompt_baseline_batch, but "
        "for its ddof and for being clipped at the end"
    ),
    numbers={"samples_epsilon": SAMPLES_EPSILON},
)
def per_prompt_mean_batch_std_whitened(
    *,
    rewards: Array,
    token_kl: Array,
    mask: Array,
    kl_coefficient: Scalar,
    advantage_clip: Scalar | None,
    ddof: Scalar | None,
    epsilon: Scalar | None,
    samples_epsilon: Scalar,
) -> Array:
    """clip((G - mean G) / sqrt(var G + 1e-8)), ddof 1, a = (R - mean_p R) / (std R + ε)."""
    returns = per_prompt_mean_batch_std(
        rewards=rewards,
        token_kl=token_kl,
        mask=mask,
        kl_coefficient=kl_coefficient,
        advantage_clip=None,
        ddof=ddof,
        epsilon=epsilon,
        samples_epsilon=samples_epsilon,
    )
    centred, count, differ = centred_tokens(returns, mask)
    variance = jnp.sum(jnp.square(centred)) / jnp.maximum(count - 1, 1)
    whitened = jnp.where(differ, centred / jnp.sqrt(jnp.where(differ, variance, 1) + 1e-8), 0)
    if advantage_clip is None:
        return whitened
    return jnp.clip(whitened, -advantage_clip, advantage_clip)

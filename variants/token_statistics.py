"""Standardisation of token advantages from a critic.

Shapes: advantages and mask are [B, L], mask 1 at the tokens that count; the output is 0 elsewhere.
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.prompt_advantage import centred_tokens, standardised_tokens
from variants.registry import Axis
from variants.shapes import Array, floats

AXIS = Axis(
    "token_statistics",
    summary="how the token advantages of a critic are centred and scaled",
    inputs={"advantages": floats(6, 4), "mask": floats(6, 4)},
)


@AXIS.choice(
    "none",
    formula="A",
    source="Schulman et al. 2017, https://arxiv.org/abs/1707.06347",
    summary="as the choice of advantage returns them",
)
def none(*, advantages: Array, mask: Array) -> Array:
    return jnp.where(mask > 0, advantages, 0)


@AXIS.choice(
    "standardised",
    formula="(A - mean A) / sqrt(max(var A, 1e-8)) over all tokens of the batch, ddof 0",
    source="OpenRLHF (gae); verl (gae, masked_whiten: ddof 1, var A + 1e-8)",
    summary="mean 0 and std 1: the scale of rewards cancels",
)
def standardised(*, advantages: Array, mask: Array) -> Array:
    return standardised_tokens(advantages, mask)


@AXIS.choice(
    "centred",
    formula="A - mean A over all tokens of the batch",
    source="OpenRLHF (gae with no_advantage_std_norm)",
    summary="mean 0, unscaled",
)
def centred(*, advantages: Array, mask: Array) -> Array:
    return centred_tokens(advantages, mask)[0]

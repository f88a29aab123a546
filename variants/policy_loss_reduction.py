"""Reduction of token losses to one number: it decides the weight of long and short completions.

Shapes: losses and mask [B, L], B samples of up to L tokens, mask 1 at valid tokens; the output is a
scalar. Masked losses are ignored, NaN included, also in the gradient. Without a valid token the
loss is 0. B counts the samples of one gradient step. step_tokens: mean number of valid tokens per
step of the batch (None: the number of this step).
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.registry import Axis
from variants.shapes import Array, Scalar, floats, require_equal_shapes

AXIS = Axis(
    "policy_loss_reduction",
    summary="how much a token weighs in a long and in a short completion",
    inputs={
        "losses": floats(6, 4),
        "mask": floats(6, 4),
        "constant_length": floats(),
        "step_tokens": floats(),
    },
    defaults={"step_tokens": None},
)


def _valid(losses: Array, mask: Array) -> tuple[Array, Array]:
    """Return the losses with 0 where masked, and how many valid tokens each sample has [B]."""
    require_equal_shapes(losses=losses, mask=mask)
    valid = mask > 0
    return jnp.where(valid, losses, 0), jnp.sum(valid, axis=-1, dtype=losses.dtype)


@AXIS.choice(
    "token_mean",
    formula="Σ loss / Σ mask,  over the step",
    source="DAPO (Yu et al. 2025, https://arxiv.org/abs/2503.14476); OpenRLHF, verl, TRL bnpo",
    summary="every token weighs the same, so long completions weigh more",
)
def token_mean(*, losses: Array, mask: Array) -> Array:
    losses, lengths = _valid(losses, mask)
    return jnp.sum(losses) / jnp.maximum(jnp.sum(lengths), 1)


@AXIS.choice(
    "batch_token_mean",
    formula="Σ loss / (Σ_batch mask / m),  m steps on the batch",
    source="TRL dapo, cispo and vespo (num_items_in_batch of the generation batch)",
    summary="token_mean with one divisor for all steps of a batch: longer steps weigh more",
)
def batch_token_mean(*, losses: Array, mask: Array, step_tokens: Scalar | None) -> Array:
    if step_tokens is None:
        return token_mean(losses=losses, mask=mask)
    losses, _ = _valid(losses, mask)
    return jnp.sum(losses) / jnp.maximum(step_tokens, 1)


@AXIS.choice(
    "sequence_mean",
    formula="mean over samples of (Σ_t loss / length)",
    source="GRPO (Shao et al. 2024, https://arxiv.org/abs/2402.03300); TRL grpo, verl",
    summary="every completion weighs the same, so the tokens of a long one weigh less",
)
def sequence_mean(*, losses: Array, mask: Array) -> Array:
    """Average over samples that have a token, like OpenRLHF and verl; TRL counts empty ones too."""
    losses, lengths = _valid(losses, mask)
    means = jnp.sum(losses, axis=-1) / jnp.maximum(lengths, 1)
    return jnp.sum(means) / jnp.maximum(jnp.sum(lengths > 0, dtype=losses.dtype), 1)


@AXIS.choice(
    "constant_length",
    formula="Σ loss / (B·c),  c = constant_length",
    source=(
        "Dr. GRPO (Liu et al. 2025, https://arxiv.org/abs/2503.20783); TRL dr_grpo; verl 0.9.1 "
        "(loss_agg_mode seq-mean-token-sum-norm)"
    ),
    summary="every token weighs the same in every batch, however long the others are",
)
def constant_length(*, losses: Array, mask: Array, constant_length: Scalar) -> Array:
    """B counts empty samples too; c is usually the maximal length of a sample."""
    losses, _ = _valid(losses, mask)
    return jnp.sum(losses) / (losses.shape[0] * constant_length)


@AXIS.choice(
    "sequence_sum",
    formula="mean over samples of Σ_t loss",
    source="verl (loss_agg_mode seq-mean-token-sum); TRL luspo",
    summary="every token weighs the same, so long completions weigh more; the step grows with them",
)
def sequence_sum(*, losses: Array, mask: Array) -> Array:
    losses, lengths = _valid(losses, mask)
    return jnp.sum(losses) / jnp.maximum(jnp.sum(lengths > 0, dtype=losses.dtype), 1)

# ruff: noqa: RUF001  # the formulas are in Greek
"""What keeps a language model near its reference: where the divergence enters, and estimated how.

Shapes: log_probs and reference_log_probs are of one shape, such as [B, L]: log π and log π_ref of
the sampled tokens, at valid and at padded ones; the output is a pair of that shape. k1, k2, k3 are
http://joschu.net/blog/kl-approx.html's estimates of KL(π, π_ref) from samples of π.

A trainer asks twice. When a batch was sampled, with the policy that sampled it, for `reward`, which
prompt_advantage takes as token_kl, and for `sample`, whose sum over a completion is taken off its
reward before prompt_advantage compares it with others. At each gradient step, with the policy as it
is, for `loss`: added to the policy loss of each token. All are priced: β = kl_coefficient is in
them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.choice import Number
from variants.registry import Axis, register
from variants.shapes import require_equal_shapes

Array = jax.Array


class KL(NamedTuple):
    """reward: what is taken off the reward of each token, a constant in differentiation. loss: what
    is added to the loss of each token. sample: what each token takes off the completion's reward.
    """

    reward: Array
    loss: Array
    sample: Array


_TOKENS = jax.ShapeDtypeStruct((6, 4), jnp.float32)

AXIS = register(
    Axis(
        "kl_placement",
        summary="whether leaving the reference model costs reward or enters the loss",
        inputs={"log_probs": _TOKENS, "reference_log_probs": _TOKENS},
        numbers={
            "kl_coefficient": Number(
                0.01, 0.0, 1e6, "β of kl_placement, against the reference policy"
            )
        },
    )
)


@AXIS.choice(
    "none",
    formula="reward 0;  loss 0",
    source="DAPO (Yu et al. 2025, https://arxiv.org/abs/2503.14476), Dr. GRPO",
    summary="nothing holds the policy to its reference",
)
def none(*, log_probs: Array) -> KL:
    """0, 0 and 0."""
    nothing = jnp.zeros_like(log_probs)
    return KL(nothing, nothing, nothing)


@AXIS.choice(
    "reward_k1",
    formula="reward β(log π - log π_ref), β times k1;  loss 0",
    source="InstructGPT (Ouyang et al. 2022, https://arxiv.org/abs/2203.02155); OpenRLHF's default",
    summary=(
        "a price per token, which all tokens before it answer for; no statistic of a group sees it"
    ),
    revision=2,
)
def reward_k1(*, log_probs: Array, reference_log_probs: Array, kl_coefficient: Array | float) -> KL:
    """β(log π - log π_ref), not differentiated, 0 and 0."""
    require_equal_shapes(log_probs=log_probs, reference_log_probs=reference_log_probs)
    price = jax.lax.stop_gradient(log_probs - reference_log_probs)
    nothing = jnp.zeros_like(log_probs)
    return KL(kl_coefficient * price, nothing, nothing)


@AXIS.choice(
    "loss_k2",
    formula="reward 0;  loss β·k2,  k2 = ½(log π - log π_ref)²",
    source="OpenRLHF (use_kl_loss with kl_estimator k2)",
    summary="its gradient, over samples of π, is that of KL(π, π_ref)",
    revision=2,
)
def loss_k2(*, log_probs: Array, reference_log_probs: Array, kl_coefficient: Array | float) -> KL:
    """0, β½(log π - log π_ref)²: the gradient is β(log π - log π_ref)·∇log π; and 0."""
    require_equal_shapes(log_probs=log_probs, reference_log_probs=reference_log_probs)
    loss = 0.5 * jnp.square(log_probs - jax.lax.stop_gradient(reference_log_probs))
    nothing = jnp.zeros_like(log_probs)
    return KL(nothing, kl_coefficient * loss, nothing)


@AXIS.choice(
    "loss_k3",
    formula="reward 0;  loss β·k3,  k3 = ρ - 1 - log ρ,  ρ = π_ref/π",
    source="GRPO (Shao et al. 2024, https://arxiv.org/abs/2402.03300); TRL, verl, OpenRLHF",
    summary="never negative; its gradient, over samples of π, is that of KL(π_ref, π) instead",
    revision=2,
)
def loss_k3(*, log_probs: Array, reference_log_probs: Array, kl_coefficient: Array | float) -> KL:
    """0, β(ρ - 1 - log ρ): the gradient is β(1 - ρ)·∇log π; and 0."""
    require_equal_shapes(log_probs=log_probs, reference_log_probs=reference_log_probs)
    log_ratio = jax.lax.stop_gradient(reference_log_probs) - log_probs
    # expm1 keeps ρ - 1 - log ρ from cancelling to a small negative number near ρ = 1.
    loss = jnp.expm1(log_ratio) - log_ratio
    nothing = jnp.zeros_like(log_probs)
    return KL(nothing, kl_coefficient * loss, nothing)


@AXIS.choice(
    "sample_k1",
    formula="R - β Σ_t (log π - log π_ref) before prompt_advantage;  loss 0",
    source=(
        "RLOO (Ahmadian et al. 2024, https://arxiv.org/abs/2402.14740); TRL's RLOOTrainer, verl "
        "(use_kl_in_reward with grpo or rloo)"
    ),
    summary="the divergence is part of what samples of a prompt are compared by, and of their std",
)
def sample_k1(*, log_probs: Array, reference_log_probs: Array, kl_coefficient: Array | float) -> KL:
    """0, 0 and β(log π - log π_ref), not differentiated."""
    require_equal_shapes(log_probs=log_probs, reference_log_probs=reference_log_probs)
    price = jax.lax.stop_gradient(log_probs - reference_log_probs)
    nothing = jnp.zeros_like(log_probs)
    return KL(nothing, nothing, kl_coefficient * price)

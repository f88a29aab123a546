# ruff: noqa: RUF001  # the formulas are in Greek
"""The price of leaving the reference model: where it enters, and its estimate.

Shapes: log_probs and reference_log_probs, log π and log π_ref of the sampled tokens (padding
included), have one shape such as [B, L], and so have the outputs. k1, k2 and k3 estimate
KL(π, π_ref) from samples of π (http://joschu.net/blog/kl-approx.html).

A trainer calls a choice twice. After sampling, with the policy that sampled: `reward` becomes the
token_kl of prompt_advantage, and the sum of `sample` over a completion is subtracted from its
reward before prompt_advantage. At each gradient step, with the current policy: `loss` is added to
the policy loss of each token. β = kl_coefficient multiplies all of them. log_ratio: log π -
log π_old of the policy that sampled, differentiable (None: 0).

±kl_clip bounds every estimate, and ±kl_log_ratio_clip the log difference in the exponent of k3;
outside, the gradient is 0. The defaults bound nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats, require_equal_shapes


class KL(NamedTuple):
    """The price of each token.

    reward: subtracted from the token's reward, not differentiated. loss: added to the token's loss.
    sample: subtracted from the reward of the whole completion.
    """

    reward: Array
    loss: Array
    sample: Array


_UNBOUNDED = 1e30


def _bound(summary: str) -> Number:
    return Number(_UNBOUNDED, 1e-6, _UNBOUNDED, summary, neutral=_UNBOUNDED)


AXIS = Axis(
    "kl_placement",
    summary="whether leaving the reference model costs reward or enters the loss",
    inputs={
        "log_probs": floats(6, 4),
        "reference_log_probs": floats(6, 4),
        "log_ratio": floats(6, 4),
    },
    defaults={"log_ratio": None},
    numbers={
        "kl_coefficient": Number(0.01, 0.0, 1e6, "β of kl_placement, against the reference policy"),
        "kl_clip": _bound("bound of a token's divergence; OpenRLHF's 10, and verl's for k3"),
        "kl_log_ratio_clip": _bound("bound of log π_ref - log π in the exponent of k3; verl's 20"),
    },
)


class Tokens(NamedTuple):
    """Inputs of every choice that reads the reference."""

    log_probs: Array
    reference_log_probs: Array
    kl_coefficient: Scalar
    kl_clip: Scalar

    def k1(self) -> Array:
        """log π - log π_ref."""
        return jnp.clip(self.log_probs - self._reference(), -self.kl_clip, self.kl_clip)

    def k2(self) -> Array:
        """½(log π - log π_ref)²."""
        return jnp.minimum(0.5 * jnp.square(self.log_probs - self._reference()), self.kl_clip)

    def k3(self, log_ratio_bound: Scalar) -> Array:
        """ρ - 1 - log ρ, ρ = π_ref/π."""
        log_ratio = jnp.clip(self._reference() - self.log_probs, -log_ratio_bound, log_ratio_bound)
        # expm1 keeps ρ - 1 - log ρ from cancelling to a small negative number near ρ = 1.
        return jnp.minimum(jnp.expm1(log_ratio) - log_ratio, self.kl_clip)

    def _reference(self) -> Array:
        reference = self.reference_log_probs
        require_equal_shapes(log_probs=self.log_probs, reference_log_probs=reference)
        return jax.lax.stop_gradient(reference)


def _of_rewards(price: Array) -> KL:
    nothing = jnp.zeros_like(price)
    return KL(jax.lax.stop_gradient(price), nothing, nothing)


def _of_loss(price: Array) -> KL:
    nothing = jnp.zeros_like(price)
    return KL(nothing, price, nothing)


@AXIS.choice(
    "none",
    formula="reward 0;  loss 0",
    source="DAPO (Yu et al. 2025, https://arxiv.org/abs/2503.14476), Dr. GRPO",
    summary="no constraint to the reference",
)
def none(*, log_probs: Array) -> KL:
    nothing = jnp.zeros_like(log_probs)
    return KL(nothing, nothing, nothing)


@AXIS.choice(
    "reward_k1",
    pack=Tokens,
    formula="reward β(log π - log π_ref), β times k1;  loss 0",
    source="InstructGPT (Ouyang et al. 2022, https://arxiv.org/abs/2203.02155); OpenRLHF's default",
    summary=(
        "a price per token, which all tokens before it answer for; no statistic of a group sees it"
    ),
    revision=2,
)
def reward_k1(tokens: Tokens) -> KL:
    return _of_rewards(tokens.kl_coefficient * tokens.k1())


@AXIS.choice(
    "reward_k2",
    pack=Tokens,
    formula="reward β·k2,  k2 = ½(log π - log π_ref)²;  loss 0",
    source="OpenRLHF (algo.kl.estimator k2 without algo.kl.use_loss)",
    summary="reward_k1 with a price that is never negative: likelier than the reference costs too",
)
def reward_k2(tokens: Tokens) -> KL:
    return _of_rewards(tokens.kl_coefficient * tokens.k2())


@AXIS.choice(
    "reward_k3",
    pack=Tokens,
    formula="reward β·k3,  k3 = ρ - 1 - log ρ,  ρ = π_ref/π;  loss 0",
    source="OpenRLHF (algo.kl.estimator k3 without algo.kl.use_loss)",
    summary="reward_k1 with a price that is never negative and has its mean over samples of π",
)
def reward_k3(tokens: Tokens, *, kl_log_ratio_clip: Scalar) -> KL:
    return _of_rewards(tokens.kl_coefficient * tokens.k3(kl_log_ratio_clip))


@AXIS.choice(
    "loss_k1",
    pack=Tokens,
    formula="reward 0;  loss β·k1,  k1 = log π - log π_ref",
    source="verl (kl_loss_type kl); OpenRLHF (algo.kl.use_loss with algo.kl.estimator k1)",
    summary="its gradient is β∇log π, whose mean over samples of π is 0: no constraint",
)
def loss_k1(tokens: Tokens) -> KL:
    return _of_loss(tokens.kl_coefficient * tokens.k1())


@AXIS.choice(
    "loss_k2",
    pack=Tokens,
    formula="reward 0;  loss β·k2,  k2 = ½(log π - log π_ref)²",
    source="OpenRLHF (algo.kl.use_loss with algo.kl.estimator k2); verl (kl_loss_type mse)",
    summary="over samples of π, its gradient equals the gradient of KL(π, π_ref)",
    revision=2,
)
def loss_k2(tokens: Tokens) -> KL:
    return _of_loss(tokens.kl_coefficient * tokens.k2())


@AXIS.choice(
    "loss_k3",
    pack=Tokens,
    formula="reward 0;  loss β·k3,  k3 = ρ - 1 - log ρ,  ρ = π_ref/π",
    source=(
        "GRPO (Shao et al. 2024, https://arxiv.org/abs/2402.03300); verl, OpenRLHF, TRL without "
        "use_bias_correction_kl"
    ),
    summary="never negative; over samples of π, its gradient equals the gradient of KL(π_ref, π)",
    revision=2,
)
def loss_k3(tokens: Tokens, *, kl_log_ratio_clip: Scalar) -> KL:
    return _of_loss(tokens.kl_coefficient * tokens.k3(kl_log_ratio_clip))


@AXIS.choice(
    "loss_k3_corrected",
    pack=Tokens,
    formula="reward 0;  loss β·w·k3,  w = π/π_old (differentiated),  k3 as in loss_k3",
    source="DeepSeek-V3.2 (2025, https://arxiv.org/abs/2512.02556); TRL (use_bias_correction_kl)",
    summary="unbiased off policy: over samples of π_old, its gradient is ∇KL(π, π_ref)",
)
def loss_k3_corrected(tokens: Tokens, *, log_ratio: Array | None, kl_log_ratio_clip: Scalar) -> KL:
    loss = tokens.k3(kl_log_ratio_clip)
    if log_ratio is not None:
        require_equal_shapes(log_probs=tokens.log_probs, log_ratio=log_ratio)
        loss = jnp.exp(log_ratio) * loss
    return _of_loss(tokens.kl_coefficient * loss)


@AXIS.choice(
    "sample_k1",
    pack=Tokens,
    formula="R - β Σ_t (log π - log π_ref) before prompt_advantage;  loss 0",
    source=(
        "RLOO (Ahmadian et al. 2024, https://arxiv.org/abs/2402.14740); TRL's RLOOTrainer, verl "
        "(use_kl_in_reward with grpo or rloo)"
    ),
    summary="the divergence is part of what samples of a prompt are compared by, and of their std",
)
def sample_k1(tokens: Tokens) -> KL:
    price = tokens.kl_coefficient * tokens.k1()
    nothing = jnp.zeros_like(price)
    return KL(nothing, nothing, jax.lax.stop_gradient(price))

# ruff: noqa: RUF001  # the formulas are in Greek
"""Choices of `advantage` that look n steps ahead, or weigh each step by its policy ratio.

Shapes and letters are those of `variants.advantage`. ρ = π(a|s) / π_old(a|s) is 1 before the first
gradient step. Like `standard`, all choices cut their sums at every episode end and bootstrap
truncated steps from V'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from variants.advantage import AXIS, Steps, sum_backwards, temporal_difference
from variants.registry import Number
from variants.rules import WHERE, conflict, conflict_where, inert, on_policy
from variants.shapes import Array, Scalar

BOUNDS = {
    "vtrace_rho": Number(1.0, 1e-6, 1e6, "ρ̄ of advantage=vtrace: largest weight of a TD error"),
    "vtrace_c": Number(1.0, 1e-6, 1e6, "c̄ of advantage=vtrace: largest weight of what follows"),
}
LogRatio: TypeAlias = Callable[[], Scalar]


def _later(sums: Array) -> Array:
    """Return S⁺: the sums [T, N] of the next step, 0 after the last."""
    return jnp.concatenate([sums[1:], jnp.zeros_like(sums[:1])])


@AXIS.choice(
    "n_step",
    formula=(
        "A = δ + γδ⁺ + ... + γⁿ⁻¹δ⁺⁺  (n terms, cut at every episode end)\n"
        "target = A + V,  n = bootstrap_steps"
    ),
    source="A3C (Mnih et al. 2016); SEED RL (NStep); Andrychowicz et al. 2021",
    summary="n rewards, then the critic: 1 is the TD error, a whole segment is GAE at λ = 1",
    numbers={
        "bootstrap_steps": Number(5.0, 1.0, 1e6, "rewards in the estimate of advantage=n_step")
    },
)
def n_step(
    *,
    rewards: Array,
    values: Array,
    next_values: Array,
    termination: Array,
    truncation: Array,
    discount: Scalar,
    bootstrap_steps: Scalar,
) -> tuple[Array, Array]:
    """Sum n discounted TD errors in T passes, so that n may be data."""
    steps = Steps(rewards, values, next_values, termination, truncation, discount, 1.0)
    delta = temporal_difference(steps, next_values)
    decay = discount * (1 - termination) * (1 - truncation)

    def longer(sums: Array, terms: Array) -> tuple[Array, None]:
        return jnp.where(terms < bootstrap_steps, delta + decay * _later(sums), sums), None

    advantages, _ = jax.lax.scan(longer, jnp.zeros_like(delta), jnp.arange(rewards.shape[0]))
    return advantages, advantages + values


class Weighted(NamedTuple):
    """V-trace's values and advantages of a segment, arrays [T, N].

    weight: min(ρ, ρ̄). delta: δ. correction: M. later: γ(1-d)(1-z)·M⁺.
    """

    weight: Array
    delta: Array
    correction: Array
    later: Array


def _bounded(log_ratio: Scalar, bound: Scalar) -> Array:
    """min(ρ, bound)."""
    return jnp.exp(jnp.minimum(log_ratio, jnp.log(bound)))


_CORRECTION = (
    "M = min(ρ, ρ̄)·δ + γλ(1-d)(1-z)·min(ρ, c̄)·M⁺,  ρ̄ = vtrace_rho, c̄ = vtrace_c\n{}\ntarget = V + M"
)


def _weigh(steps: Steps, log_ratio: Scalar, rho: Scalar, c: Scalar) -> Weighted:
    """Return M = min(ρ, ρ̄)·δ + γλ(1-d)(1-z)·min(ρ, c̄)·M⁺, and its parts."""
    weight, delta = _bounded(log_ratio, rho), temporal_difference(steps, steps.next_values)
    decay = steps.discount * (1 - steps.termination) * (1 - steps.truncation)
    kept = decay * steps.gae_lambda * _bounded(log_ratio, c)
    correction = sum_backwards(weight * delta, kept)
    return Weighted(weight, delta, correction, decay * _later(correction))


@AXIS.choice(
    "vtrace",
    pack=Steps,
    formula=_CORRECTION.format("A = δ + γλ(1-d)(1-z)M⁺"),
    source=(
        "V-trace (Espeholt et al. 2018, https://arxiv.org/abs/1802.01561) as in SEED RL "
        "(agents/policy_gradient/modules/advantages.py); Andrychowicz et al. 2021"
    ),
    summary="GAE of the policy now: what followed an action counts by how likely it still is",
    numbers=BOUNDS,
)
def vtrace(
    steps: Steps, *, log_ratio: LogRatio, vtrace_rho: Scalar, vtrace_c: Scalar
) -> tuple[Array, Array]:
    """Weigh the later steps only: the loss of the policy multiplies by the action's own ratio."""
    weighted = _weigh(steps, log_ratio(), vtrace_rho, vtrace_c)
    advantages = weighted.delta + steps.gae_lambda * weighted.later
    return advantages, steps.values + weighted.correction


@AXIS.choice(
    "vtrace_weighted",
    pack=Steps,
    formula=_CORRECTION.format("A = min(ρ, ρ̄)·(δ + γ(1-d)(1-z)M⁺)"),
    source=(
        "Espeholt et al. 2018, section 4.2; APPO in Sample Factory (with_vtrace) and RLlib, which "
        "have it beside PPO's clip"
    ),
    summary="IMPALA's advantage: no λ on the first hop, and the action's own ratio as a factor",
    numbers=BOUNDS,
)
def vtrace_weighted(
    steps: Steps, *, log_ratio: LogRatio, vtrace_rho: Scalar, vtrace_c: Scalar
) -> tuple[Array, Array]:
    """min(ρ, ρ̄)·(r + γ(1-d)·target⁺ - V), with V' as target⁺ at the end of episode or segment."""
    weighted = _weigh(steps, log_ratio(), vtrace_rho, vtrace_c)
    advantages = weighted.weight * (weighted.delta + weighted.later)
    return advantages, steps.values + weighted.correction


@conflict
def steps_are_whole(*, advantage: str, bootstrap_steps: float) -> str | None:
    if advantage != "n_step" or bootstrap_steps == int(bootstrap_steps):
        return None
    whole = int(bootstrap_steps)
    return f"bootstrap_steps={bootstrap_steps:g} is no whole number: use {whole} or {whole + 1}"


@conflict_where(
    "advantage={advantage} weighs steps by policy ratios, which are all 1 with "
    "advantage_timing=iteration: set advantage_timing=epoch or minibatch"
)
def ratios_need_a_policy_that_moved(*, advantage: str, advantage_timing: str) -> bool:
    return advantage in ("vtrace", "vtrace_weighted") and advantage_timing == "iteration"


@inert
def no_ratio_reaches_its_bound(
    *,
    advantage: str,
    advantage_timing: str,
    epochs: int,
    num_minibatches: int,
    observation_normalization: str = "none",
    vtrace_rho: float = 1.0,
    vtrace_c: float = 1.0,
) -> dict[str, str]:
    first_pass = 1 if advantage_timing == "epoch" else num_minibatches
    if advantage not in ("vtrace", "vtrace_weighted") or not on_policy(
        epochs, first_pass, observation_normalization
    ):
        return {}
    where = WHERE if num_minibatches == 1 else "before the only epoch"
    bounds = {"vtrace_rho": vtrace_rho, "vtrace_c": vtrace_c}
    return {
        name: f"the policy ratio is always 1 {where}, which no bound of {bound:g} cuts"
        for name, bound in bounds.items()
        if bound >= 1
    }

# ruff: noqa: RUF001  # the formulas are in Greek
"""Advantage and value targets, and what becomes of both where an episode ends.

Shapes: rewards, values, next_values, termination, truncation, and both outputs are [T, N] (time,
parallel environments). In the formulas, at each time t:

    d, z   1.0 where this step terminated, or truncated (by a time limit), the episode; else 0.0
    V, V'  the value of the observation, and of the true next one, before any auto-reset
    γ, λ   discount, lambda_
    X⁺     X at time t+1; the sums start from 0 after the last step
    δ      r + γ(1-d)V' - V

Gradients flow: a trainer that treats advantages and targets as constants stops them itself.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from variants.registry import Axis, register
from variants.shapes import require_equal_shapes

Array = jax.Array

_STEPS = jax.ShapeDtypeStruct((5, 3), jnp.float32)
_SCALAR = jax.ShapeDtypeStruct((), jnp.float32)

AXIS = register(
    Axis(
        "advantage",
        summary="how advantages and value targets are estimated, episode ends included",
        inputs={
            "rewards": _STEPS,
            "values": _STEPS,
            "next_values": _STEPS,
            "termination": _STEPS,
            "truncation": _STEPS,
            "discount": _SCALAR,
            "lambda_": _SCALAR,
        },
    )
)


def _sum_backwards(terms: Array, decay: Array) -> Array:
    """S[t] = terms[t] + decay[t]·S[t+1], with S = 0 after the last step; all [T, N]."""

    def step(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        term, factor = now
        total = term + factor * later
        return total, total

    return jax.lax.scan(step, jnp.zeros_like(terms[0]), (terms, decay), reverse=True)[1]


@AXIS.choice(
    "standard",
    formula="A = δ + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="TorchRL, Stoix; Schulman et al. 2016, https://arxiv.org/abs/1506.02438",
    summary="GAE: cut at every episode end; truncated steps bootstrap from the true next value",
)
def standard(
    *,
    rewards: Array,
    values: Array,
    next_values: Array,
    termination: Array,
    truncation: Array,
    discount: Array,
    lambda_: Array,
) -> tuple[Array, Array]:
    """GAE with the true next value: A = δ + γλ(1-d)(1-z)A⁺, target A + V."""
    require_equal_shapes(
        rewards=rewards,
        values=values,
        next_values=next_values,
        termination=termination,
        truncation=truncation,
    )
    delta = rewards + discount * (1 - termination) * next_values - values
    decay = discount * lambda_ * (1 - termination) * (1 - truncation)
    advantages = _sum_backwards(delta, decay)
    return advantages, advantages + values


@AXIS.choice(
    "done_cut",
    formula="A = r + γ(1-d)(1-z)V' - V + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="OpenAI Baselines (ppo2), CleanRL, PureJaxRL, Rejax",
    summary="GAE that treats truncation as termination: nothing is bootstrapped from beyond",
)
def done_cut(
    *,
    rewards: Array,
    values: Array,
    next_values: Array,
    termination: Array,
    truncation: Array,
    discount: Array,
    lambda_: Array,
) -> tuple[Array, Array]:
    """GAE with done = d or z for d: A = r + γ(1-done)V' - V + γλ(1-done)A⁺, target A + V."""
    return standard(
        rewards=rewards,
        values=values,
        next_values=next_values,
        termination=1 - (1 - termination) * (1 - truncation),
        truncation=truncation,
        discount=discount,
        lambda_=lambda_,
    )


@AXIS.choice(
    "masked_truncation",
    formula="A = δ(1-z) + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="SEED RL (agents/policy_gradient/modules/advantages.py); Andrychowicz et al. 2021",
    summary="GAE without the truncated steps: advantage 0, and their own value as target",
)
def masked_truncation(
    *,
    rewards: Array,
    values: Array,
    next_values: Array,
    termination: Array,
    truncation: Array,
    discount: Array,
    lambda_: Array,
) -> tuple[Array, Array]:
    """GAE with truncated steps masked: A = δ(1-z) + γλ(1-d)(1-z)A⁺, target A + V."""
    require_equal_shapes(
        rewards=rewards,
        values=values,
        next_values=next_values,
        termination=termination,
        truncation=truncation,
    )
    delta = rewards + discount * (1 - termination) * next_values - values
    decay = discount * (1 - termination) * (1 - truncation) * lambda_
    advantages = _sum_backwards(delta * (1 - truncation), decay)
    return advantages, advantages + values


@AXIS.choice(
    "brax",
    formula=(
        "vs = V + M,  M = δ(1-z) + γλ(1-d)(1-z)M⁺\n"
        "A = [r + γ(1-d)vs⁺ - V](1-z),  vs⁺ = V' at the last step\n"
        "target = vs"
    ),
    source="Brax (brax/training/agents/ppo/losses.py, compute_gae)",
    summary="λ-targets, then a one-step advantage towards them: the first hop has no λ",
)
def brax(
    *,
    rewards: Array,
    values: Array,
    next_values: Array,
    termination: Array,
    truncation: Array,
    discount: Array,
    lambda_: Array,
) -> tuple[Array, Array]:
    """vs = V + M with M from masked_truncation, A = [r + γ(1-d)vs⁺ - V](1-z), target vs.

    A equals δ(1-z) + γ(1-d)(1-z)M⁺, so λ = 1 makes it masked_truncation.
    """
    _, targets = masked_truncation(
        rewards=rewards,
        values=values,
        next_values=next_values,
        termination=termination,
        truncation=truncation,
        discount=discount,
        lambda_=lambda_,
    )
    next_targets = jnp.concatenate([targets[1:], next_values[-1:]])
    advantages = rewards + discount * (1 - termination) * next_targets - values
    return advantages * (1 - truncation), targets


@AXIS.choice(
    "timeout_bonus",
    formula="done_cut with r + γVz for r",
    source="RSL-RL (ppo.py, process_env_step); Brax (bootstrap_on_timeout)",
    summary="a truncated step is paid the value of its own observation for what lies beyond",
)
def timeout_bonus(
    *,
    rewards: Array,
    values: Array,
    next_values: Array,
    termination: Array,
    truncation: Array,
    discount: Array,
    lambda_: Array,
) -> tuple[Array, Array]:
    """done_cut with r + γVz for r: V(s), not V(s'), because the final observation is not kept.

    With V' there it would be standard, which is what Stable-Baselines3 does.
    """
    return done_cut(
        rewards=rewards + discount * values * truncation,
        values=values,
        next_values=next_values,
        termination=termination,
        truncation=truncation,
        discount=discount,
        lambda_=lambda_,
    )

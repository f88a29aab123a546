# ruff: noqa: RUF001  # the formulas are in Greek
"""Advantage and value targets, and what becomes of both where an episode ends.

Shapes: rewards, values, next_values, termination, truncation, and both outputs are [T, N] (time,
parallel environments). In the formulas, at each time t:

    d, z   1.0 where this step terminated, or truncated (by a time limit), the episode; else 0.0
    V, V'  the value of the observation, and of the true next one, before any auto-reset
    γ, λ   discount, gae_lambda
    X⁺     X at time t+1; the sums start from 0 after the last step
    δ      r + γ(1-d)V' - V; V' is not read where its factor is 0, and may be NaN there

log_ratio is a function, log_ratio() -> log ρ [T, N] of the policy now against the one that acted:
only a choice that reads it has it computed.

Gradients flow: a trainer that treats advantages and targets as constants stops them itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.choice import Number
from variants.registry import Axis, register
from variants.shapes import require_equal_shapes

Array = jax.Array

_STEPS = jax.ShapeDtypeStruct((5, 3), jnp.float32)
# Choices that read V' only while an episode goes on, where it is V⁺ but for the last step.
WITHIN_EPISODES = ("done_cut", "masked_truncation", "brax", "timeout_bonus")
# reward_scaling discounts by the same one.
DISCOUNT = Number(0.97, 0.0, 1.0, "γ, per step")


def _unmoved() -> float:
    """Return log ρ where the policy is the one that acted."""
    return 0.0


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
            "log_ratio": _unmoved,
        },
        defaults={"log_ratio": _unmoved},
        numbers={
            "discount": DISCOUNT,
            "gae_lambda": Number(0.95, 0.0, 1.0, "λ of the advantage estimate"),
        },
    )
)


class Steps(NamedTuple):
    """Inputs of every choice: arrays [T, N], and scalars."""

    rewards: Array
    values: Array
    next_values: Array
    termination: Array
    truncation: Array
    discount: Array | float
    gae_lambda: Array | float


Estimate = Callable[[Steps], tuple[Array, Array]]


def require_alike(steps: Steps) -> None:
    """Raise ValueError unless all arrays are of one shape."""
    arrays = {name: x for name, x in steps._asdict().items() if name not in AXIS.numbers}
    require_equal_shapes(**arrays)


def _choice(
    name: str, *, formula: str, source: str, summary: str
) -> Callable[[Estimate], Estimate]:
    """Register a function of `Steps` as a choice of the axis."""

    def register_estimate(estimate: Estimate) -> Estimate:
        @AXIS.choice(name, formula=formula, source=source, summary=summary)
        def fn(
            *,
            rewards: Array,
            values: Array,
            next_values: Array,
            termination: Array,
            truncation: Array,
            discount: Array | float,
            gae_lambda: Array | float,
        ) -> tuple[Array, Array]:
            steps = Steps(
                rewards, values, next_values, termination, truncation, discount, gae_lambda
            )
            require_alike(steps)
            return estimate(steps)

        return estimate

    return register_estimate


def temporal_difference(steps: Steps, ahead: Array) -> Array:
    """r + γ(1-d)·ahead - V, where ahead [T, N] is what the next observation is worth.

    MuJoCo Playground terminates where an observation is NaN, which no factor of 0 removes.
    """
    ahead = jnp.where(steps.termination > 0, 0.0, ahead)
    return steps.rewards + steps.discount * ahead - steps.values


def _untruncated(terms: Array, steps: Steps) -> Array:
    """terms·(1-z), with terms that may be NaN where z = 1."""
    return jnp.where(steps.truncation > 0, 0.0, terms)


def sum_backwards(terms: Array, decay: Array) -> Array:
    """S[t] = terms[t] + decay[t]·S[t+1], with S = 0 after the last step; all [T, N]."""

    def step(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        term, factor = now
        total = term + factor * later
        return total, total

    return jax.lax.scan(step, jnp.zeros_like(terms[0]), (terms, decay), reverse=True)[1]


@_choice(
    "standard",
    formula="A = δ + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="TorchRL, Stoix; Schulman et al. 2016, https://arxiv.org/abs/1506.02438",
    summary="GAE: cut at every episode end; truncated steps bootstrap from the true next value",
)
def standard(steps: Steps) -> tuple[Array, Array]:
    """GAE with the true next value: A = δ + γλ(1-d)(1-z)A⁺, target A + V."""
    decay = steps.discount * steps.gae_lambda * (1 - steps.termination) * (1 - steps.truncation)
    advantages = sum_backwards(temporal_difference(steps, steps.next_values), decay)
    return advantages, advantages + steps.values


@_choice(
    "done_cut",
    formula="A = r + γ(1-d)(1-z)V' - V + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="OpenAI Baselines (ppo2), CleanRL, PureJaxRL, Rejax",
    summary="GAE that treats truncation as termination: nothing is bootstrapped from beyond",
)
def done_cut(steps: Steps) -> tuple[Array, Array]:
    """GAE with done = d or z for d: A = r + γ(1-done)V' - V + γλ(1-done)A⁺, target A + V."""
    done = 1 - (1 - steps.termination) * (1 - steps.truncation)
    return standard(steps._replace(termination=done))


@_choice(
    "masked_truncation",
    formula="A = δ(1-z) + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="SEED RL (agents/policy_gradient/modules/advantages.py); Andrychowicz et al. 2021",
    summary="GAE without the truncated steps: advantage 0, and their own value as target",
)
def masked_truncation(steps: Steps) -> tuple[Array, Array]:
    """GAE with truncated steps masked: A = δ(1-z) + γλ(1-d)(1-z)A⁺, target A + V."""
    delta = temporal_difference(steps, steps.next_values)
    decay = steps.discount * (1 - steps.termination) * (1 - steps.truncation) * steps.gae_lambda
    advantages = sum_backwards(_untruncated(delta, steps), decay)
    return advantages, advantages + steps.values


@_choice(
    "brax",
    formula=(
        "vs = V + M,  M = δ(1-z) + γλ(1-d)(1-z)M⁺\n"
        "A = [r + γ(1-d)vs⁺ - V](1-z),  vs⁺ = V' at the last step\n"
        "target = vs"
    ),
    source="Brax (brax/training/agents/ppo/losses.py, compute_gae)",
    summary="λ-targets, then a one-step advantage towards them: the first hop has no λ",
)
def brax(steps: Steps) -> tuple[Array, Array]:
    """vs = V + M with M from masked_truncation, A = [r + γ(1-d)vs⁺ - V](1-z), target vs.

    A equals δ(1-z) + γ(1-d)(1-z)M⁺, so λ = 1 makes it masked_truncation.
    """
    _, targets = masked_truncation(steps)
    next_targets = jnp.concatenate([targets[1:], steps.next_values[-1:]])
    return _untruncated(temporal_difference(steps, next_targets), steps), targets


@_choice(
    "timeout_bonus",
    formula="done_cut with r + γVz for r",
    source="RSL-RL (ppo.py, process_env_step); Brax (bootstrap_on_timeout)",
    summary="a truncated step is paid the value of its own observation for what lies beyond",
)
def timeout_bonus(steps: Steps) -> tuple[Array, Array]:
    """done_cut with r + γVz for r: V(s), not V(s'), because the final observation is not kept.

    With V' there it would be standard, which is what Stable-Baselines3 does.
    """
    bonus = steps.discount * steps.values * steps.truncation
    return done_cut(steps._replace(rewards=steps.rewards + bonus))

# ruff: noqa: RUF001  # the formulas are in Greek
"""Estimates of advantages and value targets, and how they treat the end of an episode.

Shapes: rewards, values, next_values, termination, truncation and both outputs are [T, N] (time,
parallel environments). In the formulas, at each time t:

    d, z   1.0 if this step terminated the episode, or truncated it by a time limit, else 0.0
    V, V'  the values of the observation and of the true next observation, before any reset
    γ, λ   discount, gae_lambda
    X⁺     X at time t+1; the sums start from 0 after the last step
    δ      r + γ(1-d)V' - V; V' may be NaN where its factor is 0

log_ratio is a function: log_ratio() -> log ρ [T, N] of the current policy to the policy that acted.
It is called only if a choice reads it. Nothing here stops gradients; the trainer does.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats, require_equal_shapes

# Choices that read V' only inside an episode, where it equals V⁺ except at the last step.
WITHIN_EPISODES = ("done_cut", "masked_truncation", "brax", "timeout_bonus")
# reward_scaling and q_return read the same number.
DISCOUNT = Number(0.97, 0.0, 1.0, "γ, per step")


def _unmoved() -> float:
    """Return log ρ of the policy that acted."""
    return 0.0


AXIS = Axis(
    "advantage",
    summary="how advantages and value targets are estimated, episode ends included",
    inputs={
        "rewards": floats(5, 3),
        "values": floats(5, 3),
        "next_values": floats(5, 3),
        "termination": floats(5, 3),
        "truncation": floats(5, 3),
        "log_ratio": _unmoved,
    },
    defaults={"log_ratio": _unmoved},
    numbers={
        "discount": DISCOUNT,
        "gae_lambda": Number(0.95, 0.0, 1.0, "λ of the advantage estimate"),
    },
)


class Steps(NamedTuple):
    """Inputs of every choice: arrays [T, N], and scalars."""

    rewards: Array
    values: Array
    next_values: Array
    termination: Array
    truncation: Array
    discount: Scalar
    gae_lambda: Scalar


def require_alike(steps: Steps) -> None:
    """Raise ValueError unless all arrays are of one shape."""
    arrays = {name: x for name, x in steps._asdict().items() if name not in AXIS.numbers}
    require_equal_shapes(**arrays)


def temporal_difference(steps: Steps, ahead: Array) -> Array:
    """r + γ(1-d)·ahead - V, with ahead [T, N] as the value of the next observation.

    MuJoCo Playground terminates at NaN observations, and a factor of 0 does not remove a NaN.
    """
    require_alike(steps)
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


@AXIS.choice(
    "standard",
    pack=Steps,
    formula="A = δ + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="TorchRL, Stoix; Schulman et al. 2016, https://arxiv.org/abs/1506.02438",
    summary="GAE: cut at every episode end; truncated steps bootstrap from the true next value",
)
def standard(steps: Steps) -> tuple[Array, Array]:
    decay = steps.discount * steps.gae_lambda * (1 - steps.termination) * (1 - steps.truncation)
    advantages = sum_backwards(temporal_difference(steps, steps.next_values), decay)
    return advantages, advantages + steps.values


@AXIS.choice(
    "done_cut",
    pack=Steps,
    formula="A = r + γ(1-d)(1-z)V' - V + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="OpenAI Baselines (ppo2), CleanRL, PureJaxRL, Rejax",
    summary="GAE that treats truncation as termination: nothing is bootstrapped from beyond",
)
def done_cut(steps: Steps) -> tuple[Array, Array]:
    require_alike(steps)
    done = 1 - (1 - steps.termination) * (1 - steps.truncation)
    return standard(steps._replace(termination=done))


@AXIS.choice(
    "masked_truncation",
    pack=Steps,
    formula="A = δ(1-z) + γλ(1-d)(1-z)A⁺\ntarget = A + V",
    source="SEED RL (agents/policy_gradient/modules/advantages.py); Andrychowicz et al. 2021",
    summary="GAE without the truncated steps: advantage 0, and their own value as target",
)
def masked_truncation(steps: Steps) -> tuple[Array, Array]:
    delta = temporal_difference(steps, steps.next_values)
    decay = steps.discount * (1 - steps.termination) * (1 - steps.truncation) * steps.gae_lambda
    advantages = sum_backwards(_untruncated(delta, steps), decay)
    return advantages, advantages + steps.values


@AXIS.choice(
    "brax",
    pack=Steps,
    formula=(
        "vs = V + M,  M = δ(1-z) + γλ(1-d)(1-z)M⁺\n"
        "A = [r + γ(1-d)vs⁺ - V](1-z),  vs⁺ = V' at the last step\n"
        "target = vs"
    ),
    source="Brax (brax/training/agents/ppo/losses.py, compute_gae)",
    summary="λ-targets, then a one-step advantage towards them: the first hop has no λ",
)
def brax(steps: Steps) -> tuple[Array, Array]:
    """A equals δ(1-z) + γ(1-d)(1-z)M⁺, so λ = 1 makes it masked_truncation."""
    _, targets = masked_truncation(steps)
    next_targets = jnp.concatenate([targets[1:], steps.next_values[-1:]])
    return _untruncated(temporal_difference(steps, next_targets), steps), targets


@AXIS.choice(
    "timeout_bonus",
    pack=Steps,
    formula="done_cut with r + γVz for r",
    source="RSL-RL (ppo.py, process_env_step); Brax (bootstrap_on_timeout)",
    summary="a truncated step gets the value of its own observation as a bonus",
)
def timeout_bonus(steps: Steps) -> tuple[Array, Array]:
    """The bonus is γV(s), since RSL-RL does not keep the final observation s'.

    With V(s') it would be `standard`, as in Stable-Baselines3.
    """
    require_alike(steps)
    bonus = steps.discount * steps.values * steps.truncation
    return done_cut(steps._replace(rewards=steps.rewards + bonus))

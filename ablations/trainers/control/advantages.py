"""Advantages and value targets of a batch: when they are estimated, and what standardises them.

The axis advantage_timing says when: once per iteration with the critic of the rollout, or again at
the start of each epoch or within each minibatch, with the critic as it is then. The axis
advantage_scope says over which samples: those of a minibatch, in the loss, or those of the whole
batch, before it is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ablations.trainers.choices import apply, switch
from ablations.trainers.control.environment import Outcome
from ablations.trainers.trainer import Variant

Array = jax.Array
MOMENTS = ("iteration", "epoch", "minibatch")
SCOPES = ("minibatch", "batch")


class Experience(NamedTuple):
    """What advantages are estimated from, as the learner sees it.

    observation, next_observation: [T, N, O], normalised. reward: [T, N], scaled. The rest [T, N].
    """

    observation: Array
    next_observation: Array
    reward: Array
    termination: Array
    truncation: Array


class Estimate(NamedTuple):
    """advantage, target: [T, N]."""

    advantage: Array
    target: Array


def estimate(experience: Experience, value: Array, next_value: Array, variant: Variant) -> Estimate:
    """Advantages and value targets by the choice of `advantage`; constants to any gradient.

    next_value[t] is that of the true next observation, whatever was reset after it.
    """
    advantage, target = apply(
        "advantage",
        variant,
        rewards=experience.reward,
        values=value,
        next_values=next_value,
        termination=experience.termination,
        truncation=experience.truncation,
    )
    return Estimate(*jax.lax.stop_gradient((advantage, target)))


def at_rollout(
    experience: Experience, value: Array, next_value: Callable[[], Array], variant: Variant
) -> Estimate:
    """The estimate with the critic of the rollout, where advantage_timing is "iteration"; else 0,
    until a later moment.

    next_value: a function, so that the other timings do not pay for what it computes.
    """

    def now() -> Estimate:
        return estimate(experience, value, next_value(), variant)

    def later() -> Estimate:
        return Estimate(jnp.zeros_like(value), jnp.zeros_like(value))

    return _at("iteration", now, later, variant)


def at_moment(
    moment: str,
    before: Estimate,
    experience: Callable[[], Experience],
    critic: Callable[[Array], Array],
    output: Callable[[Array], Array],
    variant: Variant,
) -> Estimate:
    """The estimate with this critic, where advantage_timing is this moment; else the one before.
    Its targets are outputs of the critic's network.

    experience: a function, so that what the other timings do not need is not gathered for them.
    critic: normalised observations [..., O] -> values [...]. output: values -> what the network
        would have to answer for them.
    """

    def now() -> Estimate:
        seen = experience()
        value, next_value = critic(seen.observation), critic(seen.next_observation)
        found = estimate(seen, value, next_value, variant)
        return found._replace(target=output(found.target))

    return _at(moment, now, lambda: before, variant)


def standardised(
    scope: str, advantage: Array, group: Array, num_groups: int, variant: Variant
) -> Array:
    """Advantages by the choice of `advantage_statistics` over these samples, where advantage_scope
    is this one; else as they are.

    advantage, group: of one shape; which environments share a reset, ids below num_groups.
    """

    def now() -> Array:
        return apply(
            "advantage_statistics",
            variant,
            advantages=advantage.reshape(-1),
            groups=group.reshape(-1),
            num_groups=num_groups,
        ).reshape(advantage.shape)

    branches = {name: now if name == scope else lambda: advantage for name in SCOPES}
    return switch("advantage_scope", variant, branches)


def _at(
    moment: str, now: Callable[[], Estimate], other: Callable[[], Estimate], variant: Variant
) -> Estimate:
    branches = {name: now if name == moment else other for name in MOMENTS}
    return switch("advantage_timing", variant, branches)


def scaled_rewards(state: Any, outcome: Outcome, variant: Variant) -> tuple[Any, jax.Array]:
    """The next state of `reward_scaling`, and the rewards [T, N] as the learner sees them."""
    return apply(
        "reward_scaling",
        variant,
        state,
        rewards=outcome.reward,
        termination=outcome.termination.astype(jnp.float32),
        truncation=outcome.truncation.astype(jnp.float32),
    )

"""The state of PPO between two iterations, and a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import optax

from ablations.trainers.control.environment import Episodes, Outcome
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.trainer import Tree


class State(NamedTuple):
    """All that training needs to go on.

    schedule, reward_scaling, advantage_scaling: what the axes learning_rate_schedule,
        reward_scaling and advantage_scaling carry.
    value_targets: statistics of them for value_normalization; None where it reads none.
    acting: the numbers that a policy needs to act, by name.
    key: the seed's. iteration: uint32, how many are done.
    coefficients: of the loss, those that change from batch to batch, by name.
    initial: the parameters that training started from; None where nothing pulls towards them.
    """

    parameters: Tree
    optimizer: optax.ScaleByAdamState | optax.ScaleByScheduleState
    schedule: Tree
    reward_scaling: Tree
    advantage_scaling: Tree
    value_targets: Normalizer | None
    normalizer: Normalizer
    acting: Mapping[str, jax.Array]
    episodes: Episodes
    key: jax.Array
    iteration: jax.Array
    coefficients: Mapping[str, jax.Array]
    initial: Tree = None


class Rollout(NamedTuple):
    """T steps of N environments, leaves [T, N, ...].

    observation: what the policy saw, not normalised. raw: what its network made of it.
    x: what was drawn, before it became an action. log_prob: of that. outcome: of each step.
    seen, next_seen: the observation and the true next one as they were normalised at that very
        step; None where statistics are those of whole batches.
    """

    observation: jax.Array
    raw: jax.Array
    x: jax.Array
    log_prob: jax.Array
    outcome: Outcome
    seen: jax.Array | None = None
    next_seen: jax.Array | None = None

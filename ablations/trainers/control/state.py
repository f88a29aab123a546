"""The state of a trainer of control tasks between two iterations, a rollout, and a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypedDict, TypeVar

import jax

from ablations.trainers.control.environment import Episodes, Outcome
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.optimizer import Learner
from ablations.trainers.trainer import Tree

OwnT = TypeVar("OwnT")
KeptT = TypeVar("KeptT")


class State(NamedTuple, Generic[OwnT]):
    """All that training needs to go on.

    reward_scaling: what the axis of that name carries.
    acting: the numbers that a policy needs to act, by name.
    key: the seed's. iteration: uint32, how many are done.
    own: what one trainer alone carries.
    """

    learner: Learner
    reward_scaling: Tree
    normalizer: Normalizer
    acting: Mapping[str, jax.Array]
    episodes: Episodes
    key: jax.Array
    iteration: jax.Array
    own: OwnT

    @property
    def parameters(self) -> Tree:
        """Parameters of the networks."""
        return self.learner.parameters


class Rollout(NamedTuple, Generic[KeptT]):
    """T steps of N environments, leaves [T, N, ...].

    observation: what the policy saw, not normalised. kept: what a trainer keeps of its choice of
        actions. outcome: of each step.
    last_observation: [N, O], what the policy sees next, after any reset.
    seen, next_seen: the observation and the true next one as they were normalised at that very
        step; None where statistics are those of whole batches.
    """

    observation: jax.Array
    kept: KeptT
    outcome: Outcome
    last_observation: jax.Array
    seen: jax.Array | None = None
    next_seen: jax.Array | None = None


class Policy(TypedDict):
    """All that acting needs. parameters: of the networks. numbers: `State.acting`."""

    parameters: Tree
    normalizer: Normalizer
    numbers: dict[str, jax.Array]

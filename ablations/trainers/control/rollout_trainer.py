"""Training on rollouts: the loop that PPO and PQN share, composed from the registry.

A chunk is a scan over iterations; an iteration is one rollout of all environments, then `epochs`
passes over it in minibatches, which are each trainer's own.

Everything random comes from the seed's key and the number of the iteration, never from the variant,
so one seed gives every variant the same initial networks, resets, sampling noise and minibatches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Generic, TypeAlias

import jax
import jax.numpy as jnp

import variants
from ablations.trainers import optimizer
from ablations.trainers.choices import fix, matches, where
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.environment import Environments, Episodes
from ablations.trainers.control.minibatches import Draws, draws
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.control.outcomes import finished_episodes, iterated, whole_episodes
from ablations.trainers.control.state import KeptT, OwnT, Policy, Rollout, State
from ablations.trainers.optimizer import Learner, Rule
from ablations.trainers.trainer import Metrics, Trainer, Tree, Variant
from variants.observation_statistics import PER_BATCH

# (normalised observations [N, O], noise of one step) -> (actions, what is kept of them).
Choose: TypeAlias = Callable[[jax.Array, Tree], tuple[jax.Array, KeptT]]


@dataclass(frozen=True, kw_only=True)
class RolloutTrainer(ABC, Generic[OwnT, KeptT]):
    """The functions of a trainer, closed over one task and one structure.

    fixed: axis -> the choice that is compiled in instead of the variant's, structural ones always.
    rule: how steps are taken.
    """

    ACTING: ClassVar[tuple[str, ...]]  # Actions depend on these axes and on no others.

    environments: Environments
    evaluation_environments: Environments
    unroll_length: int
    num_minibatches: int
    epochs: int
    updates_per_chunk: int
    fixed: Mapping[str, str] = field(default_factory=dict)
    rule: Rule = optimizer.ADAM

    @abstractmethod
    def initial_parameters(self, key: jax.Array, variant: Variant) -> Tree:
        """Initialize the networks."""

    @abstractmethod
    def initial_own(self, learner: Learner, variant: Variant) -> OwnT:
        """Return `State.own` before the first iteration."""

    @abstractmethod
    def noise(self, key: jax.Array) -> Tree:
        """Draw the noise of a rollout, leaves [T, N, ...]."""

    @abstractmethod
    def choose(self, state: State[OwnT], variant: Variant) -> Choose[KeptT]:
        """Return the function that chooses the actions of a rollout."""

    @abstractmethod
    def learn(
        self, state: State[OwnT], rollout: Rollout[KeptT], draws: Draws, variant: Variant
    ) -> tuple[State[OwnT], Metrics]:
        """Run `epochs` epochs of minibatch SGD on one rollout; metrics of any shape."""

    @abstractmethod
    def act(
        self, policy: Policy, observation: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Return actions on observations [..., O] as the environment gives them.

        They are the mode of the policy, or a sample with a key.
        """

    @property
    def trainer(self) -> Trainer:
        """The program in the form that the engine runs."""
        iteration_steps = self.environments.num_envs * self.unroll_length
        return Trainer(
            init=self.init,
            chunk=self.chunk,
            evaluate=self.evaluate,
            policy=self.policy,
            steps_per_chunk=self.updates_per_chunk * iteration_steps,
            act=self.act,
        )

    def init(self, key: jax.Array, variant: Variant) -> State[OwnT]:
        """Initialize networks, environments and optimiser.

        Of all that a variant says, only what is about their start changes the networks, and nothing
        the environments.
        """
        variant = fix(variant, self.fixed)
        key_networks, key_reset, key_training = jax.random.split(key, 3)
        parameters = self.initial_parameters(key_networks, variant)
        learner = optimizer.start(parameters, variant, self.rule)
        episodes = self.environments.reset(key_reset)
        return State(
            learner=learner,
            reward_scaling=variants.axis("reward_scaling").init(
                num_envs=self.environments.num_envs
            ),
            normalizer=statistics.start(
                self.statistics, episodes.observation, variant.numbers["observation_forgetting"]
            ),
            acting=self.acting(variant),
            episodes=episodes,
            key=key_training,
            iteration=jnp.uint32(0),
            own=self.initial_own(learner, variant),
        )

    def chunk(self, state: State[OwnT], variant: Variant) -> tuple[State[OwnT], Metrics]:
        """Run `updates_per_chunk` iterations. Metrics are means over them, or over episodes."""
        variant = fix(variant, self.fixed)
        return iterated(
            lambda state: self.iteration(state, variant),
            state,
            length=self.updates_per_chunk,
            environments=self.environments,
        )

    def iteration(self, state: State[OwnT], variant: Variant) -> tuple[State[OwnT], Metrics]:
        """Roll the policy out, and update it by what was collected."""
        key_rollout, key_epochs = jax.random.split(jax.random.fold_in(state.key, state.iteration))
        episodes, normalizer, rollout = self.rollout(state, key_rollout, variant)
        state, metrics = self.learn(state, rollout, self.draws(key_epochs, variant), variant)
        if self.statistics != PER_BATCH:
            state = state._replace(normalizer=normalizer)
        state = state._replace(episodes=episodes, iteration=state.iteration + 1)
        metrics = {name: jnp.mean(value) for name, value in metrics.items()}
        return state, metrics | finished_episodes(rollout.outcome)

    def rollout(
        self, state: State[OwnT], key: jax.Array, variant: Variant
    ) -> tuple[Episodes, Normalizer, Rollout[KeptT]]:
        """Take `unroll_length` steps of all environments with the current policy."""
        choose = self.choose(state, variant)

        def step(
            now: tuple[Episodes, Normalizer], noise: Tree
        ) -> tuple[tuple[Episodes, Normalizer], Tree]:
            episodes, normalizer = now
            observation = episodes.observation
            seen = self.normalized(normalizer, observation, state.acting)
            action, kept = choose(seen, noise)
            episodes, outcome = self.environments.step(episodes, action)
            if self.statistics == PER_BATCH:
                return (episodes, normalizer), (observation, kept, outcome, None, None)
            final, normalizer = statistics.step(
                self.statistics,
                normalizer,
                outcome.next_observation,
                episodes.observation,
                outcome.termination | outcome.truncation,
                variant.numbers["observation_forgetting"],
            )
            next_seen = self.normalized(final, outcome.next_observation, state.acting)
            return (episodes, normalizer), (observation, kept, outcome, seen, next_seen)

        (episodes, normalizer), (observation, kept, outcome, *seen) = jax.lax.scan(
            step, (state.episodes, state.normalizer), self.noise(key)
        )
        rollout = Rollout(observation, kept, outcome, episodes.observation, *seen)
        return episodes, normalizer, rollout

    def batch_statistics(
        self, normalizer: Normalizer, observation: jax.Array, variant: Variant
    ) -> tuple[Normalizer, Normalizer]:
        """Return the statistics that normalise a batch to be trained on, and those after it.

        observation: [T, N, O], those of the batch. With "before", as in Brax, a batch is trained on
        with other inputs than the policy acted on.
        """
        axis = "observation_normalization"
        updated = normalizer
        if self.statistics == PER_BATCH:
            updated = statistics.update(normalizer, observation)
        return (
            where(matches(axis, variant, "before"), updated, normalizer),
            where(matches(axis, variant, "none"), normalizer, updated),
        )

    @property
    def statistics(self) -> str:
        """The choice of observation_statistics."""
        return self.fixed["observation_statistics"]

    def acting(self, variant: Variant) -> dict[str, jax.Array]:
        """Return the numbers that a policy needs to act.

        Among them is "normalized", 0 where observations are not.
        """
        read = [n for axis in self.ACTING for n in variants.axis(axis)[self.fixed[axis]].numbers]
        numbers = {name: jnp.asarray(variant.numbers[name]) for name in read}
        # Statistics that have seen nothing leave an observation as it is, but for an epsilon.
        if self.fixed["observation_scaling"] != "bounded_std":
            none = matches("observation_normalization", variant, "none")
            numbers["normalized"] = 1.0 - jnp.asarray(none, jnp.float32)
        return numbers

    def normalized(
        self, normalizer: Normalizer, observation: jax.Array, numbers: Mapping[str, jax.Array]
    ) -> jax.Array:
        """Normalize observations [..., O] for the networks; numbers: those of `acting`."""
        axis = variants.axis("observation_scaling")
        choice = axis[self.fixed[axis.name]]
        scaled: jax.Array = axis.apply(
            choice.name,
            observation=observation,
            mean=normalizer.mean,
            variance=normalizer.spread,
            numbers={name: numbers[name] for name in choice.numbers},
        )
        if "normalized" in numbers:
            scaled = jnp.where(numbers["normalized"] > 0, scaled, observation)
        return scaled

    def progress(self, state: State[OwnT], variant: Variant) -> jax.Array:
        """Return the share of the run that is done."""
        return state.iteration.astype(jnp.float32) / variant.iterations

    def draws(self, key: jax.Array, variant: Variant) -> Draws:
        """Draw the randomness of an update, ahead of it."""
        T, N = self.unroll_length, self.environments.num_envs
        shape = (self.epochs, self.num_minibatches)
        return draws(key, shape=shape, T=T, N=N, variant=variant)

    def evaluate(self, state: State[OwnT], variant: Variant, key: jax.Array) -> Metrics:
        """Play one whole episode of the policy's mode per evaluation environment."""
        act = partial(self.act, self.policy(state))
        return whole_episodes(self.evaluation_environments, act, key)

    def policy(self, state: State[OwnT]) -> Policy:
        """Return all that acting needs."""
        return {
            "parameters": state.parameters,
            "normalizer": statistics.pooled(state.normalizer),
            "numbers": dict(state.acting),
        }

"""Parallelised Q-network (Gallici et al. 2025): Q-learning on rollouts, without a replay buffer.

Read `PQN` from top to bottom: a chunk is a scan over iterations; an iteration is one rollout of all
environments, whose actions are the best by Q or random, then `epochs` passes over it in minibatches
towards targets that are computed once.

Everything random comes from the seed's key and the number of the iteration, never from the variant,
so one seed gives every variant the same initial network, resets, draws of exploration and
minibatches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

import variants
from ablations.trainers import optimizer
from ablations.trainers.choices import apply, fix, switch, where
from ablations.trainers.control import acting
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.acting import Policy
from ablations.trainers.control.advantages import scaled_rewards
from ablations.trainers.control.environment import Environments, Episodes, Outcome
from ablations.trainers.control.minibatches import Draws, draws, take
from ablations.trainers.control.networks import QNetwork, Start
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.control.outcomes import finished_episodes, iterated, whole_episodes
from ablations.trainers.optimizer import Divergence, Learner, Rule
from ablations.trainers.trainer import Metrics, Tree, Variant
from variants.observation_statistics import PER_BATCH

Array = jax.Array


class State(NamedTuple):
    """All that training needs to go on.

    target: the parameters that targets are computed with. schedule, reward_scaling: what the axes
        learning_rate_schedule and reward_scaling carry.
    acting: the numbers that a policy needs to act, by name.
    key: the seed's. iteration: uint32, how many are done.
    initial: the parameters that training started from; None where nothing pulls towards them.
    """

    parameters: Tree
    target: Tree
    optimizer: optax.ScaleByAdamState | optax.ScaleByScheduleState
    schedule: Tree
    reward_scaling: Tree
    normalizer: Normalizer
    acting: Mapping[str, Array]
    episodes: Episodes
    key: Array
    iteration: Array
    initial: Tree = None


class Rollout(NamedTuple):
    """T steps of N environments, leaves [T, N, ...].

    observation: what the policy saw, not normalised. action: int32. outcome: of each step.
    last_observation: [N, O], what it sees next, after any reset.
    seen, next_seen: the observation and the true next one as they were normalised at that very
        step; None where statistics are those of whole batches.
    """

    observation: Array
    action: Array
    outcome: Outcome
    last_observation: Array
    seen: Array | None = None
    next_seen: Array | None = None


class Batch(NamedTuple):
    """Samples of one rollout: normalised observations [..., O], actions and targets [...]."""

    observation: Array
    action: Array
    target: Array


def epsilon_greedy(values: Array, noise: Array, epsilon: Array) -> Array:
    """Return actions [...]: the best by values [..., A], with probability epsilon any.

    noise: uniform in [0, 1) [..., 2], which decides whether an action is random, and which.
    """
    count = values.shape[-1]
    random = jnp.minimum(jnp.floor(noise[..., 1] * count).astype(jnp.int32), count - 1)
    best = jnp.argmax(values, axis=-1).astype(jnp.int32)
    return jnp.where(noise[..., 0] < epsilon, random, best)


def taken(values: Array, action: Array) -> Array:
    """Return the values [...] of the actions [...] among those of all [..., A]."""
    # A sum over all instead of a gather: its gradient is one, too, and not a scatter
    return jnp.sum(values * jax.nn.one_hot(action, values.shape[-1], dtype=values.dtype), axis=-1)


@dataclass(frozen=True)
class PQN:
    """The functions of the trainer, closed over one task and one structure.

    fixed: axis -> the choice that is compiled in instead of the variant's, structural ones always.
    rule: how steps are taken.
    """

    environments: Environments
    evaluation_environments: Environments
    network: QNetwork
    unroll_length: int
    num_minibatches: int
    epochs: int
    updates_per_chunk: int
    fixed: Mapping[str, str] = field(default_factory=dict)
    rule: Rule = optimizer.ADAM

    def init(self, key: Array, variant: Variant) -> State:
        """Initialize network, environments and optimiser.

        Of all that a variant says, only what is about its start changes the network, and nothing
        the environments.
        """
        variant = fix(variant, self.fixed)
        key_network, key_reset, key_training = jax.random.split(key, 3)
        start = Start(
            kernel=partial(apply, "network_init", variant),
            bias=partial(apply, "bias_init", variant),
            value_gain=variant.numbers["value_hidden_gain"],
            value_scale=variant.numbers["value_init_scale"],
        )
        learner = optimizer.start(self.network.init(key_network, start), variant, self.rule)
        episodes = self.environments.reset(key_reset)
        return State(
            parameters=learner.parameters,
            # A copy: a compiled chunk writes over what it is given, each array once.
            target=jax.tree.map(jnp.copy, learner.parameters),
            optimizer=learner.optimizer,
            schedule=learner.schedule,
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
            initial=learner.initial,
        )

    def chunk(self, state: State, variant: Variant) -> tuple[State, Metrics]:
        """Run `updates_per_chunk` iterations. Metrics are means over them, or over episodes."""
        variant = fix(variant, self.fixed)
        return iterated(
            lambda state: self.iteration(state, variant),
            state,
            length=self.updates_per_chunk,
            environments=self.environments,
        )

    def iteration(self, state: State, variant: Variant) -> tuple[State, Metrics]:
        """Roll the policy out, and update the network by what was collected."""
        key_rollout, key_epochs = jax.random.split(jax.random.fold_in(state.key, state.iteration))
        epsilon = self.epsilon(state, variant)
        episodes, normalizer, rollout = self.rollout(state, key_rollout, epsilon, variant)
        state, metrics = self.learn(state, rollout, self.draws(key_epochs, variant), variant)
        if self.statistics != PER_BATCH:
            state = state._replace(normalizer=normalizer)
        state = state._replace(episodes=episodes, iteration=state.iteration + 1)
        metrics = {name: jnp.mean(value) for name, value in metrics.items()}
        metrics["training/epsilon"] = jnp.mean(epsilon)
        return state, metrics | finished_episodes(rollout.outcome)

    @property
    def statistics(self) -> str:
        """The choice of observation_statistics."""
        return self.fixed["observation_statistics"]

    def acting(self, variant: Variant) -> dict[str, Array]:
        """Return the numbers that a policy needs to act; see `acting.numbers`.

        With a key a policy acts as at the end of training, but for environments that are unlike.
        """
        found = acting.numbers(self.fixed, variant, ("observation_scaling",))
        return found | {"epsilon_end": jnp.asarray(variant.numbers["epsilon_end"])}

    def progress(self, state: State, variant: Variant) -> Array:
        """Return the share of the run that is done."""
        return state.iteration.astype(jnp.float32) / variant.iterations

    def epsilon(self, state: State, variant: Variant) -> Array:
        """Return the probability of a random action in each environment, [N]."""
        count = self.environments.num_envs
        epsilon: Array = apply(
            "exploration",
            variant,
            progress=self.progress(state, variant),
            place=jnp.arange(count) / max(count - 1, 1),
        )
        return epsilon

    def rollout(
        self, state: State, key: Array, epsilon: Array, variant: Variant
    ) -> tuple[Episodes, Normalizer, Rollout]:
        """Take `unroll_length` steps of all environments with the current network."""

        def choose(seen: Array, noise: Array) -> tuple[Array, Array]:
            action = epsilon_greedy(self.network.values(state.parameters, seen), noise, epsilon)
            return action, action

        episodes, normalizer, steps = acting.rollout(
            self.environments,
            self.fixed,
            (state.episodes, state.normalizer),
            choose,
            jax.random.uniform(key, (self.unroll_length, self.environments.num_envs, 2)),
            state.acting,
            variant.numbers["observation_forgetting"],
        )
        rollout = Rollout(
            steps.observation,
            steps.kept,
            steps.outcome,
            episodes.observation,
            steps.seen,
            steps.next_seen,
        )
        return episodes, normalizer, rollout

    def draws(self, key: Array, variant: Variant) -> Draws:
        """Draw the randomness of an update, ahead of it."""
        T, N = self.unroll_length, self.environments.num_envs
        shape = (self.epochs, self.num_minibatches)
        return draws(key, shape=shape, T=T, N=N, variant=variant)

    def learn(
        self, state: State, rollout: Rollout, draws: Draws, variant: Variant
    ) -> tuple[State, Metrics]:
        """Run `epochs` epochs of minibatch SGD on one rollout; metrics [epochs, minibatches]."""
        current, normalizer = acting.batch_statistics(
            self.fixed, state.normalizer, rollout.observation, variant
        )
        reward_scaling, reward = scaled_rewards(state.reward_scaling, rollout.outcome, variant)
        normalized = partial(acting.normalized, self.fixed, current, acting=state.acting)
        observation = normalized(rollout.observation) if rollout.seen is None else rollout.seen
        target = self.targets(state, rollout, observation, reward, current, variant)
        batch = Batch(observation, rollout.action, target)
        progress = self.progress(state, variant)

        def step(learner: Learner, index: Array) -> tuple[Learner, Metrics]:
            return self.gradient_step(learner, take(batch, index), progress, variant)

        learner = Learner(state.parameters, state.optimizer, state.schedule, initial=state.initial)
        learner, metrics = jax.lax.scan(
            lambda now, order: jax.lax.scan(step, now, order),
            optimizer.begin(learner, self.rule),
            draws.order,
        )
        share = apply("q_target", variant, updates=state.iteration.astype(jnp.float32) + 1.0)
        followed = jax.tree.map(lambda t, p: t + share * (p - t), state.target, learner.parameters)
        state = state._replace(
            parameters=learner.parameters,
            target=where(share >= 1.0, learner.parameters, followed),
            optimizer=learner.optimizer,
            schedule=learner.schedule,
            reward_scaling=reward_scaling,
            normalizer=normalizer,
        )
        return state, metrics

    def targets(
        self,
        state: State,
        rollout: Rollout,
        observation: Array,
        reward: Array,
        normalizer: Normalizer,
        variant: Variant,
    ) -> Array:
        """Return the targets [T, N] of the actions taken, by the target network.

        observation: [T, N, O], normalised. reward: [T, N], scaled.
        """
        outcome = rollout.outcome
        normalized = partial(acting.normalized, self.fixed, normalizer, acting=state.acting)

        def best(observation: Array) -> Array:
            return jnp.max(self.network.values(state.target, observation), axis=-1)

        def next_values() -> Array:
            seen = rollout.next_seen
            return best(normalized(outcome.next_observation) if seen is None else seen)

        def seen_values() -> Array:
            last = normalized(rollout.last_observation)
            return best(jnp.concatenate([observation[1:], last[None]]))

        def greedy() -> Array:
            values = self.network.values(state.target, observation)
            return jnp.argmax(values, axis=-1) == rollout.action

        def terminal() -> tuple[Array, Array]:
            return outcome.termination | outcome.truncation, jnp.zeros_like(outcome.truncation)

        termination, truncation = switch(
            "q_truncation",
            variant,
            {
                "bootstrap": lambda: (outcome.termination, outcome.truncation),
                "terminal": terminal,
            },
        )
        target: Array = apply(
            "q_return",
            variant,
            rewards=reward,
            termination=termination.astype(jnp.float32),
            truncation=truncation.astype(jnp.float32),
            next_values=next_values,
            seen_values=seen_values,
            greedy=greedy,
        )
        return target

    def gradient_step(
        self, learner: Learner, batch: Batch, progress: Array, variant: Variant
    ) -> tuple[Learner, Metrics]:
        """Take one step down the gradient of the mean error between Q values and targets."""

        def loss(parameters: Tree) -> tuple[Array, Metrics]:
            value = taken(self.network.values(parameters, batch.observation), batch.action)
            error = apply(
                "value_error",
                variant,
                values=value.reshape(-1),
                targets=batch.target.reshape(-1),
            )
            total = variant.numbers["value_coefficient"] * jnp.mean(error)
            means = {"value/mean": jnp.mean(value), "value/target_mean": jnp.mean(batch.target)}
            return total, {"loss/total": total, **means}

        gradient, metrics = jax.grad(loss, has_aux=True)(learner.parameters)
        metrics["gradient/norm"] = optax.tree.norm(gradient)
        learner, rate = optimizer.descend(
            learner,
            gradient,
            # No choice that reads it can be had here.
            divergence=Divergence(jnp.float32(jnp.nan)),
            progress=progress,
            steps=self.epochs * self.num_minibatches,
            variant=variant,
            rule=self.rule,
        )
        metrics["training/learning_rate"] = rate
        return learner, metrics

    def evaluate(self, state: State, variant: Variant, key: Array) -> Metrics:
        """Play one whole episode of the best actions per evaluation environment."""
        act = partial(self.act, self.policy(state))
        return whole_episodes(self.evaluation_environments, act, key)

    def policy(self, state: State) -> Policy:
        """Return all that acting needs."""
        return {
            "parameters": state.parameters,
            "normalizer": statistics.pooled(state.normalizer),
            "numbers": dict(state.acting),
        }

    def act(self, policy: Policy, observation: Array, key: Array | None = None) -> Array:
        """Return actions on observations [..., O] as the environment gives them.

        They are the best by Q; with a key, random with the probability of the end of training.
        """
        numbers = policy["numbers"]
        seen = acting.normalized(self.fixed, policy["normalizer"], observation, numbers)
        values = self.network.values(policy["parameters"], seen)
        if key is None:
            return jnp.argmax(values, axis=-1).astype(jnp.int32)
        noise = jax.random.uniform(key, (*values.shape[:-1], 2))
        return epsilon_greedy(values, noise, numbers["epsilon_end"])

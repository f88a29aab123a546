"""Proximal policy optimisation (Schulman et al. 2017), composed from the registry.

Read `PPO` from top to bottom: a chunk is a scan over iterations; an iteration is one rollout of all
environments, then `epochs` passes over it in minibatches; `loss.py` is the page to check against
the paper.

Everything random comes from the seed's key and the number of the iteration, never from the variant,
so one seed gives every variant the same initial networks, resets, sampling noise and minibatches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import variants
from ablations.trainers import optimizer
from ablations.trainers.choices import apply, fix, matches, switch
from ablations.trainers.control import advantages
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.advantages import Estimate, Experience
from ablations.trainers.control.environment import Environments, Episodes, Outcome
from ablations.trainers.control.loss import Minibatch, ppo_loss
from ablations.trainers.control.networks import Networks, mean_and_std, normal_log_prob
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.losses import Metrics
from ablations.trainers.optimizer import Learner
from ablations.trainers.trainer import Variant


class State(NamedTuple):
    """All that training needs to go on.

    schedule, reward_scaling: what the axes learning_rate_schedule and reward_scaling carry.
    key: the seed's. iteration: uint32, how many are done.
    """

    parameters: Any
    optimizer: optax.OptState
    schedule: Any
    reward_scaling: Any
    normalizer: Normalizer
    episodes: Episodes
    key: jax.Array
    iteration: jax.Array


class Rollout(NamedTuple):
    """T steps of N environments, leaves [T, N, ...].

    observation: what the policy saw, not normalised. action: before tanh, log_prob: its density.
    outcome: of each step.
    """

    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    outcome: Outcome


@dataclass(frozen=True)
class PPO:
    """The functions of the trainer, closed over one task and one structure.

    fixed: axis -> the choice that is compiled in instead of the variant's.
    """

    environments: Environments
    evaluation_environments: Environments
    networks: Networks
    unroll_length: int
    num_minibatches: int
    epochs: int
    updates_per_chunk: int
    fixed: Mapping[str, str] = field(default_factory=dict)

    def init(self, key: jax.Array, variant: Variant) -> State:
        """Networks, environments and optimiser at their start: of all that a variant says, only
        `network_init` and its scale change the networks, and nothing the environments.
        """
        variant = fix(variant, self.fixed)
        key_networks, key_reset, key_training = jax.random.split(key, 3)
        parameters = self.networks.init(
            key_networks,
            partial(apply, "network_init", variant),
            variant.numbers["policy_init_scale"],
        )
        episodes = self.environments.reset(key_reset)
        learner = optimizer.start(parameters, variant)
        return State(
            parameters=learner.parameters,
            optimizer=learner.optimizer,
            schedule=learner.schedule,
            reward_scaling=variants.axis("reward_scaling").init(
                num_envs=self.environments.num_envs
            ),
            normalizer=statistics.empty(episodes.observation.shape[-1]),
            episodes=episodes,
            key=key_training,
            iteration=jnp.uint32(0),
        )

    def chunk(self, state: State, variant: Variant) -> tuple[State, Metrics]:
        """`updates_per_chunk` iterations. Metrics are means over them, or over episodes."""
        variant = fix(variant, self.fixed)

        def body(state: State, _: None) -> tuple[State, Metrics]:
            return self.iteration(state, variant)

        state, metrics = jax.lax.scan(body, state, length=self.updates_per_chunk)
        episodes = jnp.sum(metrics["training/episodes"])
        means = {name: jnp.mean(value) for name, value in metrics.items()}
        for name in ("training/return", "training/length"):
            means[name] = jnp.where(episodes > 0, jnp.sum(metrics[name]) / episodes, jnp.nan)
        return state, means | {"training/episodes": episodes}

    def iteration(self, state: State, variant: Variant) -> tuple[State, Metrics]:
        """A rollout, and what is learned from it."""
        key_rollout, key_epochs = jax.random.split(jax.random.fold_in(state.key, state.iteration))
        episodes, rollout = self.rollout(state, key_rollout)

        axis = "observation_normalization"
        updated = statistics.update(state.normalizer, rollout.observation)
        # With "before", as in Brax, the first ratio is not 1: the policy is scored on other inputs
        # than it acted on.
        current = _where(matches(axis, variant, "before"), updated, state.normalizer)
        reward_scaling, reward = scale_rewards(state.reward_scaling, rollout.outcome, variant)
        experience, batch = self.prepare(state, rollout, reward, current, variant)

        progress = state.iteration.astype(jnp.float32) / variant.iterations
        learner, metrics = jax.lax.scan(
            lambda learner, key: self.epoch(learner, experience, batch, key, progress, variant),
            Learner(state.parameters, state.optimizer, state.schedule),
            jax.random.split(key_epochs, self.epochs),
        )
        state = State(
            parameters=learner.parameters,
            optimizer=learner.optimizer,
            schedule=learner.schedule,
            reward_scaling=reward_scaling,
            normalizer=_where(matches(axis, variant, "none"), state.normalizer, updated),
            episodes=episodes,
            key=state.key,
            iteration=state.iteration + 1,
        )
        metrics = {name: jnp.mean(value) for name, value in metrics.items()}
        return state, metrics | _episode_metrics(rollout.outcome)

    def rollout(self, state: State, key: jax.Array) -> tuple[Episodes, Rollout]:
        """`unroll_length` steps of all environments with the current policy."""
        shape = (self.unroll_length, self.environments.num_envs, self.environments.env.action_size)

        def step(episodes: Episodes, noise: jax.Array) -> tuple[Episodes, Rollout]:
            observation = episodes.observation
            raw = self.networks.policy(state.parameters, state.normalizer(observation))
            mean, std = mean_and_std(raw)
            action = mean + std * noise
            episodes, outcome = self.environments.step(episodes, jnp.tanh(action))
            return episodes, Rollout(observation, action, normal_log_prob(raw, action), outcome)

        return jax.lax.scan(step, state.episodes, jax.random.normal(key, shape))

    def prepare(
        self,
        state: State,
        rollout: Rollout,
        reward: jax.Array,
        normalizer: Normalizer,
        variant: Variant,
    ) -> tuple[Experience, Minibatch]:
        """The whole batch as the epochs take it, its observations normalised by `normalizer`.

        reward: [T, N], scaled. The values at rollout, and the advantages that rest on them, are of
        the statistics at rollout.
        """
        outcome = rollout.outcome
        old_value = self.networks.value(state.parameters, state.normalizer(rollout.observation))
        experience = Experience(
            observation=normalizer(rollout.observation),
            next_observation=normalizer(outcome.next_observation),
            reward=reward,
            termination=outcome.termination.astype(jnp.float32),
            truncation=outcome.truncation.astype(jnp.float32),
        )

        def next_value() -> jax.Array:
            next_observation = state.normalizer(outcome.next_observation)
            return self.networks.value(state.parameters, next_observation)

        estimate = advantages.at_rollout(experience, old_value, next_value, variant)
        return experience, Minibatch(
            observation=experience.observation,
            action=rollout.action,
            log_prob=rollout.log_prob,
            old_value=old_value,
            advantage=estimate.advantage,
            target=estimate.target,
            group=jnp.broadcast_to(self.environments.groups, old_value.shape),
        )

    def epoch(
        self,
        learner: Learner,
        experience: Experience,
        batch: Minibatch,
        key: jax.Array,
        progress: jax.Array,
        variant: Variant,
    ) -> tuple[Learner, Metrics]:
        """One pass over the batch in random minibatches. progress: share of the run behind it."""
        key_order, key_steps = jax.random.split(key)
        order = self.minibatches(key_order, variant)
        batch = self.estimated("epoch", learner, batch, lambda: experience, variant)
        advantage = advantages.standardised(
            "batch", batch.advantage, batch.group, self.environments.num_groups, variant
        )
        batch = batch._replace(advantage=advantage)

        def step(learner: Learner, inputs: tuple[jax.Array, jax.Array]) -> tuple[Learner, Metrics]:
            index, key = inputs
            part = _take(batch, index)
            part = self.estimated(
                "minibatch", learner, part, lambda: _take(experience, index), variant
            )
            return self.gradient_step(learner, part, key, progress, variant)

        keys = jax.random.split(key_steps, self.num_minibatches)
        return jax.lax.scan(step, learner, (order, keys))

    def estimated(
        self,
        moment: str,
        learner: Learner,
        batch: Minibatch,
        experience: Callable[[], Experience],
        variant: Variant,
    ) -> Minibatch:
        """The batch with advantages and targets of the current critic, where they are of this
        moment; see `advantages.at_moment`."""
        before = Estimate(batch.advantage, batch.target)
        critic = partial(self.networks.value, learner.parameters)
        now = advantages.at_moment(moment, before, experience, critic, variant)
        return batch._replace(advantage=now.advantage, target=now.target)

    def minibatches(self, key: jax.Array, variant: Variant) -> jax.Array:
        """Who goes where: int32 [minibatches, T, N/minibatches], places in the batch, row by row.

        Segments stay whole: each column of a minibatch is one environment's.
        """
        T, N = self.unroll_length, self.environments.num_envs

        def segments() -> jax.Array:
            columns = jax.random.permutation(key, N).reshape(self.num_minibatches, 1, -1)
            return columns + N * jnp.arange(T)[:, None]

        def transitions() -> jax.Array:
            return jax.random.permutation(key, T * N).reshape(self.num_minibatches, T, -1)

        return switch("minibatch_unit", variant, {"segments": segments, "transitions": transitions})

    def gradient_step(
        self,
        learner: Learner,
        batch: Minibatch,
        key: jax.Array,
        progress: jax.Array,
        variant: Variant,
    ) -> tuple[Learner, Metrics]:
        """One step of Adam down the gradient of the loss."""
        gradient, metrics = jax.grad(ppo_loss, has_aux=True)(
            learner.parameters, self.networks, batch, key, variant, self.environments.num_groups
        )
        metrics["gradient/norm"] = optax.tree.norm(gradient)
        learner, rate = optimizer.descend(
            learner, gradient, metrics["policy/approximate_kl"], progress, variant
        )
        metrics["training/learning_rate"] = rate
        return learner, metrics

    def evaluate(self, state: State, variant: Variant, key: jax.Array) -> Metrics:
        """One whole episode of the policy's mode per evaluation environment."""
        environments = self.evaluation_environments
        zeros = jnp.zeros(environments.num_envs)

        def step(now: tuple[Any, ...]) -> tuple[Any, ...]:
            episodes, active, reward_sum, length = now
            raw = self.networks.policy(state.parameters, state.normalizer(episodes.observation))
            mean, _ = mean_and_std(raw)
            episodes, outcome = environments.step(episodes, jnp.tanh(mean))
            return (
                episodes,
                active & ~outcome.finished,
                jnp.where(active, outcome.reward_sum, reward_sum),
                jnp.where(active, outcome.length.astype(jnp.float32), length),
            )

        start: tuple[Any, ...] = (environments.reset(key), zeros == 0.0, zeros, zeros)
        end = jax.lax.while_loop(lambda now: jnp.any(now[1]), step, start)
        _, _, reward_sum, length = end
        return {
            "evaluation/return": jnp.mean(reward_sum),
            "evaluation/return_std": jnp.std(reward_sum),
            "evaluation/length": jnp.mean(length),
        }

    def policy(self, state: State) -> dict[str, Any]:
        """What one needs to act: the networks' parameters and the observation statistics."""
        return {"parameters": state.parameters, "normalizer": state.normalizer}

    def act(
        self, policy: dict[str, Any], observation: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Actions [..., A] within [-1, 1] on observations [..., O] as the environment gives them:
        the mode, or a sample with a key."""
        raw = self.networks.policy(policy["parameters"], policy["normalizer"](observation))
        mean, std = mean_and_std(raw)
        if key is not None:
            mean = mean + std * jax.random.normal(key, mean.shape)
        return jnp.tanh(mean)


def scale_rewards(state: Any, outcome: Outcome, variant: Variant) -> tuple[Any, jax.Array]:
    """The next state of `reward_scaling`, and the rewards [T, N] as the learner sees them."""
    return apply(
        "reward_scaling",
        variant,
        state,
        rewards=outcome.reward,
        termination=outcome.termination.astype(jnp.float32),
        truncation=outcome.truncation.astype(jnp.float32),
    )


def _episode_metrics(outcome: Outcome) -> Metrics:
    """Number of finished episodes, and their summed returns and lengths; the chunk divides them."""
    finished = outcome.finished
    return {
        "training/episodes": jnp.sum(finished.astype(jnp.float32)),
        "training/return": jnp.sum(jnp.where(finished, outcome.reward_sum, 0.0)),
        "training/length": jnp.sum(jnp.where(finished, outcome.length, 0).astype(jnp.float32)),
        "training/reward_per_step": jnp.mean(outcome.reward),
    }


def _take(batch: Any, index: jax.Array) -> Any:
    """The places `index` of every leaf [T, N, ...], counted row by row."""
    return jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]).at[index].get(mode="promise_in_bounds"), batch
    )


def _where(condition: Any, this: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), this, other)

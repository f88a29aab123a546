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
from typing import TypeAlias

import jax
import jax.numpy as jnp
import optax

import variants
from ablations.trainers import optimizer
from ablations.trainers.choices import apply, fix, where
from ablations.trainers.control import acting, advantages, coefficients
from ablations.trainers.control import critic as critics
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.acting import Policy
from ablations.trainers.control.advantages import Estimate, Estimator, Experience
from ablations.trainers.control.coefficients import Measured
from ablations.trainers.control.critic import Critic
from ablations.trainers.control.distribution import Distribution
from ablations.trainers.control.environment import Environments, Episodes
from ablations.trainers.control.loss import Minibatch, policy_log_ratio, ppo_loss
from ablations.trainers.control.minibatches import Draws, draws, take
from ablations.trainers.control.networks import Networks, Start
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.control.outcomes import finished_episodes, iterated, whole_episodes
from ablations.trainers.control.state import Rollout, State
from ablations.trainers.optimizer import Divergence, Learner, Rule
from ablations.trainers.trainer import Metrics, Tree, Variant
from variants.observation_statistics import PER_BATCH

# The learner, and whether kl_stop has ended the update, None where it never does.
Update: TypeAlias = tuple[Learner, jax.Array | None]


@dataclass(frozen=True)
class PPO:
    """The functions of the trainer, closed over one task and one structure.

    fixed: axis -> the choice that is compiled in instead of the variant's, structural ones always.
    rule: how steps are taken.
    """

    environments: Environments
    evaluation_environments: Environments
    networks: Networks
    distribution: Distribution
    unroll_length: int
    num_minibatches: int
    epochs: int
    updates_per_chunk: int
    fixed: Mapping[str, str] = field(default_factory=dict)
    rule: Rule = optimizer.ADAM

    def init(self, key: jax.Array, variant: Variant) -> State:
        """Initialize networks, environments and optimiser.

        Of all that a variant says, only what is about their start changes the networks, and nothing
        the environments.
        """
        variant = fix(variant, self.fixed)
        key_networks, key_reset, key_training = jax.random.split(key, 3)
        start = Start(
            kernel=partial(apply, "network_init", variant),
            bias=partial(apply, "bias_init", variant),
            policy_gain=variant.numbers["policy_hidden_gain"],
            value_gain=variant.numbers["value_hidden_gain"],
            policy_scale=variant.numbers["policy_init_scale"],
            value_scale=variant.numbers["value_init_scale"],
        )
        parameters = self.networks.init(key_networks, start)
        episodes = self.environments.reset(key_reset)
        learner = optimizer.start(parameters, variant, self.rule)
        return State(
            parameters=learner.parameters,
            optimizer=learner.optimizer,
            schedule=learner.schedule,
            reward_scaling=variants.axis("reward_scaling").init(
                num_envs=self.environments.num_envs
            ),
            advantage_scaling=variants.axis("advantage_scaling").init(),
            value_targets=critics.start(self.fixed["value_normalization"]),
            normalizer=statistics.start(
                self.statistics, episodes.observation, variant.numbers["observation_forgetting"]
            ),
            acting=self.acting(variant),
            episodes=episodes,
            key=key_training,
            iteration=jnp.uint32(0),
            initial=learner.initial,
            coefficients=coefficients.start(self.fixed, variant),
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
        """Roll the policy out, and update it by what was collected."""
        key_rollout, key_epochs = jax.random.split(jax.random.fold_in(state.key, state.iteration))
        episodes, normalizer, rollout = self.rollout(state, key_rollout, variant)
        state, metrics = self.learn(state, rollout, self.draws(key_epochs, variant), variant)
        if self.statistics != PER_BATCH:
            state = state._replace(normalizer=normalizer)
        state = state._replace(episodes=episodes, iteration=state.iteration + 1)
        metrics = {name: jnp.mean(value) for name, value in metrics.items()}
        return state, metrics | finished_episodes(rollout.outcome)

    def learn(
        self, state: State, rollout: Rollout, draws: Draws, variant: Variant
    ) -> tuple[State, Metrics]:
        """Run `epochs` epochs of minibatch SGD on one rollout; metrics [epochs, minibatches]."""
        # With "before" the first ratio is not 1: the policy is scored on other inputs.
        current, normalizer = acting.batch_statistics(
            self.fixed, state.normalizer, rollout.observation, variant
        )
        reward_scaling, reward = advantages.scaled_rewards(
            state.reward_scaling, rollout.outcome, variant
        )
        experience, batch = self.prepare(state, rollout, reward, current, variant)
        advantage_scaling, advantage = apply(
            "advantage_scaling",
            variant,
            state.advantage_scaling,
            advantages=batch.advantage,
            targets=batch.target,
        )
        used, initial = state.coefficients, variant
        variant = coefficients.as_numbers(used, variant)
        critic, parameters = self.critic(state.value_targets).after(batch.target, state.parameters)
        batch = batch._replace(
            advantage=advantage,
            old_value=critic.output(batch.old_value),
            target=critic.output(batch.target),
        )

        progress = state.iteration.astype(jnp.float32) / variant.iterations
        stopped = None if self.fixed["kl_stop"] == "none" else jnp.bool_(False)
        learner = Learner(parameters, state.optimizer, state.schedule, initial=state.initial)
        (learner, _), metrics = jax.lax.scan(
            lambda now, draw: self.epoch(now, experience, batch, draw, progress, critic, variant),
            (optimizer.begin(learner, self.rule), stopped),
            draws,
        )

        def measured() -> Measured:
            raw = self.networks.policy(learner.parameters, batch.observation)
            return Measured(
                progress=progress + 1.0 / variant.iterations,
                entropy=jnp.mean(metrics["policy/entropy"]) / self.distribution.dimensions,
                divergence=self.distribution.kl(batch.raw, raw, variant),
            )

        state = state._replace(
            parameters=learner.parameters,
            optimizer=learner.optimizer,
            schedule=learner.schedule,
            reward_scaling=reward_scaling,
            advantage_scaling=advantage_scaling,
            value_targets=critic.seen,
            normalizer=normalizer,
            coefficients=coefficients.after(used, initial, measured),
        )
        return state, metrics | {f"loss/{name}": x for name, x in used.items()}

    @property
    def statistics(self) -> str:
        """The choice of observation_statistics."""
        return self.fixed["observation_statistics"]

    def acting(self, variant: Variant) -> dict[str, jax.Array]:
        """Return the numbers that a policy needs to act; see `acting.numbers`."""
        return acting.numbers(self.fixed, variant)

    def normalized(
        self, normalizer: Normalizer, observation: jax.Array, numbers: Mapping[str, jax.Array]
    ) -> jax.Array:
        """Normalize observations [..., O] for the networks; numbers: those of `acting`."""
        return acting.normalized(self.fixed, normalizer, observation, numbers)

    def critic(self, seen: Normalizer | None) -> Critic:
        """Return the critic with these statistics of value targets."""
        return Critic(self.networks.value, self.fixed["value_normalization"], seen)

    def estimator(
        self, critic: Critic, parameters: Tree, variant: Variant, batch: Minibatch | None = None
    ) -> Estimator:
        """Return the estimator of advantages and targets by this critic.

        batch: the steps that it estimates from, once the policy may have moved since.
        """
        moved = batch and partial(
            policy_log_ratio, parameters, self.networks, self.distribution, batch, variant
        )
        return Estimator(critic, parameters, self.statistics == PER_BATCH, variant, moved)

    def rollout(
        self, state: State, key: jax.Array, variant: Variant
    ) -> tuple[Episodes, Normalizer, Rollout]:
        """Take `unroll_length` steps of all environments with the current policy."""

        def choose(seen: jax.Array, noise: jax.Array) -> tuple[jax.Array, Tree]:
            raw = self.networks.policy(state.parameters, seen)
            x, action, log_prob = self.distribution.sample(raw, noise, variant)
            return action, (raw, x, log_prob)

        shape = (self.unroll_length, self.environments.num_envs)
        episodes, normalizer, steps = acting.rollout(
            self.environments,
            self.fixed,
            (state.episodes, state.normalizer),
            choose,
            self.distribution.noise(key, shape),
            state.acting,
            variant.numbers["observation_forgetting"],
        )
        raw, x, log_prob = steps.kept
        rollout = Rollout(
            steps.observation, raw, x, log_prob, steps.outcome, steps.seen, steps.next_seen
        )
        return episodes, normalizer, rollout

    def prepare(
        self,
        state: State,
        rollout: Rollout,
        reward: jax.Array,
        normalizer: Normalizer,
        variant: Variant,
    ) -> tuple[Experience, Minibatch]:
        """Return the whole batch, its observations normalised by `normalizer`.

        Values and targets are in units of scaled reward.

        reward: [T, N], scaled. The values at rollout, and the advantages that rest on them, are of
        the statistics at rollout.
        """
        outcome = rollout.outcome

        def normalized(by: Normalizer, observation: jax.Array, seen: jax.Array | None) -> jax.Array:
            return self.normalized(by, observation, state.acting) if seen is None else seen

        experience = Experience(
            observation=normalized(normalizer, rollout.observation, rollout.seen),
            next_observation=normalized(normalizer, outcome.next_observation, rollout.next_seen),
            reward=reward,
            termination=outcome.termination.astype(jnp.float32),
            truncation=outcome.truncation.astype(jnp.float32),
        )

        def at_rollout() -> jax.Array:
            return normalized(state.normalizer, rollout.observation, rollout.seen)

        def next_at_rollout() -> jax.Array:
            return normalized(state.normalizer, outcome.next_observation, rollout.next_seen)

        estimator = self.estimator(self.critic(state.value_targets), state.parameters, variant)
        old_value, estimate = estimator.at_rollout(experience, at_rollout, next_at_rollout)
        return experience, Minibatch(
            observation=experience.observation,
            raw=rollout.raw,
            x=rollout.x,
            log_prob=rollout.log_prob,
            old_value=old_value,
            advantage=estimate.advantage,
            target=estimate.target,
            group=jnp.broadcast_to(self.environments.groups, reward.shape),
        )

    def epoch(
        self,
        now: Update,
        experience: Experience,
        batch: Minibatch,
        draws: Draws,
        progress: jax.Array,
        critic: Critic,
        variant: Variant,
    ) -> tuple[Update, Metrics]:
        """Pass once over the batch in random minibatches.

        draws: of this epoch. progress: share of the run behind it.
        """
        learner, _ = now
        estimator = self.estimator(critic, learner.parameters, variant, batch)
        before = Estimate(batch.advantage, batch.target)
        old_value, estimate = estimator.at_epoch(experience, batch.old_value, before)
        batch = batch._replace(
            advantage=estimate.advantage, target=estimate.target, old_value=old_value
        )
        advantage = advantages.standardised(
            "batch", batch.advantage, batch.group, self.environments.num_groups, variant
        )
        batch = batch._replace(advantage=advantage)

        def step(now: Update, inputs: tuple[Draws, jax.Array]) -> tuple[Update, Metrics]:
            (learner, stopped), ((index, key), place) = now, inputs
            part = take(batch, index)
            stepped, metrics = self.gradient_step(
                learner, lambda: take(experience, index), part, key, progress, critic, variant
            )
            if stopped is not None:
                stop = apply(
                    "kl_stop",
                    variant,
                    approximate_kl=metrics["policy/approximate_kl"],
                    last_of_epoch=place == self.num_minibatches - 1,
                )
                stepped = where(stopped | stop.here, learner, stepped)
                stopped = stopped | stop.later
            return (stepped, stopped), metrics

        now, metrics = jax.lax.scan(step, now, (draws, jnp.arange(self.num_minibatches)))
        return now, metrics

    def draws(self, key: jax.Array, variant: Variant) -> Draws:
        """Draw the randomness of an update, ahead of it."""
        T, N = self.unroll_length, self.environments.num_envs
        shape = (self.epochs, self.num_minibatches)
        return draws(key, shape=shape, T=T, N=N, variant=variant)

    def gradient_step(
        self,
        learner: Learner,
        experience: Callable[[], Experience],
        batch: Minibatch,
        key: jax.Array,
        progress: jax.Array,
        critic: Critic,
        variant: Variant,
    ) -> tuple[Learner, Metrics]:
        """Take one step down the gradient of the loss, of Adam unless the rule says otherwise.

        experience: that of the minibatch; a function, so that only the timing that estimates from
            it here has it gathered.
        """
        estimator = self.estimator(critic, learner.parameters, variant, batch)

        gradient, metrics = jax.grad(ppo_loss, has_aux=True)(
            learner.parameters,
            self.networks,
            self.distribution,
            batch,
            key,
            variant,
            self.environments.num_groups,
            partial(estimator.at_minibatch, experience, Estimate(batch.advantage, batch.target)),
        )
        metrics["gradient/norm"] = optax.tree.norm(gradient)
        learner, rate = optimizer.descend(
            learner,
            gradient,
            divergence=Divergence(
                metrics["policy/approximate_kl"],
                metrics["policy/exact_kl"],
                metrics.pop("policy/offset_kl"),
            ),
            progress=progress,
            steps=self.epochs * self.num_minibatches,
            variant=variant,
            rule=self.rule,
        )
        metrics["training/learning_rate"] = rate
        return learner, metrics

    def evaluate(self, state: State, variant: Variant, key: jax.Array) -> Metrics:
        """Play one whole episode of the policy's mode per evaluation environment."""
        act = partial(self.act, self.policy(state))
        return whole_episodes(self.evaluation_environments, act, key)

    def policy(self, state: State) -> Policy:
        """Return all that acting needs."""
        normalizer = statistics.pooled(state.normalizer)
        return {
            "parameters": state.parameters,
            "normalizer": normalizer,
            "numbers": dict(state.acting),
        }

    def act(
        self, policy: Policy, observation: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Act on observations [..., O] as the environment gives them; see `acting.act`."""
        return acting.act(self.fixed, self.networks, self.distribution, policy, observation, key)

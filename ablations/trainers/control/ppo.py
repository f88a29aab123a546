"""Proximal policy optimisation (Schulman et al. 2017), composed from the registry.

The loop of rollouts and updates is `RolloutTrainer`; `PPO.learn` is an update from top to bottom;
`loss.py` is the page to check against the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Unpack

import jax
import jax.numpy as jnp

import variants
from ablations.environments import adapted
from ablations.errors import UserError
from ablations.tasks.task import EpisodeSettings
from ablations.trainers import optimizer
from ablations.trainers.choices import apply, where
from ablations.trainers.control import advantages, coefficients
from ablations.trainers.control import critic as critics
from ablations.trainers.control.advantages import Estimate, Estimator, Experience
from ablations.trainers.control.coefficients import Measured
from ablations.trainers.control.composing import composed
from ablations.trainers.control.critic import Critic
from ablations.trainers.control.distribution import Distribution, distribution_of
from ablations.trainers.control.heads import SCALAR, Head
from ablations.trainers.control.loss import Minibatch, policy_log_ratio, ppo_loss
from ablations.trainers.control.minibatches import Draws, take
from ablations.trainers.control.networks import Networks, Start, make_networks
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.control.rollout_trainer import Choose, RolloutTrainer
from ablations.trainers.control.state import Policy, Rollout, State
from ablations.trainers.optimizer import Divergence, Learner
from ablations.trainers.trainer import Metrics, Program, Tree, Variant
from variants.observation_statistics import PER_BATCH

if TYPE_CHECKING:
    from ablations.trainers.control.settings import Structure

# The learner, and whether kl_stop has ended the update, None where it never does.
Update: TypeAlias = tuple[Learner, jax.Array | None]


class Sample(NamedTuple):
    """Actions as the policy drew them, leaves [T, N, ...].

    raw: what its network made of the observation. x: what was drawn, before it became an action.
    log_prob: of that.
    """

    raw: jax.Array
    x: jax.Array
    log_prob: jax.Array


class Carried(NamedTuple):
    """State of PPO alone, carried from one iteration to the next.

    advantage_scaling: what the axis of that name carries.
    value_targets: statistics of them for value_normalization; None where it reads none.
    coefficients: of the loss, those that change from batch to batch, by name.
    """

    advantage_scaling: Tree
    value_targets: Normalizer | None
    coefficients: Mapping[str, jax.Array]


PPOState: TypeAlias = State[Carried]


@dataclass(frozen=True, kw_only=True)
class PPO(RolloutTrainer[Carried, Sample]):
    """The functions of PPO, closed over one task and one structure."""

    ACTING = ("action_distribution", "policy_std", "observation_scaling")

    networks: Networks
    distribution: Distribution

    def initial_parameters(self, key: jax.Array, variant: Variant) -> Tree:
        """Initialize policy and critic."""
        start = Start(
            kernel=partial(apply, "network_init", variant),
            bias=partial(apply, "bias_init", variant),
            policy_gain=variant.numbers["policy_hidden_gain"],
            value_gain=variant.numbers["value_hidden_gain"],
            policy_scale=variant.numbers["policy_init_scale"],
            value_scale=variant.numbers["value_init_scale"],
        )
        return self.networks.init(key, start)

    def initial_own(self, learner: Learner, variant: Variant) -> Carried:
        """Return what is carried before the first iteration."""
        return Carried(
            advantage_scaling=variants.axis("advantage_scaling").init(),
            value_targets=critics.start(self.fixed["value_normalization"]),
            coefficients=coefficients.start(self.fixed, variant),
        )

    def noise(self, key: jax.Array) -> Tree:
        """Draw the noise of a rollout, leaves [T, N, ...]."""
        return self.distribution.noise(key, (self.unroll_length, self.environments.num_envs))

    def choose(self, state: PPOState, variant: Variant) -> Choose[Sample]:
        """Return the function that samples actions from the policy."""

        def choose(seen: jax.Array, noise: Tree) -> tuple[jax.Array, Sample]:
            raw = self.networks.policy(state.parameters, seen)
            x, action, log_prob = self.distribution.sample(raw, noise, variant)
            return action, Sample(raw, x, log_prob)

        return choose

    def learn(
        self, state: PPOState, rollout: Rollout[Sample], draws: Draws, variant: Variant
    ) -> tuple[PPOState, Metrics]:
        """Run `epochs` epochs of minibatch SGD on one rollout; metrics [epochs, minibatches]."""
        # With "before" the first ratio is not 1: the policy is scored on other inputs.
        current, normalizer = self.batch_statistics(state.normalizer, rollout.observation, variant)
        reward_scaling, reward = advantages.scaled_rewards(
            state.reward_scaling, rollout.outcome, variant
        )
        experience, batch = self.prepare(state, rollout, reward, current, variant)
        advantage_scaling, advantage = apply(
            "advantage_scaling",
            variant,
            state.own.advantage_scaling,
            advantages=batch.advantage,
            targets=batch.target,
        )
        used, initial = state.own.coefficients, variant
        variant = coefficients.as_numbers(used, variant)
        critic = self.critic(state.own.value_targets)
        critic, parameters = critic.after(batch.target, state.parameters)
        batch = batch._replace(
            advantage=advantage,
            old_value=critic.output(batch.old_value),
            target=critic.output(batch.target),
        )

        progress = self.progress(state, variant)
        stopped = None if self.fixed["kl_stop"] == "none" else jnp.bool_(False)
        learner = state.learner._replace(parameters=parameters)
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
            learner=optimizer.end(learner),
            reward_scaling=reward_scaling,
            normalizer=normalizer,
            own=Carried(
                advantage_scaling, critic.seen, coefficients.after(used, initial, measured)
            ),
        )
        return state, metrics | {f"loss/{name}": x for name, x in used.items()}

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

    def prepare(
        self,
        state: PPOState,
        rollout: Rollout[Sample],
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

        critic = self.critic(state.own.value_targets)
        estimator = self.estimator(critic, state.parameters, variant)
        old_value, estimate = estimator.at_rollout(experience, at_rollout, next_at_rollout)
        return experience, Minibatch(
            observation=experience.observation,
            raw=rollout.kept.raw,
            x=rollout.kept.x,
            log_prob=rollout.kept.log_prob,
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
        learner, step = optimizer.descend(
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
        return learner, metrics | step

    def act(
        self, policy: Policy, observation: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Return the mode of the policy on observations [..., O], or a sample with a key."""
        numbers = policy["numbers"]
        chosen = Variant(choices={axis: self.fixed[axis] for axis in self.ACTING}, numbers=numbers)
        seen = self.normalized(policy["normalizer"], observation, numbers)
        raw = self.networks.policy(policy["parameters"], seen)
        if key is None:
            return self.distribution.mode(raw, chosen)
        noise = self.distribution.noise(key, raw.shape[:-1])
        return self.distribution.sample(raw, noise, chosen).action


def compose(axes: Mapping[str, str], **program: Unpack[Program[EpisodeSettings, Structure]]) -> PPO:
    """Compose PPO for one task and one structure. axes: with their defaults.

    The task needs `episode_length`; `reset_group_size` (1) and `random_elapsed_steps` (True) are
    read where it has them. Raises UserError for an environment that the task does not describe.
    """
    task, structure = program["task"], program["structure"]
    env = adapted(task.made(program["settings"]), task)
    parts = composed(env, axes, **program)
    fixed = parts["fixed"]
    critic = fixed["critic_head"]
    distribution = distribution_of(env.actions, fixed)
    if structure["torso"] == "shared" and env.observations.policy is not None:
        raise UserError(
            f"torso=shared has one observation for policy and critic, and those of task "
            f"'{task.name}' differ: use torso=separate"
        )
    return PPO(
        networks=make_networks(
            env.observations,
            distribution.outputs,
            policy_layers=structure["policy_layers"],
            value_layers=structure.get("value_layers", ()),
            torso=structure["torso"],
            activation=structure["activation"],
            normalized=fixed["network_normalization"],
            filters=structure.get("filters", 0),
            head=SCALAR
            if critic == "scalar"
            else Head(critic, structure["value_outputs"], structure["value_range"]),
        ),
        distribution=distribution,
        **parts,
    )

"""Proximal policy optimisation (Schulman et al. 2017), composed from the registry.

Read it from top to bottom: the settings; `PPO.choose`, which acts in a rollout; `PPO.learn`, one
update on a rollout; `ppo_loss`, the formula to check against the paper. `RolloutTrainer` is the
loop around an update, `Estimator` computes advantages, `optimizer.descend` takes a gradient step.

Shapes: T steps of N environments; M environments in a minibatch; O numbers of an observation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias, Unpack

import jax
import jax.numpy as jnp

import variants
from ablations.environments import adapted
from ablations.errors import UserError
from ablations.tasks.task import EpisodeSettings
from ablations.trainers import losses, optimizer
from ablations.trainers.choices import apply, where
from ablations.trainers.control import rollouts
from ablations.trainers.control.advantages import Estimate, Estimator, Experience, standardised
from ablations.trainers.control.distribution import Distribution, brax_kl, distribution_of, unshaped
from ablations.trainers.control.networks import (
    SCALAR,
    Critic,
    Head,
    Networks,
    make_networks,
    start_of,
)
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.control.rollouts import Draws, Policy, Rollout, State
from ablations.trainers.optimizer import Divergence, Learner
from ablations.trainers.products import materialized
from ablations.trainers.spec import TrainerSpec, component, number, number_default, static
from ablations.trainers.trainer import Array, Metrics, Program, ResolvedSettings, TracedConfig, Tree
from variants.observation_statistics import PER_BATCH

# The learner, and whether kl_stop has ended the update; None without kl_stop.
Update: TypeAlias = "tuple[Learner, Array | None]"
PPOState: TypeAlias = "State[Carried]"


@dataclass(frozen=True, kw_only=True)
class Settings(rollouts.RolloutSettings):
    """Hyperparameters of PPO. A choice declares the numbers that only it reads."""

    advantage: str = component("standard")
    advantage_timing: str = component("iteration")
    advantage_statistics: str = component("all")
    advantage_scope: str = component("minibatch")
    value_error: str = component("squared")
    value_clip: str = component("none")
    policy_loss: str = component("clip")
    entropy_estimate: str = component("one_sample")
    gradient_clip: str = component("none")
    learning_rate_schedule: str = component("constant")
    observation_normalization: str = component("after")
    reward_scaling: str = component("constant")
    minibatch_unit: str = component("segments")
    network_init: str = component("lecun_uniform")
    bias_init: str = component("zeros")
    minibatch_order: str = component("redrawn")
    old_value: str = component("rollout")
    action_distribution: str = component("tanh_normal")
    policy_std: str = component("softplus_head")
    observation_statistics: str = component("per_batch")
    observation_scaling: str = component("bounded_std")
    kl_stop: str = component("none")
    value_normalization: str = component("none")
    advantage_scaling: str = component("none")
    critic_head: str = component("scalar", neutral="scalar")
    entropy_schedule: str = component("constant", neutral="constant")
    learning_rate_warmup: str = component("none", neutral="none")
    mean_perturbation: str = component("none", neutral="none")
    network_normalization: str = component("none", neutral="none")
    optimizer: str = component("adam", neutral="adam")
    optimizer_reset: str = component("none", neutral="none")
    penalty_schedule: str = component("constant", neutral="constant")
    value_target: str = component("shared", neutral="shared")
    weight_regularization: str = component("none", neutral="none")

    learning_rate: float = number(3e-4, 0.0, 1.0, "step size of Adam")
    entropy_coefficient: float = number(1e-3, 0.0, 10.0, "factor on the mean entropy")
    value_coefficient: float = number(0.25, 0.0, 1e6, "factor on the mean value loss")
    policy_init_scale: float = number(
        1.0, 0.0, 1e3, "factor on the policy's last layer at the start; 0.01 with orthogonal"
    )
    value_init_scale: float = number(
        1.0, 0.0, 1e3, "factor on the critic's last layer at the start"
    )
    policy_hidden_gain: float = number(
        math.sqrt(2.0), 0.0, 1e3,
        "gain of the policy's hidden layers with network_init=orthogonal, he_normal",
    )  # fmt: skip
    value_hidden_gain: float = number(
        math.sqrt(2.0), 0.0, 1e3,
        "gain of the critic's hidden layers with network_init=orthogonal, he_normal",
    )  # fmt: skip
    discount: float = number_default(0.97)
    gae_lambda: float = number_default(0.95)
    max_gradient_norm: float = number_default(0.5)

    policy_layers: tuple[int, ...] = static(
        (64, 64), "hidden layers of the policy; the torso when it is shared"
    )
    value_layers: tuple[int, ...] = static(
        (64, 64), "hidden layers of the critic where the torso is separate"
    )
    torso: str = static(
        "separate", "whether policy and critic share their hidden layers", ("separate", "shared")
    )
    value_outputs: int = static(
        51, "outputs of the critic where critic_head is not scalar", low=2, neutral=51
    )
    value_range: float = static(
        10.0, "largest value of critic_head=hl_gauss and two_hot, in units of value_normalization",
        low=1e-6, neutral=10.0,
    )  # fmt: skip


def unread(resolved: ResolvedSettings) -> dict[str, str]:
    """Return the settings that PPO does not read: name -> reason."""
    reasons = unshaped(resolved.task, resolved.choices["action_distribution"])
    if resolved.structure["torso"] == "shared":
        reasons |= dict.fromkeys(
            ("value_layers", "value_hidden_gain"), "the critic shares the policy's hidden layers"
        )
    return reasons | rollouts.unread_on(resolved.task)


class Sample(NamedTuple):
    """Draws of the policy, leaves [T, N, ...].

    raw: output of its network. x: the draw, before it becomes an action. log_prob: of x.
    """

    raw: Array
    x: Array
    log_prob: Array


class Carried(NamedTuple):
    """State of PPO between iterations, beside `rollouts.State`.

    advantage_scaling: state of that axis.
    value_targets: statistics for value_normalization; None if it reads none.
    coefficients: coefficients of the loss with a schedule, by name.
    """

    advantage_scaling: Tree
    value_targets: Normalizer | None
    coefficients: Mapping[str, Array]


class Minibatch(NamedTuple):
    """A minibatch: M segments of T steps, from M environments.

    observation: [T, M, O], normalised.
    raw, x, log_prob: as in `Sample`.
    old_value: [T, M], reference output of the critic for value_clip.
    advantage: [T, M], standardised if advantage_scope is "batch".
    target: [T, M], like old_value in units of the critic's output; of scaled reward before
        `Critic.output`.
    group: int32 [T, M], index of the environment's reset.
    """

    observation: Array
    raw: Array
    x: Array
    log_prob: Array
    old_value: Array
    advantage: Array
    target: Array
    group: Array


@dataclass(frozen=True, kw_only=True)
class PPO(rollouts.RolloutTrainer[Carried, Sample]):
    """The functions of PPO, closed over one task and its static settings."""

    ACTING = ("action_distribution", "policy_std", "observation_scaling")

    networks: Networks
    distribution: Distribution

    def initial_parameters(self, key: Array, variant: TracedConfig) -> Tree:
        """Initialize policy and critic."""
        return self.networks.init(key, start_of(variant))

    def initial_own(self, learner: Learner, variant: TracedConfig) -> Carried:
        """Return the state before the first iteration."""
        return Carried(
            advantage_scaling=variants.axis("advantage_scaling").init(),
            value_targets=Critic.start(self.fixed["value_normalization"]),
            coefficients=losses.scheduled(self.fixed, variant),
        )

    # Rollout

    def noise(self, key: Array) -> Tree:
        """Draw the noise of a rollout, leaves [T, N, ...]."""
        shape = (self.settings.unroll_length, self.environments.num_envs)
        return self.distribution.noise(key, shape)

    def choose(self, state: PPOState, variant: TracedConfig) -> rollouts.Choose[Sample]:
        """Return the function that samples actions from the policy."""

        def choose(seen: Array, noise: Tree) -> tuple[Array, Sample]:
            raw = self.networks.policy(state.parameters, seen)
            x, action, log_prob = self.distribution.sample(raw, noise, variant)
            return action, Sample(raw, x, log_prob)

        return choose

    # Update

    def learn(
        self, state: PPOState, rollout: Rollout[Sample], draws: Draws, variant: TracedConfig
    ) -> tuple[PPOState, Metrics]:
        """Run `epochs` epochs of minibatch SGD on one rollout; metrics [epochs, minibatches]."""
        # With observation_normalization=before, the inputs change and the first ratio is not 1.
        current, normalizer = self.batch_statistics(state.normalizer, rollout.observation, variant)
        reward_scaling, reward = rollouts.scaled_rewards(
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
        initial, coefficients = variant, state.own.coefficients
        variant = initial._replace(numbers={**initial.numbers, **coefficients})
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

        def measured() -> losses.Measured:
            raw = self.networks.policy(learner.parameters, batch.observation)
            return losses.Measured(
                progress=progress + 1.0 / variant.iterations,
                entropy=jnp.mean(metrics["policy/entropy"]) / self.distribution.dimensions,
                divergence=self.distribution.kl(batch.raw, raw, variant),
            )

        own = Carried(
            advantage_scaling,
            critic.of_targets,
            losses.next_coefficients(coefficients, initial, measured),
        )
        state = state._replace(
            learner=optimizer.end(learner),
            reward_scaling=reward_scaling,
            normalizer=normalizer,
            own=own,
        )
        return state, metrics | {f"loss/{name}": x for name, x in coefficients.items()}

    def prepare(
        self,
        state: PPOState,
        rollout: Rollout[Sample],
        reward: Array,
        normalizer: Normalizer,
        variant: TracedConfig,
    ) -> tuple[Experience, Minibatch]:
        """Return the whole batch, its observations normalised by `normalizer`.

        Values and targets are in units of scaled reward. Values at rollout use the statistics at
        rollout, and so do their advantages; both are 0 if no choice reads them.

        reward: [T, N], scaled.
        """
        outcome = rollout.outcome

        def normalized(observation: Array, seen: Array | None, by: Normalizer) -> Array:
            return self.normalized(by, observation, state.acting) if seen is None else seen

        observation = partial(normalized, rollout.observation, rollout.seen)
        next_observation = partial(normalized, outcome.next_observation, rollout.next_seen)
        experience = Experience(
            observation=observation(normalizer),
            next_observation=next_observation(normalizer),
            reward=reward,
            termination=outcome.termination.astype(jnp.float32),
            truncation=outcome.truncation.astype(jnp.float32),
        )
        critic = self.critic(state.own.value_targets)
        old_value, estimate = self.estimator(critic, state.parameters, variant).at_rollout(
            experience,
            lambda: observation(state.normalizer),
            lambda: next_observation(state.normalizer),
        )
        return experience, Minibatch(
            observation=experience.observation,
            **rollout.kept._asdict(),
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
        progress: Array,
        critic: Critic,
        variant: TracedConfig,
    ) -> tuple[Update, Metrics]:
        """Run one epoch over the batch; draws: of this epoch."""
        learner, _ = now
        estimator = self.estimator(critic, learner.parameters, variant, batch)
        before = Estimate(batch.advantage, batch.target)
        old_value, estimate = estimator.at_epoch(experience, batch.old_value, before)
        batch = batch._replace(old_value=old_value, **estimate._asdict())
        groups = self.environments.num_groups
        advantage = standardised("batch", batch.advantage, batch.group, groups, variant)
        batch = batch._replace(advantage=advantage)

        def step(now: Update, inputs: tuple[Draws, Array]) -> tuple[Update, Metrics]:
            (learner, stopped), ((index, key), place) = now, inputs
            part = rollouts.take(batch, index)
            of_part = partial(rollouts.take, experience, index)
            stepped, metrics = self.gradient_step(
                learner, of_part, part, key, progress, critic, variant
            )
            if stopped is not None:
                stop = apply(
                    "kl_stop",
                    variant,
                    approximate_kl=metrics["policy/approximate_kl"],
                    last_of_epoch=place == self.settings.num_minibatches - 1,
                )
                stepped = where(stopped | stop.here, learner, stepped)
                stopped = stopped | stop.later
            return (stepped, stopped), metrics

        now, metrics = jax.lax.scan(step, now, (draws, jnp.arange(self.settings.num_minibatches)))
        return now, metrics

    def gradient_step(
        self,
        learner: Learner,
        experience: Callable[[], Experience],
        batch: Minibatch,
        key: Array,
        progress: Array,
        critic: Critic,
        variant: TracedConfig,
    ) -> tuple[Learner, Metrics]:
        """Take one gradient step.

        experience: gathers the experience of the minibatch, for advantage_timing=minibatch.
        """
        estimator = self.estimator(critic, learner.parameters, variant, batch)
        before = Estimate(batch.advantage, batch.target)
        gradient, metrics = jax.grad(ppo_loss, has_aux=True)(
            learner.parameters,
            self.networks,
            self.distribution,
            batch,
            key,
            variant,
            self.environments.num_groups,
            partial(estimator.at_minibatch, experience, before),
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
            steps=self.settings.epochs * self.settings.num_minibatches,
            variant=variant,
            rule=self.rule,
        )
        return learner, metrics | step

    def critic(self, of_targets: Normalizer | None) -> Critic:
        """Return the critic with these statistics of value targets."""
        return Critic(self.networks.value, self.fixed["value_normalization"], of_targets)

    def estimator(
        self,
        critic: Critic,
        parameters: Tree,
        variant: TracedConfig,
        batch: Minibatch | None = None,
    ) -> Estimator:
        """Return the estimator with this critic; batch: for ratios after a gradient step."""

        def log_ratio(batch: Minibatch) -> Array:
            raw = self.networks.policy(parameters, batch.observation)
            return self.distribution.log_prob(raw, batch.x, variant) - batch.log_prob

        moved = None if batch is None else partial(log_ratio, batch)
        return Estimator(critic, parameters, self.statistics == PER_BATCH, variant, moved)

    def act(self, policy: Policy, observation: Array, key: Array | None = None) -> Array:
        """Return the mode of the policy on observations [..., O], or a sample with a key."""
        numbers = policy["numbers"]
        chosen = TracedConfig({axis: self.fixed[axis] for axis in self.ACTING}, numbers)
        seen = self.normalized(policy["normalizer"], observation, numbers)
        raw = self.networks.policy(policy["parameters"], seen)
        if key is None:
            return self.distribution.mode(raw, chosen)
        noise = self.distribution.noise(key, raw.shape[:-1])
        return self.distribution.sample(raw, noise, chosen).action


# Loss


def ppo_loss(
    parameters: Tree,
    networks: Networks,
    distribution: Distribution,
    batch: Minibatch,
    key: Array,
    variant: TracedConfig,
    num_groups: int,
    estimated: Callable[[Array], Estimate] | None = None,
) -> tuple[Array, Metrics]:
    """Compute loss = E[policy loss] + c_v E[value loss] - c_e E[entropy], and scalar metrics.

    key: for choices that draw. num_groups: number of reset groups (static). estimated: a function
    of the critic's current values [T, M] that replaces the batch's advantages and targets.
    """
    raw, outputs = networks.both(parameters, batch.observation)
    value = networks.head.values(outputs)
    if estimated is not None:
        now = estimated(jax.lax.stop_gradient(value))
        batch = batch._replace(advantage=now.advantage, target=now.target)
    advantage = standardised("minibatch", batch.advantage, batch.group, num_groups, variant)

    # Policy
    scored = distribution.perturbed(raw, key, variant)
    new_log_prob = distribution.log_prob(scored, batch.x, variant)
    log_ratio = new_log_prob - batch.log_prob
    policy_losses, clip_fraction = apply(
        "policy_loss",
        variant,
        log_ratio=log_ratio.reshape(-1),
        advantages=advantage.reshape(-1),
        log_probs=new_log_prob.reshape(-1),
        noise=lambda shape: jax.random.uniform(jax.random.fold_in(key, 1), shape),
    )
    policy_loss = jnp.mean(policy_losses)

    # Value
    value_part, value_metrics = losses.value_loss(
        value=value,
        target=batch.target,
        old_value=batch.old_value,
        variant=variant,
        error=networks.head.error(outputs, variant),
    )

    # Entropy
    entropy = jnp.mean(distribution.entropy(scored, key, variant))
    entropy_loss = -variant.numbers["entropy_coefficient"] * entropy

    loss = policy_loss + value_part + entropy_loss
    # The barrier keeps the rounding of exact_kl if learning_rate_schedule is compiled in.
    old_raw, now_raw = materialized((batch.raw, jax.lax.stop_gradient(raw)))
    return loss, {
        "loss/policy": policy_loss,
        "loss/entropy": entropy_loss,
        "loss/total": loss,
        "policy/clip_fraction": clip_fraction,
        "policy/entropy": entropy,
        "policy/exact_kl": distribution.kl(old_raw, now_raw, variant),
        "policy/offset_kl": brax_kl(distribution, old_raw, now_raw, variant),
        **losses.ratio_metrics(log_ratio),
        **value_metrics,
        "advantage/mean": jnp.mean(batch.advantage),
        "advantage/std": jnp.std(batch.advantage),
    }


def compose(
    kind: type[PPO] | None = None,
    spec: TrainerSpec | None = None,
    **program: Unpack[Program[EpisodeSettings]],
) -> PPO:
    """Compose PPO, or a subclass of it with the specification of its settings.

    Raises UserError: the environment differs from the task's description.
    """
    kind, spec = kind or PPO, spec or SPEC
    task, settings = program["task"], spec.hyperparameters(**program["structure"])
    env = adapted(task.made(program["settings"]), task)
    if settings.torso == "shared" and env.observations.policy is not None:
        raise UserError(
            f"torso=shared needs one observation for policy and critic, and task '{task.name}' has "
            f"two: use torso=separate"
        )
    fixed = rollouts.fixed_choices(spec.axes, settings, program)
    distribution, head = distribution_of(env.actions, fixed), SCALAR
    if fixed["critic_head"] != "scalar":
        head = Head(fixed["critic_head"], settings.value_outputs, settings.value_range)
    networks = make_networks(
        env.observations,
        distribution.outputs,
        policy_layers=settings.policy_layers,
        value_layers=settings.value_layers,
        torso=settings.torso,
        activation=settings.activation,
        normalized=fixed["network_normalization"],
        filters=settings.filters,
        head=head,
    )
    return kind.of(env, fixed, settings, program, networks=networks, distribution=distribution)


SPEC = TrainerSpec(
    name="ppo",
    summary="proximal policy optimisation, on control tasks and games",
    hyperparameters=Settings,
    unread=unread,
    compiles=rollouts.compiles,
    make=lambda **program: compose(**program).trainer,
    iteration_steps=rollouts.iteration_steps,
    check=rollouts.check,
    revision=2,
)

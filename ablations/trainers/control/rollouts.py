"""Training on rollouts: the settings, the state and the loop of PPO and PQN.

A chunk is a scan over iterations. An iteration rolls the policy out in all environments, then a
trainer's `learn` makes `epochs` passes over the batch in minibatches.

All randomness derives from the seed's key and the number of the iteration. So all variants of a
seed have the same initial networks, resets, sampling noise and minibatches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypedDict, TypeVar

import jax
import jax.numpy as jnp

import variants
from ablations.core.decode import Json
from ablations.environments import Environment
from ablations.tasks.task import EpisodeSettings, Task
from ablations.trainers import optimizer
from ablations.trainers.choices import apply, fix, matches, switch, where
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.environment import Environments, Episodes, Outcome
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.optimizer import Learner, Rule, StepSettings, complaints_of
from ablations.trainers.shuffles import orders
from ablations.trainers.spec import static
from ablations.trainers.trainer import Array, Metrics, Program, TracedConfig, Trainer, Tree
from variants.observation_statistics import PER_BATCH

OwnT = TypeVar("OwnT")
KeptT = TypeVar("KeptT")
Batch = TypeVar("Batch")
# (normalised observations [N, O], noise of one step) -> (actions, data to keep for learning).
Choose: TypeAlias = Callable[[Array, Tree], tuple[Array, KeptT]]
# Episodes, whether each is running, returns and lengths so far, optionally the step.
Evaluation: TypeAlias = tuple[Episodes, Array, Array, Array, *tuple[Array, ...]]


# Settings


@dataclass(frozen=True, kw_only=True)
class RolloutSettings(StepSettings):
    """Hyperparameters of every trainer of control tasks."""

    num_envs: int = static(64, "environments stepped together", low=1)
    unroll_length: int = static(32, "steps of each environment in a batch: one segment", low=1)
    num_minibatches: int = static(4, "gradient steps per pass over a batch", low=1)
    epochs: int = static(4, "passes over a batch", low=1)
    activation: str = static("tanh", "between layers", ("tanh", "swish", "relu", "elu"))
    filters: int = static(
        0, "of a convolution of 3 by 3 before the layers, where observations are images; 0: none",
        low=0,
    )  # fmt: skip
    reset_pool: int = static(
        1, "resets of each environment, its episodes take them in turn; 1: the same for ever", low=1
    )


def option(name: str, default: Json) -> Any:
    """Declare a static setting of `RolloutSettings` with another default."""
    described = RolloutSettings.__dataclass_fields__[name].metadata["about"]
    return static(default, described.summary, described.allowed, low=described.low)


def unread_on(task: Task) -> dict[str, str]:
    """Return the static settings without an effect on a task: name -> reason."""
    unread: dict[str, str] = {}
    if task.fresh:
        unread["reset_pool"] = f"every episode of {task.name} has a reset of its own"
    if not task.image:
        unread["filters"] = f"observations of {task.name} are not images"
    return unread


def compiles(structure: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the axes to compile in: unequal parts of segments cannot be traced."""
    return ("minibatch_unit",) if structure["num_envs"] % structure["num_minibatches"] else ()


def iteration_steps(structure: Mapping[str, Any]) -> int:
    """Return the environment steps of one iteration."""
    steps: int = structure["num_envs"] * structure["unroll_length"]
    return steps


def check(*, structure: Mapping[str, Any], settings: EpisodeSettings) -> list[str]:
    """Return complaints about settings that do not fit together."""
    complaints = complaints_of(structure)
    num_envs = structure["num_envs"]
    group_size = settings.get("reset_group_size", 1)
    if num_envs % group_size:
        below = num_envs // group_size * group_size
        use = f"{below} or {below + group_size}" if below else str(group_size)
        complaints.append(
            f"num_envs={num_envs} is not divisible by reset_group_size={group_size}: use {use}"
        )
    if "episode_length" not in settings:
        complaints.append(
            "the task has no setting episode_length, at which episodes are truncated: choose a "
            "control task (`ablations list tasks`), or add the setting to yours"
        )
    elif settings["episode_length"] < 1:
        complaints.append(f"episode_length={settings['episode_length']} is too small: at least 1")
    return complaints


# State


class State(NamedTuple, Generic[OwnT]):
    """The whole state of a run.

    reward_scaling: state of that axis. acting: the numbers that a policy needs to act, by name.
    key: of the seed. iteration: uint32, iterations done. own: the trainer's own state.
    """

    learner: Learner
    reward_scaling: Tree
    normalizer: Normalizer
    acting: Mapping[str, Array]
    episodes: Episodes
    key: Array
    iteration: Array
    own: OwnT

    @property
    def parameters(self) -> Tree:
        """Parameters of the networks."""
        return self.learner.parameters


class Rollout(NamedTuple, Generic[KeptT]):
    """T steps of N environments, leaves [T, N, ...].

    observation: not normalised. kept: the trainer's data about its actions. outcome: of each step.
    last_observation: [N, O], the policy's next input, after any reset.
    seen, next_seen: the observation and the true next observation as normalised at the step; None
        if statistics are updated per batch.
    """

    observation: Array
    kept: KeptT
    outcome: Outcome
    last_observation: Array
    seen: Array | None = None
    next_seen: Array | None = None


class Policy(TypedDict):
    """A saved policy. parameters: of the networks. numbers: `State.acting`."""

    parameters: Tree
    normalizer: Normalizer
    numbers: dict[str, Array]


class Draws(NamedTuple):
    """The randomness of an update, for each epoch and minibatch.

    order: int32 [epochs, minibatches, T, M], positions in the batch, row by row. key: for the loss.
    """

    order: Array
    key: Array


# The loop


@dataclass(frozen=True, kw_only=True)
class RolloutTrainer(ABC, Generic[OwnT, KeptT]):
    """The functions of a trainer for one task and its static settings.

    fixed: axis -> compiled-in choice, for structural axes and others.
    """

    ACTING: ClassVar[tuple[str, ...]]  # Actions depend on these axes and on no others.

    environments: Environments
    evaluation_environments: Environments
    settings: RolloutSettings
    updates_per_chunk: int
    fixed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        env: Environment,
        fixed: Mapping[str, str],
        settings: RolloutSettings,
        program: Program[EpisodeSettings],
        **networks: Any,
    ) -> Self:
        """Return the trainer of one task."""
        of_task = program["settings"]
        unpaid, length = program["task"].unpaid(of_task), of_task["episode_length"]
        return cls(
            environments=Environments(
                env=env,
                num_envs=settings.num_envs,
                episode_length=length,
                reset_group_size=of_task.get("reset_group_size", 1),
                random_elapsed_steps=of_task.get("random_elapsed_steps", True),
                reset_pool=settings.reset_pool,
                unpaid=unpaid,
            ),
            evaluation_environments=Environments(
                env, program.get("evaluation_envs", 16), length, unpaid=unpaid
            ),
            settings=settings,
            updates_per_chunk=program["updates_per_chunk"],
            fixed=fixed,
            **networks,
        )

    @abstractmethod
    def initial_parameters(self, key: Array, variant: TracedConfig) -> Tree:
        """Initialize the networks."""

    @abstractmethod
    def initial_own(self, learner: Learner, variant: TracedConfig) -> OwnT:
        """Return `State.own` before the first iteration."""

    @abstractmethod
    def noise(self, key: Array) -> Tree:
        """Draw the noise of a rollout, leaves [T, N, ...]."""

    @abstractmethod
    def choose(self, state: State[OwnT], variant: TracedConfig) -> Choose[KeptT]:
        """Return the function that chooses the actions of a rollout."""

    @abstractmethod
    def learn(
        self, state: State[OwnT], rollout: Rollout[KeptT], draws: Draws, variant: TracedConfig
    ) -> tuple[State[OwnT], Metrics]:
        """Run `epochs` epochs of minibatch SGD on one rollout; metrics of any shape."""

    @abstractmethod
    def act(self, policy: Policy, observation: Array, key: Array | None = None) -> Array:
        """Return actions on raw observations [..., O]: the mode, or with a key a sample."""

    @property
    def rule(self) -> Rule:
        """How steps are taken."""
        return optimizer.rule_of(self.settings, self.fixed)

    @property
    def trainer(self) -> Trainer:
        """The program in the form that the engine runs."""
        iteration_steps = self.environments.num_envs * self.settings.unroll_length
        return Trainer(
            init=self.init,
            chunk=self.chunk,
            evaluate=self.evaluate,
            policy=self.policy,
            steps_per_chunk=self.updates_per_chunk * iteration_steps,
            act=self.act,
        )

    def init(self, key: Array, variant: TracedConfig) -> State[OwnT]:
        """Initialize networks, environments and optimiser.

        Only a variant's choices about initialization change the networks. The environments are the
        same for all variants.
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

    def chunk(self, state: State[OwnT], variant: TracedConfig) -> tuple[State[OwnT], Metrics]:
        """Run `updates_per_chunk` iterations. Metrics are means over iterations or episodes."""
        variant = fix(variant, self.fixed)
        state, metrics = jax.lax.scan(
            lambda state, _: self.iteration(state, variant), state, length=self.updates_per_chunk
        )
        episodes = jnp.sum(metrics["training/episodes"])
        means = {name: jnp.mean(value) for name, value in metrics.items()}
        for name in ("training/return", "training/length"):
            means[name] = jnp.where(episodes > 0, jnp.sum(metrics[name]) / episodes, jnp.nan)
        means["training/episodes"] = episodes
        return state, with_usual_return(means, self.environments)

    def iteration(self, state: State[OwnT], variant: TracedConfig) -> tuple[State[OwnT], Metrics]:
        """Roll the policy out and update it."""
        key_rollout, key_epochs = jax.random.split(jax.random.fold_in(state.key, state.iteration))
        episodes, normalizer, rollout = self.rollout(state, key_rollout, variant)
        state, metrics = self.learn(state, rollout, self.draws(key_epochs, variant), variant)
        if self.statistics != PER_BATCH:
            state = state._replace(normalizer=normalizer)
        state = state._replace(episodes=episodes, iteration=state.iteration + 1)
        metrics = {name: jnp.mean(value) for name, value in metrics.items()}
        return state, metrics | finished_episodes(rollout.outcome)

    def rollout(
        self, state: State[OwnT], key: Array, variant: TracedConfig
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
        self, normalizer: Normalizer, observation: Array, variant: TracedConfig
    ) -> tuple[Normalizer, Normalizer]:
        """Return the statistics that normalise a batch for learning, and the statistics after it.

        observation: [T, N, O], of the batch. With "before", as in Brax, the inputs of learning
        differ from the inputs of acting.
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

    def acting(self, variant: TracedConfig) -> dict[str, Array]:
        """Return the numbers that a policy needs to act.

        They may contain "normalized", 0 without observation normalisation.
        """
        read = [n for axis in self.ACTING for n in variants.axis(axis)[self.fixed[axis]].numbers]
        numbers = {name: jnp.asarray(variant.numbers[name]) for name in read}
        # Except for bounded_std, empty statistics would change an observation by an epsilon.
        if self.fixed["observation_scaling"] != "bounded_std":
            none = matches("observation_normalization", variant, "none")
            numbers["normalized"] = 1.0 - jnp.asarray(none, jnp.float32)
        return numbers

    def normalized(
        self, normalizer: Normalizer, observation: Array, numbers: Mapping[str, Array]
    ) -> Array:
        """Normalize observations [..., O] for the networks; numbers: from `acting`."""
        axis = variants.axis("observation_scaling")
        choice = axis[self.fixed[axis.name]]
        scaled: Array = axis.apply(
            choice.name,
            observation=observation,
            mean=normalizer.mean,
            variance=normalizer.spread,
            numbers={name: numbers[name] for name in choice.numbers},
        )
        if "normalized" in numbers:
            scaled = jnp.where(numbers["normalized"] > 0, scaled, observation)
        return scaled

    def progress(self, state: State[OwnT], variant: TracedConfig) -> Array:
        """Return the share of the run that is done."""
        return state.iteration.astype(jnp.float32) / variant.iterations

    def draws(self, key: Array, variant: TracedConfig) -> Draws:
        """Draw the randomness of an update."""
        keys = jax.vmap(jax.random.split)(jax.random.split(key, self.settings.epochs))
        split = partial(jax.random.split, num=self.settings.num_minibatches)
        of_losses = jax.vmap(split)(keys[:, 1])
        return Draws(self.order(keys[:, 0], variant), of_losses)

    def order(self, keys: Array, variant: TracedConfig) -> Array:
        """Assign samples to minibatches, by minibatch_unit and minibatch_order.

        Returns positions in the batch, row by row, int32 [epochs, minibatches, T, N/minibatches],
        or [epochs, minibatches, 1, T·N/minibatches] if minibatches does not divide N. With segments
        each column is one environment's. keys: one per epoch.
        """
        T, N = self.settings.unroll_length, self.environments.num_envs
        shape = (self.settings.epochs, self.settings.num_minibatches)

        def segments() -> Array:
            columns = orders(keys, N, variant).reshape(*shape, 1, -1)
            return columns + N * jnp.arange(T)[:, None]

        def transitions() -> Array:
            rows = T if N % self.settings.num_minibatches == 0 else 1
            return orders(keys, T * N, variant).reshape(*shape, rows, -1)

        return switch("minibatch_unit", variant, {"segments": segments, "transitions": transitions})

    def evaluate(self, state: State[OwnT], variant: TracedConfig, key: Array) -> Metrics:
        """Play one episode of the policy's mode per evaluation environment."""
        act = partial(self.act, self.policy(state))
        return whole_episodes(self.evaluation_environments, act, key)

    def policy(self, state: State[OwnT]) -> Policy:
        """Return the policy to save."""
        return {
            "parameters": state.parameters,
            "normalizer": statistics.pooled(state.normalizer),
            "numbers": dict(state.acting),
        }


def fixed_choices(
    axes: Mapping[str, str], settings: RolloutSettings, program: Program[EpisodeSettings]
) -> dict[str, str]:
    """Return axis -> compiled-in choice; axes: axis -> default choice."""
    fixed = {axis: choice for axis, choice in axes.items() if variants.axis(axis).structural}
    return (
        fixed
        | dict.fromkeys(compiles(vars(settings)), "transitions")
        | dict(program.get("choices", {}))
    )


# Batches and episodes


def take(batch: Batch, index: Array) -> Batch:
    """Gather the positions `index` of every leaf [T, N, ...], counted row by row."""
    taken: Batch = jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]).at[index].get(mode="promise_in_bounds"), batch
    )
    return taken


def scaled_rewards(state: Tree, outcome: Outcome, variant: TracedConfig) -> tuple[Tree, Array]:
    """Return the next state of `reward_scaling`, and scaled rewards [T, N]."""
    state, rewards = apply(
        "reward_scaling",
        variant,
        state,
        rewards=outcome.reward,
        termination=outcome.termination.astype(jnp.float32),
        truncation=outcome.truncation.astype(jnp.float32),
    )
    return state, rewards


def finished_episodes(outcome: Outcome) -> Metrics:
    """Return the number of finished episodes, their summed returns and their summed lengths."""
    finished = outcome.finished
    return {
        "training/episodes": jnp.sum(finished.astype(jnp.float32)),
        "training/return": jnp.sum(jnp.where(finished, outcome.reward_sum, 0.0)),
        "training/length": jnp.sum(jnp.where(finished, outcome.length, 0).astype(jnp.float32)),
        "training/reward_per_step": jnp.mean(outcome.reward),
    }


def whole_episodes(
    environments: Environments, act: Callable[..., Array], key: Array, counted: bool = False
) -> Metrics:
    """Play one episode per environment.

    act: observations [N, O] -> actions [N, A]. counted: whether act also takes the step, a uint32.
    """
    zeros = jnp.zeros(environments.num_envs)
    first = (jnp.uint32(0),) if counted else ()

    def step(now: Evaluation) -> Evaluation:
        episodes, active, reward_sum, length, *count = now
        episodes, outcome = environments.step(episodes, act(episodes.observation, *count))
        return (
            episodes,
            active & ~outcome.finished,
            jnp.where(active, outcome.reward_sum, reward_sum),
            jnp.where(active, outcome.length.astype(jnp.float32), length),
            *(n + 1 for n in count),
        )

    start = (environments.reset(key), zeros == 0.0, zeros, zeros, *first)
    _, _, reward_sum, length, *_ = jax.lax.while_loop(lambda now: jnp.any(now[1]), step, start)
    return with_usual_return(
        {
            "evaluation/return": jnp.mean(reward_sum),
            "evaluation/return_std": jnp.std(reward_sum),
            "evaluation/length": jnp.mean(length),
        },
        environments,
    )


def with_usual_return(metrics: Metrics, environments: Environments) -> Metrics:
    """Add <prefix>/usual_return = R + unpaid·length, the return under the task's usual settings.

    Without unpaid rewards the metrics stay the same.
    """
    if not environments.unpaid:
        return metrics
    usual = {
        name.replace("/return", "/usual_return"): value
        + environments.unpaid * metrics[name.replace("/return", "/length")]
        for name, value in metrics.items()
        if name.endswith("/return")
    }
    return metrics | usual

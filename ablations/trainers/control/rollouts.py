"""Training on rollouts: the settings, the loop and the state that PPO and PQN share.

A chunk is a scan over iterations. An iteration rolls the policy out in all environments, then a
trainer's `learn` passes over what was collected, `epochs` times, in minibatches.

All randomness comes from the seed's key and the number of the iteration, never from the variant. So
one seed gives every variant the same initial networks, resets, sampling noise and minibatches.
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
from ablations.trainers.trainer import Metrics, Program, TracedConfig, Trainer, Tree
from variants.observation_statistics import PER_BATCH

OwnT = TypeVar("OwnT")
KeptT = TypeVar("KeptT")
Batch = TypeVar("Batch")
# (normalised observations [N, O], noise of one step) -> (actions, what is kept of them).
Choose: TypeAlias = Callable[[jax.Array, Tree], tuple[jax.Array, KeptT]]
# Episodes, which of them count, returns and lengths so far, the number of the step if asked for.
Evaluation: TypeAlias = tuple[Episodes, jax.Array, jax.Array, jax.Array, *tuple[jax.Array, ...]]


# Settings


@dataclass(frozen=True, kw_only=True)
class RolloutSettings(StepSettings):
    """Hyperparameters of every trainer of control tasks; see `spec.component`."""

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
    """Declare one of these static settings with another default."""
    described = RolloutSettings.__dataclass_fields__[name].metadata["about"]
    return static(default, described.summary, described.allowed, low=described.low)


def unread_on(task: Task) -> dict[str, str]:
    """Return the options that no trainer reads on a task, and why."""
    unread: dict[str, str] = {}
    if task.fresh:
        unread["reset_pool"] = f"every episode of {task.name} starts from a reset of its own"
    if not task.image:
        unread["filters"] = f"observations of {task.name} are no images"
    return unread


def compiles(structure: Mapping[str, Any]) -> tuple[str, ...]:
    """Return axes whose choice is compiled in: segments without equal parts cannot be traced."""
    return ("minibatch_unit",) if structure["num_envs"] % structure["num_minibatches"] else ()


def iteration_steps(structure: Mapping[str, Any]) -> int:
    """Return the environment steps of one iteration."""
    steps: int = structure["num_envs"] * structure["unroll_length"]
    return steps


def check(
    *,
    structure: Mapping[str, Any],
    settings: EpisodeSettings,
    numbers: Mapping[str, float] | None = None,
) -> list[str]:
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
            "task of control (`ablations list tasks`), or give yours that setting"
        )
    elif settings["episode_length"] < 1:
        complaints.append(f"episode_length={settings['episode_length']} is too small: at least 1")
    return complaints


# State


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


class Draws(NamedTuple):
    """The randomness of an update: for each epoch, for each minibatch.

    order: int32 [epochs, minibatches, T, M], places in the batch, row by row. key: for its loss.
    """

    order: jax.Array
    key: jax.Array


# The loop


@dataclass(frozen=True, kw_only=True)
class RolloutTrainer(ABC, Generic[OwnT, KeptT]):
    """The functions of a trainer, closed over one task and its static settings.

    fixed: axis -> the choice that is compiled in instead of the variant's, structural ones always.
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
        """Return the trainer of one task.

        `reset_group_size` (1) and `random_elapsed_steps` (True) are read where the task has them.
        """
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
    def initial_parameters(self, key: jax.Array, variant: TracedConfig) -> Tree:
        """Initialize the networks."""

    @abstractmethod
    def initial_own(self, learner: Learner, variant: TracedConfig) -> OwnT:
        """Return `State.own` before the first iteration."""

    @abstractmethod
    def noise(self, key: jax.Array) -> Tree:
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
    def act(
        self, policy: Policy, observation: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Return actions on observations [..., O] as the environment gives them.

        They are the mode of the policy, or a sample with a key.
        """

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

    def init(self, key: jax.Array, variant: TracedConfig) -> State[OwnT]:
        """Initialize networks, environments and optimiser.

        Of a variant only its choices about initialization change the networks. Nothing of it
        changes the environments.
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
        """Run `updates_per_chunk` iterations. Metrics are means over them, or over episodes."""
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
        self, state: State[OwnT], key: jax.Array, variant: TracedConfig
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
        self, normalizer: Normalizer, observation: jax.Array, variant: TracedConfig
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

    def acting(self, variant: TracedConfig) -> dict[str, jax.Array]:
        """Return the numbers that a policy needs to act.

        Among them is "normalized", 0 where observations are not.
        """
        read = [n for axis in self.ACTING for n in variants.axis(axis)[self.fixed[axis]].numbers]
        numbers = {name: jnp.asarray(variant.numbers[name]) for name in read}
        # Statistics without data leave an observation as it is, but for an epsilon.
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

    def progress(self, state: State[OwnT], variant: TracedConfig) -> jax.Array:
        """Return the share of the run that is done."""
        return state.iteration.astype(jnp.float32) / variant.iterations

    def draws(self, key: jax.Array, variant: TracedConfig) -> Draws:
        """Draw the randomness of an update, ahead of it."""
        keys = jax.vmap(jax.random.split)(jax.random.split(key, self.settings.epochs))
        split = partial(jax.random.split, num=self.settings.num_minibatches)
        of_losses = jax.vmap(split)(keys[:, 1])
        return Draws(self.order(keys[:, 0], variant), of_losses)

    def order(self, keys: jax.Array, variant: TracedConfig) -> jax.Array:
        """Sample the permutations that assign samples to minibatches, by minibatch_unit.

        They are int32 [epochs, minibatches, T, N/minibatches], places in the batch, row by row;
        [epochs, minibatches, 1, T·N/minibatches] where that is no whole number. keys: of each
        epoch. Segments stay whole: each column of a minibatch is one environment's.
        """
        T, N = self.settings.unroll_length, self.environments.num_envs
        shape = (self.settings.epochs, self.settings.num_minibatches)

        def segments() -> jax.Array:
            columns = orders(keys, N, variant).reshape(*shape, 1, -1)
            return columns + N * jnp.arange(T)[:, None]

        def transitions() -> jax.Array:
            rows = T if N % self.settings.num_minibatches == 0 else 1
            return orders(keys, T * N, variant).reshape(*shape, rows, -1)

        return switch("minibatch_unit", variant, {"segments": segments, "transitions": transitions})

    def evaluate(self, state: State[OwnT], variant: TracedConfig, key: jax.Array) -> Metrics:
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


def fixed_choices(
    axes: Mapping[str, str], settings: RolloutSettings, program: Program[EpisodeSettings]
) -> dict[str, str]:
    """Return axis -> the choice that is compiled in; axes: with their defaults."""
    fixed = {axis: choice for axis, choice in axes.items() if variants.axis(axis).structural}
    return (
        fixed
        | dict.fromkeys(compiles(vars(settings)), "transitions")
        | dict(program.get("choices", {}))
    )


# Batches and episodes


def take(batch: Batch, index: jax.Array) -> Batch:
    """Gather the places `index` of every leaf [T, N, ...], counted row by row."""
    taken: Batch = jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]).at[index].get(mode="promise_in_bounds"), batch
    )
    return taken


def scaled_rewards(state: Tree, outcome: Outcome, variant: TracedConfig) -> tuple[Tree, jax.Array]:
    """Return the next state of `reward_scaling`, and rewards [T, N] as the learner sees them."""
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
    """Return the number of finished episodes, and their summed returns and lengths.

    `RolloutTrainer.chunk` divides them.
    """
    finished = outcome.finished
    return {
        "training/episodes": jnp.sum(finished.astype(jnp.float32)),
        "training/return": jnp.sum(jnp.where(finished, outcome.reward_sum, 0.0)),
        "training/length": jnp.sum(jnp.where(finished, outcome.length, 0).astype(jnp.float32)),
        "training/reward_per_step": jnp.mean(outcome.reward),
    }


def whole_episodes(
    environments: Environments, act: Callable[..., jax.Array], key: jax.Array, counted: bool = False
) -> Metrics:
    """Play one whole episode per environment.

    act: observations [N, O] -> actions [N, A]. counted: it takes the number of the step, a uint32,
    too.
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
    """Add the mean return that the usual settings of the task pay for the same episodes.

    Where these settings pay another it is R + unpaid·length, as <where>/usual_return.
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

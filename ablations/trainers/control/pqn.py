"""Parallelised Q-network (Gallici et al. 2025): Q-learning on rollouts, without a replay buffer.

Read it from top to bottom: the settings; `PQN.choose`, which takes the best action by Q or a random
one; `PQN.learn`, which makes passes in minibatches towards targets that are computed once.
`RolloutTrainer` is the loop around an update, `optimizer.descend` takes a gradient step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias, Unpack

import jax
import jax.numpy as jnp

from ablations.environments import Discrete, adapted
from ablations.tasks.task import EpisodeSettings, Task
from ablations.trainers import optimizer
from ablations.trainers.choices import apply, switch, where
from ablations.trainers.control import rollouts
from ablations.trainers.control.networks import ACTIVATIONS, MLP, QNetwork, start_of
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.control.rollouts import Draws, Policy, Rollout, State
from ablations.trainers.optimizer import Divergence, Learner
from ablations.trainers.spec import TrainerSpec, component, number, number_default, static
from ablations.trainers.trainer import Array, Metrics, Program, TracedConfig, Tree


@dataclass(frozen=True, kw_only=True)
class Settings(rollouts.RolloutSettings):
    """Hyperparameters of PQN.

    The defaults come from PureJaxQL's configuration of CartPole (config/alg/pqn_cartpole.yaml),
    except q_return, which follows the paper, and q_truncation.
    """

    q_return: str = component("peng")
    q_truncation: str = component("bootstrap")
    q_target: str = component("none")
    exploration: str = component("linear")
    value_error: str = component("squared")
    gradient_clip: str = component("global_norm")
    learning_rate_schedule: str = component("linear_per_step")
    learning_rate_warmup: str = component("none")
    observation_normalization: str = component("none")
    observation_statistics: str = component("per_batch")
    observation_scaling: str = component("bounded_std")
    reward_scaling: str = component("constant")
    minibatch_unit: str = component("transitions")
    minibatch_order: str = component("redrawn")
    network_init: str = component("lecun_normal")
    bias_init: str = component("zeros")
    network_normalization: str = component("both")
    optimizer: str = component("radam")
    optimizer_reset: str = component("none")
    weight_regularization: str = component("none")

    learning_rate: float = number(1e-4, 0.0, 1.0, "step size of the optimiser")
    value_coefficient: float = number(0.5, 0.0, 1e6, "factor on the mean error of Q values")
    value_init_scale: float = number(1.0, 0.0, 1e3, "factor on the last layer at the start")
    value_hidden_gain: float = number(
        math.sqrt(2.0), 0.0, 1e3, "gain of hidden layers with network_init=orthogonal, he_normal"
    )
    discount: float = number_default(0.99)
    max_gradient_norm: float = number_default(10.0)

    num_envs: int = rollouts.option("num_envs", 32)
    unroll_length: int = rollouts.option("unroll_length", 64)
    num_minibatches: int = rollouts.option("num_minibatches", 16)
    activation: str = rollouts.option("activation", "relu")
    value_layers: tuple[int, ...] = static((256, 256), "hidden layers of the network of Q values")


def refuses(task: Task) -> list[str]:
    """Return reasons why PQN cannot train on a task."""
    if task.discrete:
        return []
    return [
        f"pqn needs a few discrete actions, which task '{task.name}' does not have: choose one "
        f"such as cartpole"
    ]


class Batch(NamedTuple):
    """Samples of one rollout: normalised observations [..., O], actions and targets [...]."""

    observation: Array
    action: Array
    target: Array


def epsilon_greedy(values: Array, noise: Array, epsilon: Array) -> Array:
    """Return actions [...]: the best by values [..., A], or with probability epsilon a random one.

    noise: uniform in [0, 1) [..., 2], for whether the action is random, and for which.
    """
    count = values.shape[-1]
    random = jnp.minimum(jnp.floor(noise[..., 1] * count).astype(jnp.int32), count - 1)
    best = jnp.argmax(values, axis=-1).astype(jnp.int32)
    return jnp.where(noise[..., 0] < epsilon, random, best)


def taken(values: Array, action: Array) -> Array:
    """Select the values [...] of the actions [...] from values [..., A]."""
    # A sum instead of a gather, whose gradient would be a scatter.
    return jnp.sum(values * jax.nn.one_hot(action, values.shape[-1], dtype=values.dtype), axis=-1)


class Carried(NamedTuple):
    """State of PQN, beside `rollouts.State`. target: parameters of the target network."""

    target: Tree


PQNState: TypeAlias = State[Carried]


@dataclass(frozen=True, kw_only=True)
class PQN(rollouts.RolloutTrainer[Carried, Array]):
    """The functions of PQN for a task and static settings; a rollout keeps actions [T, N]."""

    ACTING = ("observation_scaling",)

    network: QNetwork

    def initial_parameters(self, key: Array, variant: TracedConfig) -> Tree:
        """Initialize the network of Q values."""
        return self.network.init(key, start_of(variant))

    def initial_own(self, learner: Learner, variant: TracedConfig) -> Carried:
        """Return the state before the first iteration."""
        # A copy, since a compiled chunk overwrites each array of its input once.
        return Carried(target=jax.tree.map(jnp.copy, learner.parameters))

    def acting(self, variant: TracedConfig) -> dict[str, Array]:
        """Return the numbers that a policy needs to act: with a key it uses epsilon_end."""
        return super().acting(variant) | {
            "epsilon_end": jnp.asarray(variant.numbers["epsilon_end"])
        }

    def epsilon(self, state: PQNState, variant: TracedConfig) -> Array:
        """Return the probability of a random action in each environment, [N]."""
        count = self.environments.num_envs
        epsilon: Array = apply(
            "exploration",
            variant,
            progress=self.progress(state, variant),
            place=jnp.arange(count) / max(count - 1, 1),
        )
        return epsilon

    def noise(self, key: Array) -> Array:
        """Draw the noise of a rollout, uniform [T, N, 2]."""
        return jax.random.uniform(key, (self.settings.unroll_length, self.environments.num_envs, 2))

    def choose(self, state: PQNState, variant: TracedConfig) -> rollouts.Choose[Array]:
        """Return the function that chooses the best actions by Q, or random ones."""
        epsilon = self.epsilon(state, variant)

        def choose(seen: Array, noise: Array) -> tuple[Array, Array]:
            action = epsilon_greedy(self.network.values(state.parameters, seen), noise, epsilon)
            return action, action

        return choose

    def learn(
        self, state: PQNState, rollout: Rollout[Array], draws: Draws, variant: TracedConfig
    ) -> tuple[PQNState, Metrics]:
        """Run `epochs` epochs of minibatch SGD on one rollout; metrics [epochs, minibatches]."""
        current, normalizer = self.batch_statistics(state.normalizer, rollout.observation, variant)
        reward_scaling, reward = rollouts.scaled_rewards(
            state.reward_scaling, rollout.outcome, variant
        )
        observation = rollout.seen
        if observation is None:
            observation = self.normalized(current, rollout.observation, state.acting)
        targets = self.targets(state, rollout, observation, reward, current, variant)
        batch = Batch(observation, rollout.kept, targets)
        progress = self.progress(state, variant)

        def step(learner: Learner, index: Array) -> tuple[Learner, Metrics]:
            return self.gradient_step(learner, rollouts.take(batch, index), progress, variant)

        learner, metrics = jax.lax.scan(
            lambda now, order: jax.lax.scan(step, now, order),
            optimizer.begin(state.learner, self.rule),
            draws.order,
        )
        share = apply("q_target", variant, updates=state.iteration.astype(jnp.float32) + 1.0)
        followed = jax.tree.map(
            lambda t, p: t + share * (p - t), state.own.target, learner.parameters
        )
        metrics["training/epsilon"] = self.epsilon(state, variant)
        state = state._replace(
            learner=optimizer.end(learner),
            reward_scaling=reward_scaling,
            normalizer=normalizer,
            own=Carried(target=where(share >= 1.0, learner.parameters, followed)),
        )
        return state, metrics

    def targets(
        self,
        state: PQNState,
        rollout: Rollout[Array],
        observation: Array,
        reward: Array,
        normalizer: Normalizer,
        variant: TracedConfig,
    ) -> Array:
        """Return the targets [T, N] of the actions taken, by the target network.

        observation: [T, N, O], normalised. reward: [T, N], scaled.
        """
        outcome = rollout.outcome
        normalized = partial(self.normalized, normalizer, numbers=state.acting)

        def best(observation: Array) -> Array:
            return jnp.max(self.network.values(state.own.target, observation), axis=-1)

        def next_values() -> Array:
            seen = rollout.next_seen
            return best(normalized(outcome.next_observation) if seen is None else seen)

        def seen_values() -> Array:
            last = normalized(rollout.last_observation)
            return best(jnp.concatenate([observation[1:], last[None]]))

        def greedy() -> Array:
            values = self.network.values(state.own.target, observation)
            return jnp.argmax(values, axis=-1) == rollout.kept

        def terminal() -> tuple[Array, Array]:
            return outcome.termination | outcome.truncation, jnp.zeros_like(outcome.truncation)

        termination, truncation = switch(
            "q_truncation",
            variant,
            {"bootstrap": lambda: (outcome.termination, outcome.truncation), "terminal": terminal},
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
        self, learner: Learner, batch: Batch, progress: Array, variant: TracedConfig
    ) -> tuple[Learner, Metrics]:
        """Take one step down the gradient of the mean error between Q values and targets."""

        def loss(parameters: Tree) -> tuple[Array, Metrics]:
            value = taken(self.network.values(parameters, batch.observation), batch.action)
            error = apply(
                "value_error", variant, values=value.reshape(-1), targets=batch.target.reshape(-1)
            )
            total = variant.numbers["value_coefficient"] * jnp.mean(error)
            means = {"value/mean": jnp.mean(value), "value/target_mean": jnp.mean(batch.target)}
            return total, {"loss/total": total, **means}

        gradient, metrics = jax.grad(loss, has_aux=True)(learner.parameters)
        learner, step = optimizer.descend(
            learner,
            gradient,
            # Rules refuse choices that read it.
            divergence=Divergence(jnp.float32(jnp.nan)),
            progress=progress,
            steps=self.settings.epochs * self.settings.num_minibatches,
            variant=variant,
            rule=self.rule,
        )
        return learner, metrics | step

    def act(self, policy: Policy, observation: Array, key: Array | None = None) -> Array:
        """Return the best actions by Q on raw observations [..., O]; with a key, epsilon-greedy."""
        numbers = policy["numbers"]
        seen = self.normalized(policy["normalizer"], observation, numbers)
        values = self.network.values(policy["parameters"], seen)
        if key is None:
            return jnp.argmax(values, axis=-1).astype(jnp.int32)
        noise = jax.random.uniform(key, (*values.shape[:-1], 2))
        return epsilon_greedy(values, noise, numbers["epsilon_end"])


def compose(**program: Unpack[Program[EpisodeSettings]]) -> PQN:
    """Compose PQN. Raise UserError for an environment that differs from the task's description."""
    task, settings = program["task"], Settings(**program["structure"])
    env = adapted(task.made(program["settings"]), task)
    assert isinstance(env.actions, Discrete), "`refuses` lets no other task through"
    fixed = rollouts.fixed_choices(SPEC.axes, settings, program)
    net = MLP(
        (*settings.value_layers, env.actions.choices),
        activation=ACTIVATIONS[settings.activation],
        normalized=fixed["network_normalization"] != "none",
        image=env.observations.image,
        filters=settings.filters,
    )
    network = QNetwork(net, env.observations)
    return PQN.of(env, fixed, settings, program, network=network)


SPEC = TrainerSpec(
    name="pqn",
    summary="parallelised Q-learning without a replay buffer, on tasks with a few actions",
    hyperparameters=Settings,
    unread=lambda resolved: rollouts.unread_on(resolved.task),
    compiles=rollouts.compiles,
    make=lambda **program: compose(**program).trainer,
    iteration_steps=rollouts.iteration_steps,
    refuses=refuses,
    check=rollouts.check,
)

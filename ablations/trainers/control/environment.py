"""N parallel episodes: batched steps, truncation, reset, and the true last observation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ablations.environments import Environment, State, Step
from ablations.errors import UserError
from ablations.trainers.control.batching import vmap_trailing
from ablations.trainers.leaves import by_path, differences
from ablations.trainers.trainer import Array, Tree


def batched_step(env: Environment) -> Callable[[State, Array], tuple[State, Step]]:
    """Return `env.step` of N copies, whose states and actions have a leading [N]."""
    return (vmap_trailing if env.trailing else jax.vmap)(env.step)


def batched_reset(env: Environment) -> Callable[[Array], State]:
    """Return `env.reset` of N copies: keys [N] give states with a leading [N].

    On a CPU the resets run in sequence, which compiles faster.
    """
    on_cpu = jax.default_backend() == "cpu"
    return partial(jax.lax.map, env.reset) if on_cpu else jax.vmap(env.reset)


def _each(tree: Tree) -> Tree:
    """Return shapes and dtypes of arrays without their leading [N]."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x)[1:], jnp.result_type(x)), tree)


class Episodes(NamedTuple):
    """The running episodes of N environments.

    state: the environment's state, every leaf with a leading [N].
    first: physics and observation [N, O] after a reset; [N, P, ...] for a pool of P resets; the
        keys [N] of resets if every episode has a fresh reset.
    elapsed: int32 [N], steps until now; truncation at episode_length.
    whole: bool [N], False in a first episode that started with elapsed steps.
    length: int32 [N], steps of the running episode.
    reward_sum: float32 [N], its undiscounted return so far.
    place: int32 [N], position of the running episode in the pool, or its number with fresh resets;
        None otherwise.
    """

    state: State
    first: Tree
    elapsed: Array
    whole: Array
    length: Array
    reward_sum: Array
    place: Array | None = None

    @property
    def observation(self) -> Array:
        """Current observations [N, O]."""
        return self.state.observation


class Outcome(NamedTuple):
    """The outcome of one step of N environments.

    reward: float32 [N].
    termination: bool [N], the environment ended the episode.
    truncation: bool [N], the time limit ended it, and the step did not terminate.
    next_observation: [N, O], before any reset.
    finished: bool [N], a whole episode ended.
    length: int32 [N], reward_sum: float32 [N], of the episode including this step.
    """

    reward: Array
    termination: Array
    truncation: Array
    next_observation: Array
    finished: Array
    length: Array
    reward_sum: Array


@dataclass(frozen=True)
class Environments:
    """N copies of one environment.

    episode_length: steps until truncation.
    reset_group_size: number of neighbouring environments that share a reset, and the randomness of
        steps if it derives from the reset's key; divides num_envs.
    random_elapsed_steps: first episodes start with uniformly random elapsed steps, as in RSL-RL, so
        that episodes do not all end at the same step. These first episodes are trained on, but not
        counted as finished.
    reset_pool: number of resets per environment, drawn at the start: episode k starts from reset k
        mod reset_pool. 1: always the same reset, as in Brax's AutoResetWrapper. Not read with fresh
        resets. The resets of a smaller pool are the first ones of a larger pool.
    unpaid: reward per step that these settings leave out, see `Task.unpaid`.
    """

    env: Environment
    num_envs: int
    episode_length: int
    reset_group_size: int = 1
    random_elapsed_steps: bool = False
    reset_pool: int = 1
    unpaid: float = 0.0

    @property
    def num_groups(self) -> int:
        """Number of groups with one reset each."""
        return self.num_envs // self.reset_group_size

    @property
    def groups(self) -> Array:
        """Index of the reset of each environment, int32 [N]."""
        return jnp.arange(self.num_envs) // self.reset_group_size

    def reset(self, key: Array) -> Episodes:
        """Start all environments."""
        key_reset, key_elapsed = jax.random.split(key)
        keys = jax.random.split(key_reset, self.num_groups)
        state = batched_reset(self.env)(keys[self.groups])
        self._require("observation", state.observation, self.env.observations.size)
        first: Tree = (state.physics, state.observation)
        place = None
        if self.env.fresh:
            first, place = keys[self.groups], jnp.zeros(self.num_envs, jnp.int32)
        elif self.reset_pool > 1:
            first = self._pool(jax.random.fold_in(key, 2), first)
            place = jnp.zeros(self.num_envs, jnp.int32)
        zeros = jnp.zeros(self.num_envs, jnp.int32)
        elapsed = zeros
        if self.random_elapsed_steps:
            elapsed = jax.random.randint(key_elapsed, (self.num_envs,), 0, self.episode_length)
        return Episodes(
            state=state,
            first=first,
            elapsed=elapsed,
            whole=elapsed == 0,
            length=zeros,
            reward_sum=jnp.zeros(self.num_envs),
            place=place,
        )

    def _pool(self, key: Array, first: tuple[Tree, Array]) -> tuple[Tree, Array]:
        """Return physics and observations [N, reset_pool, ...], `first` [N, ...] at place 0."""
        places = jnp.arange(1, self.reset_pool)
        reset = batched_reset(self.env)

        def split(place: Array) -> Array:
            return jax.random.split(jax.random.fold_in(key, place), self.num_groups)

        later: State = jax.lax.map(lambda keys: reset(keys[self.groups]), jax.vmap(split)(places))
        physics, observation = jax.tree.map(
            lambda one, others: jnp.concatenate([one[:, None], jnp.moveaxis(others, 0, 1)], 1),
            first,
            (later.physics, later.observation),
        )
        return physics, observation

    def step(self, episodes: Episodes, action: Array) -> tuple[Episodes, Outcome]:
        """Step all environments by actions [N, A], and reset those whose episode ended."""
        after, given = self._stepped(episodes.state, action)
        self._require("observation", after.observation, self.env.observations.size)
        self._require("reward", given.reward)
        self._require("termination", given.termination)
        self._require_kept(episodes.state, after)

        reward = given.reward.astype(jnp.float32)
        termination = given.termination.astype(bool)
        elapsed = episodes.elapsed + 1
        truncation = (elapsed >= self.episode_length) & ~termination
        done = termination | truncation
        length = episodes.length + 1
        reward_sum = episodes.reward_sum + reward

        outcome = Outcome(
            reward=reward,
            termination=termination,
            truncation=truncation,
            next_observation=after.observation,
            finished=done & episodes.whole,
            length=length,
            reward_sum=reward_sum,
        )

        first, place = self._next(episodes, after, done)

        def restart(first: Array, now: Array) -> Array:
            return jnp.where(done.reshape(done.shape + (1,) * (now.ndim - 1)), first, now)

        physics, observation = jax.tree.map(restart, first, (after.physics, after.observation))
        running = Episodes(
            state=State(physics, observation, after.carried),
            first=episodes.first,
            elapsed=jnp.where(done, 0, elapsed),
            whole=episodes.whole | done,
            length=jnp.where(done, 0, length),
            reward_sum=jnp.where(done, 0.0, reward_sum),
            place=place,
        )
        return running, outcome

    def _stepped(self, state: State, action: Array) -> tuple[State, Step]:
        """Return the state after actions [N, A], and the step's results."""
        returned: Tree = batched_step(self.env)(state, action)
        pair = isinstance(returned, tuple | list) and len(returned) == 2
        if not (pair and isinstance(returned[0], State) and isinstance(returned[1], Step)):
            raise UserError(f"a step of {self._name} is to return a State and a Step")
        return returned[0], returned[1]

    def _require(self, name: str, array: Tree, *shape: int) -> None:
        """Raise UserError unless the array has the shape [N, *shape]."""
        each = jax.tree.map(jnp.shape, _each(array))
        if each != shape:
            raise UserError(f"{name} of {self._name} is {each}, and is to be {shape}")

    def _require_kept(self, before: State, after: State) -> None:
        """Raise UserError if a step changes the structure of the state."""
        if differing := differences(*(by_path(_each(state)) for state in (after, before))):
            raise UserError(f"a step of {self._name} changes what its reset returned: {differing}")

    @property
    def _name(self) -> str:
        return type(getattr(self.env, "env", self.env)).__name__

    def _next(
        self, episodes: Episodes, after: State, done: Array
    ) -> tuple[tuple[Tree, Array], Array | None]:
        """Return physics and observation [N, ...] of the next resets, and their `place`.

        after: the state after the step, returned instead of fresh resets if no episode is done,
            since a reset takes longer than a step.
        """
        if episodes.place is None:
            return episodes.first, None
        place = jnp.where(done, episodes.place + 1, episodes.place)
        if self.env.fresh:

            def fresh() -> tuple[Tree, Array]:
                keys = jax.vmap(jax.random.fold_in)(episodes.first, place)
                state = jax.vmap(self.env.reset)(keys)
                return state.physics, state.observation

            now = (after.physics, after.observation)
            return jax.lax.cond(jnp.any(done), fresh, lambda: now), place
        place %= self.reset_pool
        pool = episodes.first
        return jax.tree.map(lambda x: x[jnp.arange(self.num_envs), place], pool), place

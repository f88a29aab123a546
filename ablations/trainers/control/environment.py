"""N episodes at once: batched steps, truncation, automatic reset, and the true last observation."""

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
from ablations.trainers.trainer import Tree


def batched_step(env: Environment) -> Callable[[State, jax.Array], tuple[State, Step]]:
    """Return `env.step` of N copies, whose states and actions have a leading [N]."""
    return (vmap_trailing if env.trailing else jax.vmap)(env.step)


def batched_reset(env: Environment) -> Callable[[jax.Array], State]:
    """Return `env.reset` of N copies: keys [N] give states with a leading [N].

    One after the other on a CPU: the program compiles faster, and runs once for a cell and for an
    evaluation.
    """
    on_cpu = jax.default_backend() == "cpu"
    return partial(jax.lax.map, env.reset) if on_cpu else jax.vmap(env.reset)


def _each(tree: Tree) -> Tree:
    """Return the form of each copy in arrays with a leading [N]."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x)[1:], jnp.result_type(x)), tree)


class Episodes(NamedTuple):
    """The running episodes of N environments.

    state: the environment's state, every leaf with a leading [N].
    first: the physics and the observation [N, O] to which an episode's end returns; [N, P, ...]
        where each environment has a pool of P resets; the key [N] of its resets where every episode
        starts from a fresh one.
    elapsed: int32 [N], steps on the clock; truncation comes when it reaches episode_length.
    whole: bool [N], False in a first episode that started with time on its clock.
    length: int32 [N], steps of the running episode.
    reward_sum: float32 [N], its undiscounted return so far.
    place: int32 [N], where in the pool the running episode started, or its number where resets are
        fresh; None without either.
    """

    state: State
    first: Tree
    elapsed: jax.Array
    whole: jax.Array
    length: jax.Array
    reward_sum: jax.Array
    place: jax.Array | None = None

    @property
    def observation(self) -> jax.Array:
        """Observations [N, O] that the policy sees now."""
        return self.state.observation


class Outcome(NamedTuple):
    """The outcome of one step of N environments.

    reward: float32 [N].
    termination: bool [N], the episode ended in itself.
    truncation: bool [N], the clock ran out; never where the same step terminates.
    next_observation: [N, O], the true next one, before any reset.
    finished: bool [N], a whole episode ended here.
    length: int32 [N] and reward_sum: float32 [N] of the episode so far, this step included.
    """

    reward: jax.Array
    termination: jax.Array
    truncation: jax.Array
    next_observation: jax.Array
    finished: jax.Array
    length: jax.Array
    reward_sum: jax.Array


@dataclass(frozen=True)
class Environments:
    """N copies of one environment.

    episode_length: steps until truncation.
    reset_group_size: so many neighbouring environments share one reset, and the randomness of their
        steps where the environment draws some from its reset's key; divides num_envs.
    random_elapsed_steps: clocks start uniformly in [0, episode_length) instead of at 0, as in
        RSL-RL, so that environments that never terminate do not all end their episodes at the same
        step. These shortened first episodes are trained on, but are not counted as finished.
    reset_pool: so many resets of each environment, drawn at the start, are taken in turn: episode k
        starts from reset k mod reset_pool. 1: every episode starts from the first, as in Brax's
        AutoResetWrapper. A larger pool goes on where a smaller one begins anew. Not read where
        resets are fresh.
    unpaid: reward per step that the task usually pays and here does not; `Task.unpaid`.
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
        """Number of environments, or groups of them, that have resets of their own."""
        return self.num_envs // self.reset_group_size

    @property
    def groups(self) -> jax.Array:
        """Index of the reset that each environment has, int32 [N]."""
        return jnp.arange(self.num_envs) // self.reset_group_size

    def reset(self, key: jax.Array) -> Episodes:
        """Start all environments, as the key alone decides."""
        key_reset, key_elapsed = jax.random.split(key)
        keys = jax.random.split(key_reset, self.num_groups)
        state = batched_reset(self.env)(keys[self.groups])
        self._require("observation", state.observation, self.env.observations.size)
        first: Tree = (state.physics, state.observation)
        place = None
        if self.env.fresh:
            first, place = keys[self.groups], jnp.zeros(self.num_envs, jnp.int32)
        elif self.reset_pool > 1:
            # A third key beside the two above
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

    def _pool(self, key: jax.Array, first: tuple[Tree, jax.Array]) -> tuple[Tree, jax.Array]:
        """Return physics and observations [N, reset_pool, ...], `first` [N, ...] at place 0."""
        places = jnp.arange(1, self.reset_pool)
        reset = batched_reset(self.env)

        def split(place: jax.Array) -> jax.Array:
            return jax.random.split(jax.random.fold_in(key, place), self.num_groups)

        later: State = jax.lax.map(lambda keys: reset(keys[self.groups]), jax.vmap(split)(places))
        physics, observation = jax.tree.map(
            lambda one, others: jnp.concatenate([one[:, None], jnp.moveaxis(others, 0, 1)], 1),
            first,
            (later.physics, later.observation),
        )
        return physics, observation

    def step(self, episodes: Episodes, action: jax.Array) -> tuple[Episodes, Outcome]:
        """Step all environments by actions [N, A].

        Those that end start again, as `first` has it.
        """
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

        def restart(first: jax.Array, now: jax.Array) -> jax.Array:
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

    def _stepped(self, state: State, action: jax.Array) -> tuple[State, Step]:
        """Return the state after actions [N, A], and what they gave."""
        returned: Tree = batched_step(self.env)(state, action)
        pair = isinstance(returned, tuple | list) and len(returned) == 2
        if not (pair and isinstance(returned[0], State) and isinstance(returned[1], Step)):
            raise UserError(f"a step of {self._name} is to return a State and a Step")
        return returned[0], returned[1]

    def _require(self, name: str, array: Tree, *shape: int) -> None:
        """Raise UserError for an array [N, ...] whose shape in each environment is another."""
        each = jax.tree.map(jnp.shape, _each(array))
        if each != shape:
            raise UserError(f"{name} of {self._name} is {each}, and is to be {shape}")

    def _require_kept(self, before: State, after: State) -> None:
        """Raise UserError for a step after which the state has another form than before."""
        if differing := differences(*(by_path(_each(state)) for state in (after, before))):
            raise UserError(f"a step of {self._name} changes what its reset returned: {differing}")

    @property
    def _name(self) -> str:
        return type(getattr(self.env, "env", self.env)).__name__

    def _next(
        self, episodes: Episodes, after: State, done: jax.Array
    ) -> tuple[tuple[Tree, jax.Array], jax.Array | None]:
        """Return physics and observation [N, ...] of the next resets, and their `place`.

        after: the state of this step. Fresh resets take longer than most steps, so where no episode
        is done none is made, and what is returned is no reset.
        """
        if episodes.place is None:
            return episodes.first, None
        place = jnp.where(done, episodes.place + 1, episodes.place)
        if self.env.fresh:

            def fresh() -> tuple[Tree, jax.Array]:
                keys = jax.vmap(jax.random.fold_in)(episodes.first, place)
                state = jax.vmap(self.env.reset)(keys)
                return state.physics, state.observation

            now = (after.physics, after.observation)
            return jax.lax.cond(jnp.any(done), fresh, lambda: now), place
        place %= self.reset_pool
        pool = episodes.first
        return jax.tree.map(lambda x: x[jnp.arange(self.num_envs), place], pool), place

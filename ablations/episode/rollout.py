"""Runs an episode of a policy and stores frames and rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ablations.environments.brax import BraxState, flat
from ablations.environments.gymnax import GymnaxEnvironment
from ablations.episode.scene import poses
from ablations.errors import UserError
from ablations.tasks.task import Environment
from ablations.trainers import Tree

Act = Callable[..., jax.Array]
Strong = TypeVar("Strong")


class Played(NamedTuple):
    """An environment's state, the part that a picture needs, and the results of the last step.

    `observation` is [O]; `reward` and `done` are scalars.
    """

    state: Tree
    frame: Tree
    observation: jax.Array
    reward: jax.Array
    done: jax.Array


@dataclass(frozen=True)
class Episode:
    """T steps from a reset.

    Attributes:
        frames: from the reset, with leaves [T + 1, ...]: positions [T + 1, B, 3] in metres and
            rotations [T + 1, B, 4] (quaternions, w first) of B bodies, or Gymnax's states.
        rewards: float32 [T].
        end: "terminated", "length" at the time limit, or "not finite" if the physics broke; then
            the frames before are kept.
    """

    frames: Tree
    rewards: np.ndarray
    end: str

    @property
    def positions(self) -> np.ndarray:
        """Positions of bodies, in metres, float32."""
        return np.asarray(self.frames[0], np.float32)

    @property
    def rotations(self) -> np.ndarray:
        """Rotations of bodies, quaternions with w first, float32."""
        return np.asarray(self.frames[1], np.float32)


def episodes(
    env: Environment, policies: Sequence[Act], seed: int, length: int
) -> Iterator[Episode]:
    """Yield an episode of each policy, all from the same reset.

    Args:
        env: an unbatched environment with Brax's interface and bodies (see
            `ablations.episode.scene`), or an adapted Gymnax environment.
        policies: policy(observation [O], key=None) -> action [A]; without a key it is the mode.
        seed: of the reset.
        length: most steps.
    """
    reset, step = _of_gymnax(env) if isinstance(env, GymnaxEnvironment) else _of_bodies(env)
    # The environment, which is slow to compile, is compiled once for all policies.
    step = jax.jit(step)
    first = jax.jit(reset)(jax.random.key(seed))
    for policy in policies:
        act = jax.jit(lambda observation, act=policy: _strong(act(observation)))
        yield _episode(step, act, first, length)


Reset = Callable[[jax.Array], Played]
Step = Callable[[Played, jax.Array], Played]


def _of_bodies(env: Environment) -> tuple[Reset, Step]:
    def played(state: BraxState) -> Played:
        return _strong(Played(state, poses(state), flat(state.obs), state.reward, state.done))

    return lambda key: played(env.reset(key)), lambda at, action: played(env.step(at.state, action))


def _of_gymnax(env: GymnaxEnvironment) -> tuple[Reset, Step]:
    def reset(key: jax.Array) -> Played:
        state = env.reset(key)
        nothing = jnp.zeros((), jnp.float32), jnp.zeros((), bool)
        return _strong(Played(state, state.physics, state.observation, *nothing))

    def step(at: Played, action: jax.Array) -> Played:
        state, given = env.step(at.state, action)
        ends = given.termination
        return _strong(Played(state, state.physics, state.observation, given.reward, ends))

    return reset, step


def _strong(tree: Strong) -> Strong:
    """Return a pytree without weak types, which would cause another compilation."""
    strong: Strong = jax.tree.map(
        lambda x: x.astype(x.dtype) if getattr(x, "weak_type", False) else x, tree
    )
    return strong


def _episode(step: Step, act: Act, at: Played, length: int) -> Episode:
    frames = [jax.device_get(at.frame)]
    rewards = []
    end = "length"
    for _ in range(length):
        at = step(at, act(at.observation))
        frame, reward, done = jax.device_get((at.frame, at.reward, at.done))
        if not all(np.isfinite(values).all() for values in (*jax.tree.leaves(frame), reward)):
            end = "not finite"
            break
        frames.append(frame)
        rewards.append(reward)
        if done:
            end = "terminated"
            break
    if not rewards:
        raise UserError("the policy's first step gives numbers that are not finite")
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *frames)
    return Episode(stacked, np.array(rewards, np.float32), end)

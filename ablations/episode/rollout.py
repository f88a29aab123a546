"""Runs an episode of a policy and stores frames and rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import jax
import numpy as np
from jax.typing import ArrayLike

from ablations.environments.brax import flat
from ablations.environments.gymnax import GymnaxEnvironment
from ablations.episode.scene import poses
from ablations.errors import UserError
from ablations.tasks.task import Environment
from ablations.trainers import Tree

Act = Callable[..., jax.Array]
# An environment's state, the part that a picture needs, observation [O], and the scalars reward
# and done of the last step.
Played: TypeAlias = tuple[Tree, Tree, jax.Array, ArrayLike, ArrayLike]
Strong = TypeVar("Strong")


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
    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions in metres and rotations (quaternions, w first) of bodies, float32."""
        return np.asarray(self.frames[0], np.float32), np.asarray(self.frames[1], np.float32)


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
    of_gymnax = isinstance(env, GymnaxEnvironment)

    def played(state: Tree, reward: ArrayLike, done: ArrayLike) -> Played:
        if of_gymnax:
            return _strong((state, state.physics, state.observation, reward, done))
        return _strong((state, poses(state), flat(state.obs), reward, done))

    def step(state: Tree, action: jax.Array) -> Played:
        if of_gymnax:
            state, given = env.step(state, action)
            return played(state, given.reward, given.termination)
        state = env.step(state, action)
        return played(state, state.reward, state.done)

    # The environment, which is slow to compile, is compiled once for all policies.
    step = jax.jit(step)
    first = jax.jit(lambda key: played(env.reset(key), 0.0, False))(jax.random.key(seed))
    for policy in policies:
        act = jax.jit(lambda observation, act=policy: _strong(act(observation)))
        yield _episode(step, act, first, length)


def _strong(tree: Strong) -> Strong:
    """Return a pytree without weak types, which would cause another compilation."""
    strong: Strong = jax.tree.map(
        lambda x: x.astype(x.dtype) if getattr(x, "weak_type", False) else x, tree
    )
    return strong


def _episode(step: Callable[..., Played], act: Act, first: Played, length: int) -> Episode:
    state, frame, seen, *_ = first
    frames, rewards, end = [jax.device_get(frame)], [], "length"
    for _ in range(length):
        state, frame, seen, reward, done = step(state, act(seen))
        frame, reward, done = jax.device_get((frame, reward, done))
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

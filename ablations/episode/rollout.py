"""One episode of a policy, step by step: where every body was, and what it was paid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import jax
import numpy as np

from ablations.environments.brax import BraxState, flat
from ablations.episode.scene import poses
from ablations.errors import UserError
from ablations.tasks.task import Environment

Act = Callable[..., jax.Array]
Strong = TypeVar("Strong")


@dataclass(frozen=True)
class Episode:
    """T steps from a reset, B bodies.

    positions: float32 [T + 1, B, 3], metres; rotations: float32 [T + 1, B, 4], quaternions, w
        first; both from the reset on.
    rewards: float32 [T].
    end: "terminated", "length" where the clock ran out, or "not finite" where the physics broke;
        the frames before that are kept.
    """

    positions: np.ndarray
    rotations: np.ndarray
    rewards: np.ndarray
    end: str


def episodes(
    env: Environment, policies: Sequence[Act], seed: int, length: int
) -> Iterator[Episode]:
    """Yield an episode of each policy, all from the same reset, which the seed decides.

    env: Brax's Env interface, one unbatched copy, with bodies (see `ablations.episode.scene`).
    policies: policy(observation [O], key=None) -> action [A]; None asks for the mode.
    length: steps at most.
    """
    # A policy is small and an environment is not: it is compiled once, for all of them.
    step = jax.jit(lambda state, action: _strong(env.step(state, action)))
    first = jax.jit(lambda key: _strong(env.reset(key)))(jax.random.key(seed))
    for policy in policies:
        act = jax.jit(lambda observation, act=policy: _strong(act(observation)))
        yield _episode(step, act, first, length)


def _strong(tree: Strong) -> Strong:
    """Return a pytree without weak types, for each of which a program would be compiled again."""
    strong: Strong = jax.tree.map(
        lambda x: x.astype(x.dtype) if getattr(x, "weak_type", False) else x, tree
    )
    return strong


def _episode(
    step: Callable[[BraxState, jax.Array], BraxState], act: Act, state: BraxState, length: int
) -> Episode:
    frames = [poses(state)]
    rewards = []
    end = "length"
    for _ in range(length):
        state = step(state, act(flat(state.obs)))
        frame, reward, done = jax.device_get((poses(state), state.reward, state.done))
        if not all(np.isfinite(values).all() for values in (*frame, reward)):
            end = "not finite"
            break
        frames.append(frame)
        rewards.append(reward)
        if done:
            end = "terminated"
            break
    if not rewards:
        raise UserError("the policy's first step already gives numbers that are not finite")
    positions, rotations = zip(*frames, strict=True)
    return Episode(
        positions=np.stack(positions).astype(np.float32),
        rotations=np.stack(rotations).astype(np.float32),
        rewards=np.array(rewards, np.float32),
        end=end,
    )

"""Play episodes of policies from the same reset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import jax
import numpy as np

from ablations.environments.brax import flat
from ablations.episode.scene import Episode, poses
from ablations.errors import UserError
from ablations.tasks.task import Environment
from ablations.trainers import Tree

Act = Callable[..., jax.Array]
Strong = TypeVar("Strong")


def episodes(
    env: Environment, policies: Sequence[Act], seed: int, length: int
) -> Iterator[Episode]:
    """Yield an episode of each policy, all from the same reset.

    Args:
        env: an unbatched environment with Brax's interface and bodies (see
            `ablations.episode.scene`).
        policies: policy(observation [O], key=None) -> action [A]; without a key it is the mode.
        seed: of the reset.
        length: most steps.
    """

    def played(state: Tree) -> tuple[Tree, jax.Array, Tree]:
        return _strong((state, flat(state.obs), (*poses(state), state.reward, state.done)))

    # The environment, which is slow to compile, is compiled once for all policies.
    step = jax.jit(lambda state, action: played(env.step(state, action)))
    first = jax.jit(lambda key: played(env.reset(key)))(jax.random.key(seed))
    for policy in policies:
        act = jax.jit(lambda observation, act=policy: _strong(act(observation)))
        state, seen, shown = first
        frames, end = [jax.device_get(shown)], "length"
        while len(frames) <= length and end == "length":
            state, seen, shown = step(state, act(seen))
            frame = jax.device_get(shown)
            if not all(np.isfinite(values).all() for values in frame):
                end = "not finite"
                break
            frames.append(frame)
            end = "terminated" if frame[-1] else "length"
        if len(frames) == 1:
            raise UserError("the policy's first step gives numbers that are not finite")
        positions, rotations, rewards, _ = (
            np.stack(values).astype(np.float32) for values in zip(*frames, strict=True)
        )
        yield Episode(positions, rotations, rewards[1:], end)


def _strong(tree: Strong) -> Strong:
    """Return a pytree without weak types, which would cause another compilation."""
    strong: Strong = jax.tree.map(
        lambda x: x.astype(x.dtype) if getattr(x, "weak_type", False) else x, tree
    )
    return strong

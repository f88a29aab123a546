"""Transformation of a verifier's rewards.

Shapes: rewards and the output are [P, K], K samples of each of P prompts. task is int [P], the task
of each prompt, an index into task_scales [N].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats, require_equal_shapes

AXIS = Axis(
    "reward_transform",
    summary="the transformation of a verifier's rewards",
    inputs={
        "rewards": floats(3, 2),
        "task": jax.ShapeDtypeStruct((3,), jnp.int32),
        "task_scales": floats(4),
    },
)


@AXIS.choice("raw", formula="R", source="every library's default", summary="rewards as they are")
def raw(*, rewards: Array) -> Array:
    return rewards


@AXIS.choice(
    "clipped",
    formula="clip(R, -b, b),  b = reward_clip",
    source="OpenRLHF (reward_clip_range, there after the prompt's baseline); DQN at b = 1",
    summary="a bound on each reward",
    numbers={"reward_clip": Number(10.0, 1e-6, 1e6, "bound of reward_transform=clipped")},
)
def clipped(*, rewards: Array, reward_clip: Scalar) -> Array:
    return jnp.clip(rewards, -reward_clip, reward_clip)


@AXIS.choice(
    "plus_minus_one",
    formula="2R - 1",
    source="DAPO's verifier (Yu et al. 2025, https://arxiv.org/abs/2503.14476)",
    summary="from 0 and 1 to -1 and 1: a wrong answer is pushed away, not just left alone",
)
def plus_minus_one(*, rewards: Array) -> Array:
    return 2 * rewards - 1


@AXIS.choice(
    "per_task_scale",
    formula="s_task·R,  s = task_scales",
    source="several verifiers in one batch, each with its own scale",
    summary="a different scale for each task, to test shared statistics",
)
def per_task_scale(*, rewards: Array, task: Array, task_scales: Array) -> Array:
    require_equal_shapes(task=task, prompts=rewards[:, 0])
    return task_scales[task][:, None] * rewards

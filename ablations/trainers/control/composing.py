"""Parts that every trainer of control tasks composes alike: environments, sizes, the rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import variants
from ablations.environments import Environment
from ablations.tasks.task import EpisodeSettings, Task
from ablations.trainers.control.environment import Environments
from ablations.trainers.control.sizes import Sizes, compiles
from ablations.trainers.optimizer import Rule


class Composed(TypedDict):
    """The keywords that every `RolloutTrainer` takes."""

    environments: Environments
    evaluation_environments: Environments
    unroll_length: int
    num_minibatches: int
    epochs: int
    updates_per_chunk: int
    fixed: Mapping[str, str]
    rule: Rule


def composed(
    env: Environment,
    axes: Mapping[str, str],
    *,
    task: Task,
    settings: EpisodeSettings,
    structure: Sizes,
    updates_per_chunk: int,
    evaluation_envs: int = 16,
    choices: Mapping[str, str] = {},  # immutable
) -> Composed:
    """Return what a trainer of one task and one structure needs beside its networks.

    `reset_group_size` (1) and `random_elapsed_steps` (True) are read where the task has them.

    axes: of the trainer, with their defaults. choices: axis -> the choice that is compiled in.
    """
    fixed = {axis: choice for axis, choice in axes.items() if variants.axis(axis).structural}
    fixed |= dict.fromkeys(compiles(structure), "transitions") | dict(choices)
    unpaid, length = task.unpaid(settings), settings["episode_length"]
    return {
        "environments": Environments(
            env=env,
            num_envs=structure["num_envs"],
            episode_length=length,
            reset_group_size=settings.get("reset_group_size", 1),
            random_elapsed_steps=settings.get("random_elapsed_steps", True),
            reset_pool=structure.get("reset_pool", 1),
            unpaid=unpaid,
        ),
        "evaluation_environments": Environments(env, evaluation_envs, length, unpaid=unpaid),
        "unroll_length": structure["unroll_length"],
        "num_minibatches": structure["num_minibatches"],
        "epochs": structure["epochs"],
        "updates_per_chunk": updates_per_chunk,
        "fixed": fixed,
        "rule": Rule(
            optimizer=fixed["optimizer"],
            reset=fixed["optimizer_reset"],
            regularization=fixed["weight_regularization"],
            beta1=structure["adam_beta1"],
            beta2=structure["adam_beta2"],
            warmup=fixed["learning_rate_warmup"],
        ),
    }

"""Parts that every trainer of control tasks composes alike: environments, the optimiser's rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ablations.tasks.task import EpisodeSettings, Task
from ablations.trainers.control.environment import Environments
from ablations.trainers.control.settings import Sizes, iteration_steps
from ablations.trainers.optimizer import Rule
from ablations.trainers.trainer import Trainer

if TYPE_CHECKING:
    from ablations.environments import Environment
    from ablations.trainers.control.ppo import PPO
    from ablations.trainers.control.pqn import PQN


def environments_of(
    env: Environment,
    task: Task,
    settings: EpisodeSettings,
    structure: Sizes,
    evaluation_envs: int = 16,
) -> tuple[Environments, Environments]:
    """Return the environments to train in, and those to evaluate in.

    `reset_group_size` (1) and `random_elapsed_steps` (True) are read where the task has them.
    """
    unpaid, length = task.unpaid(settings), settings["episode_length"]
    return Environments(
        env=env,
        num_envs=structure["num_envs"],
        episode_length=length,
        reset_group_size=settings.get("reset_group_size", 1),
        random_elapsed_steps=settings.get("random_elapsed_steps", True),
        reset_pool=structure.get("reset_pool", 1),
        unpaid=unpaid,
    ), Environments(env, evaluation_envs, length, unpaid=unpaid)


def as_trainer(composed: PPO | PQN, structure: Sizes) -> Trainer:
    """Return a composed program in the form that the engine runs."""
    return Trainer(
        init=composed.init,
        chunk=composed.chunk,
        evaluate=composed.evaluate,
        policy=composed.policy,
        steps_per_chunk=composed.updates_per_chunk * iteration_steps(structure),
        act=composed.act,
    )


def rule_of(fixed: Mapping[str, str], structure: Sizes) -> Rule:
    """Return the rule of the optimiser; fixed: axis -> the choice that is compiled in."""
    return Rule(
        optimizer=fixed["optimizer"],
        reset=fixed["optimizer_reset"],
        regularization=fixed["weight_regularization"],
        beta1=structure["adam_beta1"],
        beta2=structure["adam_beta2"],
        warmup=fixed["learning_rate_warmup"],
    )

"""Settings of PQN: its axes, numbers and structure, with defaults and bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from ablations.tasks.task import EpisodeSettings, Task
from ablations.trainers.control import settings as ppo
from ablations.trainers.control.sizes import Sizes, check, compiles, iteration_steps, unread_on
from ablations.trainers.definition import Definition
from ablations.trainers.rates import BETAS
from ablations.trainers.trainer import Option, Program
from variants import Number

if TYPE_CHECKING:
    from ablations.trainers.control.pqn import PQN

# Those of PureJaxQL's configuration of CartPole (config/alg/pqn_cartpole.yaml), but for q_return,
# which is as the paper has it, and q_truncation.
AXES = {
    "q_return": "peng",
    "q_truncation": "bootstrap",
    "q_target": "none",
    "exploration": "linear",
    "value_error": "squared",
    "gradient_clip": "global_norm",
    "learning_rate_schedule": "linear_per_step",
    "learning_rate_warmup": "none",
    "observation_normalization": "none",
    "observation_statistics": "per_batch",
    "observation_scaling": "bounded_std",
    "reward_scaling": "constant",
    "minibatch_unit": "transitions",
    "minibatch_order": "redrawn",
    "network_init": "lecun_normal",
    "bias_init": "zeros",
    "network_normalization": "both",
    "optimizer": "radam",
    "optimizer_reset": "none",
    "weight_regularization": "none",
}

NUMBERS = {
    "learning_rate": Number(1e-4, 0.0, 1.0, "step size of the optimiser"),
    "adam_epsilon": ppo.NUMBERS["adam_epsilon"],
    "value_coefficient": Number(0.5, 0.0, 1e6, "factor on the mean error of Q values"),
    "value_init_scale": Number(1.0, 0.0, 1e3, "factor on the last layer at the start"),
    "value_hidden_gain": Number(
        math.sqrt(2.0), 0.0, 1e3, "gain of hidden layers with network_init=orthogonal, he_normal"
    ),
}

# Of numbers that choices bring, and that trainers differ in.
DEFAULTS = {"discount": 0.99, "max_gradient_norm": 10.0}

STRUCTURE = {
    "num_envs": replace(ppo.STRUCTURE["num_envs"], default=32),
    "unroll_length": replace(ppo.STRUCTURE["unroll_length"], default=64),
    "num_minibatches": replace(ppo.STRUCTURE["num_minibatches"], default=16),
    "epochs": ppo.STRUCTURE["epochs"],
    "value_layers": Option([256, 256], "hidden layers of the network of Q values"),
    "activation": replace(ppo.STRUCTURE["activation"], default="relu"),
    "filters": ppo.STRUCTURE["filters"],
    "reset_pool": ppo.STRUCTURE["reset_pool"],
    **BETAS,
}


class Structure(Sizes):
    """The options of `STRUCTURE`."""

    value_layers: list[int]


def compose(**program: Unpack[Program[EpisodeSettings, Structure]]) -> PQN:
    """Compose PQN for one task and one structure; see `pqn.compose`."""
    from ablations.trainers.control import pqn

    return pqn.compose(AXES, **program)


def refuses(task: Task) -> list[str]:
    """Return why it cannot train on a task, in words."""
    if task.discrete:
        return []
    return [
        f"pqn has a value for each of a few actions, and those of task '{task.name}' are not "
        f"counted: choose one such as cartpole"
    ]


DEFINITION = Definition(
    name="pqn",
    summary="parallelised Q-learning without a replay buffer, on tasks with a few actions",
    axes=AXES,
    numbers=NUMBERS,
    defaults=DEFAULTS,
    structure=STRUCTURE,
    unread=lambda composition: unread_on(composition.task),
    compiles=compiles,
    make=lambda **program: compose(**program).trainer,
    iteration_steps=iteration_steps,
    step_unit="environment step",
    refuses=refuses,
    check=check,
)

"""Settings of PPO: its axes, numbers and structure, with defaults and bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NotRequired, Unpack

import variants
from ablations.tasks.task import EpisodeSettings
from ablations.trainers.control.sizes import Sizes, check, compiles, iteration_steps, unread_on
from ablations.trainers.definition import Definition
from ablations.trainers.rates import BETAS
from ablations.trainers.trainer import Composition, Option, Program
from variants import Number

# Flax and optax take longer to import than JAX, and who only plans does not need them.
if TYPE_CHECKING:
    from ablations.trainers.control.ppo import PPO

ACTIVATIONS = ("tanh", "swish", "relu", "elu")  # of networks.ACTIVATIONS

# Axes that joined later, where PPO is what it was before.
DETAILS = {
    "critic_head": "scalar",
    "entropy_schedule": "constant",
    "learning_rate_warmup": "none",
    "mean_perturbation": "none",
    "network_normalization": "none",
    "optimizer": "adam",
    "optimizer_reset": "none",
    "penalty_schedule": "constant",
    "value_target": "shared",
    "weight_regularization": "none",
}

AXES = {
    "advantage": "standard",
    "advantage_timing": "iteration",
    "advantage_statistics": "all",
    "advantage_scope": "minibatch",
    "value_error": "squared",
    "value_clip": "none",
    "policy_loss": "clip",
    "entropy_estimate": "one_sample",
    "gradient_clip": "none",
    "learning_rate_schedule": "constant",
    "observation_normalization": "after",
    "reward_scaling": "constant",
    "minibatch_unit": "segments",
    "network_init": "lecun_uniform",
    "bias_init": "zeros",
    "minibatch_order": "redrawn",
    "old_value": "rollout",
    "action_distribution": "tanh_normal",
    "policy_std": "softplus_head",
    "observation_statistics": "per_batch",
    "observation_scaling": "bounded_std",
    "kl_stop": "none",
    "value_normalization": "none",
    "advantage_scaling": "none",
    **DETAILS,
}

NUMBERS = {
    "learning_rate": Number(3e-4, 0.0, 1.0, "step size of Adam"),
    "adam_epsilon": Number(
        1e-8,
        0.0,
        1.0,
        "added to Adam's denominator; at 0, a gradient that stays exactly 0 gives NaN",
    ),
    "entropy_coefficient": Number(1e-3, 0.0, 10.0, "factor on the mean entropy"),
    "value_coefficient": Number(0.25, 0.0, 1e6, "factor on the mean value loss"),
    "policy_init_scale": Number(
        1.0, 0.0, 1e3, "factor on the policy's last layer at the start; 0.01 with orthogonal"
    ),
    "value_init_scale": Number(1.0, 0.0, 1e3, "factor on the critic's last layer at the start"),
    "policy_hidden_gain": Number(
        math.sqrt(2.0),
        0.0,
        1e3,
        "gain of the policy's hidden layers with network_init=orthogonal, he_normal",
    ),
    "value_hidden_gain": Number(
        math.sqrt(2.0),
        0.0,
        1e3,
        "gain of the critic's hidden layers with network_init=orthogonal, he_normal",
    ),
}

# Of numbers that choices bring, and that trainers differ in.
DEFAULTS = {"discount": 0.97, "gae_lambda": 0.95, "max_gradient_norm": 0.5}

STRUCTURE = {
    "num_envs": Option(64, "environments stepped together", low=1),
    "unroll_length": Option(32, "steps of each environment in a batch: one segment", low=1),
    "num_minibatches": Option(4, "gradient steps per pass over a batch", low=1),
    "epochs": Option(4, "passes over a batch", low=1),
    "policy_layers": Option([64, 64], "hidden layers of the policy; the torso when it is shared"),
    "value_layers": Option([64, 64], "hidden layers of the critic where the torso is separate"),
    "torso": Option(
        "separate", "whether policy and critic share their hidden layers", ("separate", "shared")
    ),
    "activation": Option("tanh", "between layers", ACTIVATIONS),
    "filters": Option(
        0,
        "of a convolution of 3 by 3 before the layers, where observations are images; 0: none",
        low=0,
    ),
    "reset_pool": Option(
        1, "resets of each environment, its episodes take them in turn; 1: the same for ever", low=1
    ),
    "value_outputs": Option(
        51, "outputs of the critic where critic_head is not scalar", low=2, neutral=51
    ),
    "value_range": Option(
        10.0,
        "largest value of critic_head=hl_gauss and two_hot, in units of value_normalization",
        low=1e-6,
        neutral=10.0,
    ),
    **BETAS,
}


class Structure(Sizes):
    """The options of `STRUCTURE`; value_layers: where the torso is separate."""

    policy_layers: list[int]
    value_layers: NotRequired[list[int]]
    torso: str
    value_outputs: int
    value_range: float


# Axes of a normal policy, which other distributions do not have; one over whole numbers has no
# choice of action_distribution either.
OF_NORMALS = ("entropy_estimate", "mean_perturbation", "policy_std")


def unread(composition: Composition) -> dict[str, str]:
    """Return the axes, numbers and options that PPO does not read, and why."""
    task = composition.task
    actions = composition.choices["action_distribution"]
    found: dict[str, str] = {}
    if composition.structure["torso"] == "shared":
        found |= dict.fromkeys(
            ("value_layers", "value_hidden_gain"), "the critic shares the policy's hidden layers"
        )
    if task.discrete:
        found |= dict.fromkeys(
            ("action_distribution", *OF_NORMALS),
            f"actions of {task.name} are whole numbers, drawn from a softmax of logits",
        )
    elif "outputs" in variants.axis("action_distribution")[actions].inputs:
        found |= dict.fromkeys(OF_NORMALS, f"action_distribution={actions} has no normal to shape")
    return found | unread_on(task)


def compose(**program: Unpack[Program[EpisodeSettings, Structure]]) -> PPO:
    """Compose PPO for one task and one structure; see `ppo.compose`."""
    from ablations.trainers.control import ppo

    return ppo.compose(AXES, **program)


DEFINITION = Definition(
    name="ppo",
    summary="proximal policy optimisation, on control tasks and games",
    axes=AXES,
    neutral=DETAILS,
    numbers=NUMBERS,
    defaults=DEFAULTS,
    structure=STRUCTURE,
    unread=unread,
    compiles=compiles,
    make=lambda **program: compose(**program).trainer,
    iteration_steps=iteration_steps,
    step_unit="environment step",
    check=check,
    revision=2,
)

"""PureJaxRL's PPO: the configurations at the ends of its scripts, for both kinds of actions."""

from __future__ import annotations

import math
from typing import Any

from ablations.presets.arguments import of_whole_actions, redefined, setting, unscaled, usual_ppo
from ablations.presets.definition import Argument, Arguments, Preset, Read

SCRIPT = "purejaxrl/ppo_continuous_action.py"
DISCRETE = "purejaxrl/ppo.py"
WRAPPERS = "purejaxrl/wrappers.py"

ARGUMENTS = {
    "LR": Argument(3e-4, "learning_rate", SCRIPT),
    "NUM_ENVS": Argument(2048, "num_envs", SCRIPT),
    "NUM_STEPS": Argument(10, "unroll_length", SCRIPT),
    "UPDATE_EPOCHS": Argument(4, "epochs", SCRIPT),
    "NUM_MINIBATCHES": Argument(32, "num_minibatches", SCRIPT),
    "GAMMA": Argument(0.99, "discount", SCRIPT),
    "GAE_LAMBDA": Argument(0.95, "gae_lambda", SCRIPT),
    "CLIP_EPS": Argument(0.2, "clip_epsilon", SCRIPT),
    "ENT_COEF": Argument(0.0, "entropy_coefficient", SCRIPT),
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": Argument(0.5, "max_gradient_norm", SCRIPT),
    "ACTIVATION": "tanh",
    "ANNEAL_LR": False,
    "NORMALIZE_ENV": True,
}
DISCRETE_ARGUMENTS = redefined(
    {name: of for name, of in ARGUMENTS.items() if name != "NORMALIZE_ENV"},
    {
        "LR": 2.5e-4,
        "NUM_ENVS": 4,
        "NUM_STEPS": 128,
        "NUM_MINIBATCHES": 4,
        "ENT_COEF": 0.01,
        "ANNEAL_LR": True,
    },
    DISCRETE,
)
MINATAR: dict[str, Any] = {"LR": 5e-3, "NUM_ENVS": 64, "NUM_MINIBATCHES": 8, "ACTIVATION": "relu"}
ACTIVATIONS = {"relu": "relu", "tanh": "tanh"}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate PureJaxRL's arguments to our settings."""
    normalized = a["NORMALIZE_ENV"]
    read: dict[str, Read] = {
        **usual_ppo(SCRIPT, SCRIPT),
        "advantage": ("done_cut", SCRIPT),
        "advantage_statistics": ("all", SCRIPT),
        "ddof": (0.0, SCRIPT),
        "epsilon": (1e-8, SCRIPT),
        "value_coefficient": (0.5 * a["VF_COEF"], SCRIPT),
        "value_clip": ("pessimistic", SCRIPT),
        "value_clip_range": (a["CLIP_EPS"], SCRIPT),
        "old_value": ("rollout", SCRIPT),
        "entropy_estimate": ("closed_form", SCRIPT),
        "gradient_clip": ("global_norm", SCRIPT),
        "gradient_norm_epsilon": (0.0, "optax/transforms/_clipping.py"),
        "learning_rate_schedule": ("linear" if a["ANNEAL_LR"] else "constant", SCRIPT),
        "adam_epsilon": (1e-5, SCRIPT),
        "action_distribution": ("normal", WRAPPERS),
        "policy_std": ("exp_parameter", SCRIPT),
        "initial_log_std": (0.0, SCRIPT),
        "std_low": (0.0, SCRIPT),
        "policy_layers": ([256, 256], SCRIPT),
        "value_layers": ([256, 256], SCRIPT),
        "activation": (setting(a, "ACTIVATION", ACTIVATIONS), SCRIPT),
        "network_init": ("orthogonal", SCRIPT),
        "policy_hidden_gain": (math.sqrt(2.0), SCRIPT),
        "value_hidden_gain": (math.sqrt(2.0), SCRIPT),
        "policy_init_scale": (0.01, SCRIPT),
        "observation_normalization": ("after" if normalized else "none", WRAPPERS),
        "observation_statistics": ("per_step" if normalized else "per_batch", WRAPPERS),
        "reward_scaling": ("leaking_return_std" if normalized else "constant", WRAPPERS),
        "reward_scale": (1.0, WRAPPERS),
        # Brax's AutoResetWrapper
        "reset_pool": (1, WRAPPERS),
    }
    if normalized:
        read["observation_scaling"] = ("epsilon", WRAPPERS)
        read["observation_epsilon"] = (1e-8, WRAPPERS)
    return read


def of_discrete(a: Arguments) -> dict[str, Read]:
    """Translate the arguments of its script for discrete actions to our settings."""
    read = of_whole_actions(settings({**a, "NORMALIZE_ENV": False}), {SCRIPT: DISCRETE})
    layers = ([64, 64], DISCRETE)
    return read | unscaled(DISCRETE) | {"policy_layers": layers, "value_layers": layers}


LIBRARY = "PureJaxRL at 31756b1, github.com/luchris429/purejaxrl"
ACTIVATION_IN_WORDS = "An ACTIVATION that is not relu is tanh to it; here only these two are taken."
OF_DISCRETE = Preset(
    name="purejaxrl",
    library=f"{LIBRARY}: {DISCRETE}",
    arguments=DISCRETE_ARGUMENTS,
    settings=of_discrete,
    in_words=(
        "Gymnax's limit of time is a termination to it; here the task's episode_length "
        "truncates, which advantage=done_cut takes for one.",
        ACTIVATION_IN_WORDS,
        "On MinAtar (examples/brax_minatar.ipynb) it has "
        + ", ".join(f"{name}={value}" for name, value in MINATAR.items())
        + ".",
    ),
)
PRESET = Preset(
    name="purejaxrl",
    library=LIBRARY,
    arguments=ARGUMENTS,
    settings=settings,
    in_words=(
        "An episode ends after 1000 steps, which it takes for a termination; here the task's "
        "episode_length truncates, which advantage=done_cut takes for one.",
        ACTIVATION_IN_WORDS,
    ),
    discrete=OF_DISCRETE,
)

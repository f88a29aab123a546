"""CleanRL's PPO: the defaults of its scripts for continuous and for discrete actions."""

from __future__ import annotations

import math

from ablations.presets.arguments import of_whole_actions, unscaled
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Arguments, Preset, Read

SCRIPT = "cleanrl/ppo_continuous_action.py"
DISCRETE = "cleanrl/ppo.py"
WRAPPERS = "gymnasium/wrappers/normalize.py (gymnasium 0.29.1)"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"

ARGUMENTS = {
    "num_envs": 1,
    "num_steps": 2048,
    "num_minibatches": 32,
    "update_epochs": 10,
    "learning_rate": 3e-4,
    "anneal_lr": True,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "norm_adv": True,
    "clip_coef": 0.2,
    "clip_vloss": True,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "target_kl": None,
    "activation": "tanh",
}
OF_DISCRETE = {
    **ARGUMENTS,
    "num_envs": 4,
    "num_steps": 128,
    "num_minibatches": 4,
    "update_epochs": 4,
    "learning_rate": 2.5e-4,
    "ent_coef": 0.01,
}
WRAPPED: dict[str, Read] = {
    "observation_normalization": ("after", WRAPPERS),
    "observation_statistics": ("per_environment", WRAPPERS),
    "observation_scaling": ("epsilon_clipped", SCRIPT),
    "observation_epsilon": (1e-8, WRAPPERS),
    "observation_clip": (10.0, SCRIPT),
    "reward_scaling": ("leaking_return_std_per_environment", WRAPPERS),
    "reward_scale": (1.0, SCRIPT),
    "reward_clip": (10.0, SCRIPT),
}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate CleanRL's arguments to our settings."""
    read: dict[str, Read] = {
        "num_envs": (a["num_envs"], SCRIPT),
        "unroll_length": (a["num_steps"], SCRIPT),
        "num_minibatches": (a["num_minibatches"], SCRIPT),
        "epochs": (a["update_epochs"], SCRIPT),
        "minibatch_unit": ("transitions", SCRIPT),
        "minibatch_order": ("shuffled_on", SCRIPT),
        "advantage": ("done_cut", SCRIPT),
        "advantage_timing": ("iteration", SCRIPT),
        "advantage_statistics": ("all" if a["norm_adv"] else "none", SCRIPT),
        "advantage_scope": ("minibatch", SCRIPT),
        "ddof": (1.0, SCRIPT),
        "epsilon": (1e-8, SCRIPT),
        "discount": (a["gamma"], SCRIPT),
        "gae_lambda": (a["gae_lambda"], SCRIPT),
        "policy_loss": ("clip", SCRIPT),
        "clip_epsilon": (a["clip_coef"], SCRIPT),
        "value_error": ("squared", SCRIPT),
        "value_coefficient": (0.5 * a["vf_coef"], SCRIPT),
        "value_clip": ("pessimistic" if a["clip_vloss"] else "none", SCRIPT),
        "value_clip_range": (a["clip_coef"], SCRIPT),
        "old_value": ("rollout", SCRIPT),
        "entropy_estimate": ("closed_form", SCRIPT),
        "entropy_coefficient": (a["ent_coef"], SCRIPT),
        "gradient_clip": ("global_norm", SCRIPT),
        "max_gradient_norm": (a["max_grad_norm"], SCRIPT),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate": (a["learning_rate"], SCRIPT),
        "learning_rate_schedule": ("linear" if a["anneal_lr"] else "constant", SCRIPT),
        "adam_epsilon": (1e-5, SCRIPT),
        "kl_stop": ("none" if a["target_kl"] is None else "epoch", SCRIPT),
        "action_distribution": ("normal", SCRIPT),
        "policy_std": ("exp_parameter", SCRIPT),
        "initial_log_std": (0.0, SCRIPT),
        "std_low": (0.0, SCRIPT),
        "policy_layers": ([64, 64], SCRIPT),
        "value_layers": ([64, 64], SCRIPT),
        "torso": ("separate", SCRIPT),
        "activation": (a["activation"], SCRIPT),
        "network_init": ("orthogonal", SCRIPT),
        "bias_init": ("zeros", SCRIPT),
        "policy_hidden_gain": (math.sqrt(2.0), SCRIPT),
        "value_hidden_gain": (math.sqrt(2.0), SCRIPT),
        "policy_init_scale": (0.01, SCRIPT),
        "value_init_scale": (1.0, SCRIPT),
        **WRAPPED,
        "value_normalization": ("none", SCRIPT),
        "advantage_scaling": ("none", SCRIPT),
        "reset_pool": (FRESH, SCRIPT),
    }
    if a["target_kl"] is not None:
        read["target_kl"] = (a["target_kl"], SCRIPT)
    return read


def of_discrete(a: Arguments) -> dict[str, Read]:
    """Translate the arguments of its script for discrete actions to our settings."""
    read = of_whole_actions(settings(a), {SCRIPT: DISCRETE})
    return {n: value for n, value in read.items() if n not in WRAPPED} | unscaled(DISCRETE)


LIBRARY = "CleanRL at fe8d8a0, github.com/vwxyzjn/cleanrl"
PRESET = Preset(
    name="cleanrl",
    library=LIBRARY,
    arguments=ARGUMENTS,
    settings=settings,
    in_words=(
        FRESH_IN_WORDS,
        "A last, smaller minibatch, where num_minibatches does not divide the batch, is refused "
        "here.",
        "The statistics of an environment are its own; a saved policy acts here by those of all "
        "environments together.",
        "The reward wrapper's discount is the script's gamma, in both.",
        "With gymnasium 1.0 or newer the script does not run as it is: 0.29.1, which it pins, is "
        "what was read.",
    ),
    discrete=Preset(
        name="cleanrl",
        library=f"{LIBRARY}: {DISCRETE}",
        arguments=OF_DISCRETE,
        settings=of_discrete,
        in_words=(
            "A last, smaller minibatch, where num_minibatches does not divide the batch, is "
            "refused here.",
            "Its networks take vectors; images are flattened here. Its script for Atari "
            "(ppo_atari.py), with a convolutional network of three layers, is another.",
        ),
    ),
)

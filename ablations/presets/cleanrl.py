"""CleanRL's PPO: the defaults of its scripts for continuous and for discrete actions."""

from __future__ import annotations

import math

from ablations.presets.arguments import of_whole_actions, redefined, unscaled, usual_ppo
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Argument, Arguments, Preset, Read

SCRIPT = "cleanrl/ppo_continuous_action.py"
DISCRETE = "cleanrl/ppo.py"
WRAPPERS = "gymnasium/wrappers/normalize.py (gymnasium 0.29.1)"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"

ARGUMENTS = {
    "num_envs": Argument(1, "num_envs", SCRIPT),
    "num_steps": Argument(2048, "unroll_length", SCRIPT),
    "num_minibatches": Argument(32, "num_minibatches", SCRIPT),
    "update_epochs": Argument(10, "epochs", SCRIPT),
    "learning_rate": Argument(3e-4, "learning_rate", SCRIPT),
    "anneal_lr": True,
    "gamma": Argument(0.99, "discount", SCRIPT),
    "gae_lambda": Argument(0.95, "gae_lambda", SCRIPT),
    "norm_adv": True,
    "clip_coef": Argument(0.2, "clip_epsilon", SCRIPT),
    "clip_vloss": True,
    "ent_coef": Argument(0.0, "entropy_coefficient", SCRIPT),
    "vf_coef": 0.5,
    "max_grad_norm": Argument(0.5, "max_gradient_norm", SCRIPT),
    "target_kl": Argument(None, "target_kl", SCRIPT),
    "activation": Argument("tanh", "activation", SCRIPT),
}
OF_DISCRETE = redefined(
    ARGUMENTS,
    {
        "num_envs": 4,
        "num_steps": 128,
        "num_minibatches": 4,
        "update_epochs": 4,
        "learning_rate": 2.5e-4,
        "ent_coef": 0.01,
    },
    DISCRETE,
)
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
    return {
        **usual_ppo(SCRIPT, SCRIPT),
        "minibatch_order": ("shuffled_on", SCRIPT),
        "advantage": ("done_cut", SCRIPT),
        "advantage_statistics": ("all" if a["norm_adv"] else "none", SCRIPT),
        "ddof": (1.0, SCRIPT),
        "epsilon": (1e-8, SCRIPT),
        "value_coefficient": (0.5 * a["vf_coef"], SCRIPT),
        "value_clip": ("pessimistic" if a["clip_vloss"] else "none", SCRIPT),
        "value_clip_range": (a["clip_coef"], SCRIPT),
        "old_value": ("rollout", SCRIPT),
        "entropy_estimate": ("closed_form", SCRIPT),
        "gradient_clip": ("global_norm", SCRIPT),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": ("linear" if a["anneal_lr"] else "constant", SCRIPT),
        "adam_epsilon": (1e-5, SCRIPT),
        "kl_stop": ("none" if a["target_kl"] is None else "epoch", SCRIPT),
        "action_distribution": ("normal", SCRIPT),
        "policy_std": ("exp_parameter", SCRIPT),
        "initial_log_std": (0.0, SCRIPT),
        "std_low": (0.0, SCRIPT),
        "policy_layers": ([64, 64], SCRIPT),
        "value_layers": ([64, 64], SCRIPT),
        "network_init": ("orthogonal", SCRIPT),
        "policy_hidden_gain": (math.sqrt(2.0), SCRIPT),
        "value_hidden_gain": (math.sqrt(2.0), SCRIPT),
        "policy_init_scale": (0.01, SCRIPT),
        **WRAPPED,
        "reset_pool": (FRESH, SCRIPT),
    }


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

"""TorchRL's PPO: its recipe for MuJoCo."""

from __future__ import annotations

from ablations.presets.arguments import refused, setting, usual_ppo
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Argument, Arguments, Preset, Read

RECIPE = "sota-implementations/ppo/ppo_mujoco.py"
CONFIG = "sota-implementations/ppo/config_mujoco.yaml"
VEC_NORM = "torchrl/envs/transforms/_normalization.py"
GYM = "torchrl/envs/libs/gym.py"
NETWORKS = "sota-implementations/ppo/utils_mujoco.py"
LOSS = "torchrl/objectives/ppo.py"
ADVANTAGES = "torchrl/objectives/value/advantages.py"
DISTRIBUTION = "torchrl/modules/distributions/continuous.py"

ARGUMENTS = {
    "num_envs": Argument(1, "num_envs", RECIPE),
    "frames_per_env": Argument(2048, "unroll_length", CONFIG),
    "mini_batch_size": 64,
    "ppo_epochs": Argument(10, "epochs", CONFIG),
    "learning_rate": Argument(3e-4, "learning_rate", CONFIG),
    "anneal_lr": True,
    "gamma": Argument(0.99, "discount", CONFIG),
    "gae_lambda": Argument(0.95, "gae_lambda", CONFIG),
    # clamping log ρ between log(1 - ε) and log(1 + ε) is clipping ρ
    "clip_epsilon": Argument(0.2, "clip_epsilon", CONFIG),
    "clip_value": None,
    "loss_critic_type": "l2",
    "critic_coeff": Argument(0.25, "value_coefficient", CONFIG),
    "entropy_coeff": Argument(0.0, "entropy_coefficient", CONFIG),
    "normalize_advantage": True,
    "max_grad_norm": Argument(None, "max_gradient_norm", RECIPE),
    "activation": Argument("tanh", "activation", NETWORKS),
    "normalize_observation": True,
}
UNEXPRESSED = {
    "anneal_clip_epsilon": (False, "clip_epsilon falls with the learning rate"),
    "weight_decay": (0.0, "in its configuration, and nothing reads it"),
}

VALUE_ERRORS = {"l2": "squared", "l1": "absolute", "smooth_l1": "smooth_l1"}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate TorchRL's arguments to our settings."""
    clip_value, norm = a["clip_value"], a["max_grad_norm"]
    samples, normalized = a["num_envs"] * a["frames_per_env"], a["normalize_observation"]
    if samples % a["mini_batch_size"]:
        raise refused(
            f"mini_batch_size={a['mini_batch_size']}, which does not divide a batch of {samples}",
            "choose a divisor",
        )
    read: dict[str, Read] = {
        **usual_ppo(LOSS, NETWORKS),
        "num_minibatches": (samples // a["mini_batch_size"], CONFIG),
        "minibatch_unit": ("transitions", RECIPE),
        "minibatch_order": ("redrawn", RECIPE),
        "advantage": ("standard", ADVANTAGES),
        "advantage_timing": ("epoch", RECIPE),
        "advantage_statistics": ("all_floored" if a["normalize_advantage"] else "none", LOSS),
        "ddof": (1.0, LOSS),
        "value_error": (setting(a, "loss_critic_type", VALUE_ERRORS), LOSS),
        "value_clip": ("none" if clip_value in (None, False) else "pessimistic", LOSS),
        "entropy_estimate": ("negative_log_density", LOSS),
        "gradient_clip": ("none" if norm is None else "global_norm", RECIPE),
        "learning_rate_schedule": ("linear_per_step" if a["anneal_lr"] else "constant", RECIPE),
        "adam_epsilon": (1e-5, RECIPE),
        "kl_stop": ("none", RECIPE),
        "action_distribution": ("tanh_normal_inverted", DISTRIBUTION),
        "policy_std": ("exp_parameter", NETWORKS),
        "initial_log_std": (0.0, NETWORKS),
        "std_low": (1e-8, NETWORKS),
        "policy_layers": ([64, 64], NETWORKS),
        "value_layers": ([64, 64], NETWORKS),
        "network_init": ("orthogonal", NETWORKS),
        "policy_hidden_gain": (1.0, NETWORKS),
        "policy_init_scale": (1.0, NETWORKS),
        "value_hidden_gain": (0.01, NETWORKS),
        "value_init_scale": (0.01, NETWORKS),
        "observation_normalization": ("after" if normalized else "none", NETWORKS),
        "observation_statistics": ("per_step_forgetting" if normalized else "per_batch", VEC_NORM),
        "reward_scaling": ("constant", NETWORKS),
        "reward_scale": (1.0, NETWORKS),
        "reset_pool": (FRESH, GYM),
    }
    if normalized:
        read |= {
            "observation_forgetting": (1e-5, NETWORKS),
            "observation_scaling": ("floored_std_clipped", VEC_NORM),
            # VecNorm's eps = 0.01 is the lowest variance
            "observation_std_low": (0.1, VEC_NORM),
            "observation_clip": (10.0, NETWORKS),
        }
    if a["normalize_advantage"]:
        read["advantage_std_low"] = (1e-6, LOSS)
    if clip_value not in (None, False):
        reach = a["clip_epsilon"] if clip_value is True else clip_value
        read |= {"value_clip_range": (reach, LOSS), "old_value": ("epoch", RECIPE)}
    if norm is not None:
        read["gradient_norm_epsilon"] = (1e-6, "torch/nn/utils/clip_grad.py")
    return read


PRESET = Preset(
    name="torchrl",
    library="torchrl 0.14.1, recipe at ae9719f, github.com/pytorch/rl",
    arguments=ARGUMENTS,
    unexpressed=UNEXPRESSED,
    settings=settings,
    in_words=(
        FRESH_IN_WORDS,
        "Where one of several environments is reset, its VecNorm takes what the others then show "
        "in once more; here only what was reset.",
        "The module's own defaults (value loss smooth_l1 with a factor of 1, entropy 0.01) are not "
        "those of the recipe, which these are.",
        "What its sampler does where mini_batch_size does not divide the batch was not tested; "
        "here it is refused, as anneal_clip_epsilon is. Its configuration's weight_decay is read "
        "by nothing.",
        "Gymnasium's environments it trains one at a time; num_envs is of MuJoCo Playground's.",
        "For whole actions it has a recipe for Atari alone (ppo_atari.py): stacked pictures, and "
        "one convolutional network for policy and critic, which is not here.",
    ),
)

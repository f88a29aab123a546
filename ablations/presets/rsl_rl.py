"""RSL-RL's PPO: the configuration that its documentation shows."""

from __future__ import annotations

import math

from ablations.presets.arguments import setting
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Arguments, Preset, Read

PPO = "rsl_rl/algorithms/ppo.py"
RUNNER = "rsl_rl/runners/on_policy_runner.py"
STORAGE = "rsl_rl/storage/rollout_storage.py"
DISTRIBUTION = "rsl_rl/modules/distribution.py"
NETWORK = "rsl_rl/modules/mlp.py"
NORMALIZATION = "rsl_rl/modules/normalization.py"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"

ARGUMENTS = {
    "num_envs": 4096,
    "num_steps_per_env": 24,
    "num_learning_epochs": 5,
    "num_mini_batches": 4,
    "learning_rate": 1e-3,
    "schedule": "adaptive",
    "desired_kl": 0.01,
    "gamma": 0.99,
    "lam": 0.95,
    "clip_param": 0.2,
    "use_clipped_value_loss": True,
    "value_loss_coef": 1.0,
    "entropy_coef": 0.01,
    "max_grad_norm": 1.0,
    "normalize_advantage_per_mini_batch": False,
    "std_type": "scalar",
    "init_std": 1.0,
    "obs_normalization": False,
    "hidden_dims": (256, 256, 256),
    "activation": "elu",
}
UNEXPRESSED = {
    "distribution": (
        "GaussianDistribution",
        "HeteroscedasticGaussianDistribution has a std for each state, "
        "BetaDistribution bounded actions",
    ),
    "learn_std": (True, "a std that stays"),
    "std_range": ((1e-6, 1e6), "bounds of the std"),
    "optimizer": ("adam", "another optimizer"),
    "rnd_cfg": (None, "a bonus for what is new"),
    "symmetry_cfg": (None, "mirrored samples"),
}
SCHEDULES = {"adaptive": "adaptive_exact_kl", "fixed": "constant"}
STDS = {"scalar": "clamped_parameter", "log": "clamped_exp_parameter"}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate RSL-RL's arguments to our settings."""
    schedule, std = setting(a, "schedule", SCHEDULES), setting(a, "std_type", STDS)
    adaptive = schedule == "adaptive_exact_kl" and a["desired_kl"] is not None
    minibatch = a["normalize_advantage_per_mini_batch"]
    read: dict[str, Read] = {
        "num_envs": (a["num_envs"], RUNNER),
        "unroll_length": (a["num_steps_per_env"], RUNNER),
        "num_minibatches": (a["num_mini_batches"], PPO),
        "epochs": (a["num_learning_epochs"], PPO),
        "minibatch_unit": ("transitions", STORAGE),
        "minibatch_order": ("reused", STORAGE),
        "advantage": ("timeout_bonus", PPO),
        "advantage_timing": ("iteration", PPO),
        "advantage_statistics": ("all", PPO),
        "advantage_scope": ("minibatch" if minibatch else "batch", PPO),
        "ddof": (1.0, PPO),
        "epsilon": (1e-8, PPO),
        "discount": (a["gamma"], PPO),
        "gae_lambda": (a["lam"], PPO),
        "policy_loss": ("clip", PPO),
        "clip_epsilon": (a["clip_param"], PPO),
        "value_error": ("squared", PPO),
        "value_coefficient": (a["value_loss_coef"], PPO),
        "value_clip": ("pessimistic" if a["use_clipped_value_loss"] else "none", PPO),
        "value_clip_range": (a["clip_param"], PPO),
        "old_value": ("rollout", PPO),
        "entropy_estimate": ("closed_form", DISTRIBUTION),
        "entropy_coefficient": (a["entropy_coef"], PPO),
        "gradient_clip": ("per_network", PPO),
        "max_gradient_norm": (a["max_grad_norm"], PPO),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate": (a["learning_rate"], PPO),
        "learning_rate_schedule": (schedule if adaptive else "constant", PPO),
        "adam_epsilon": (1e-8, PPO),
        "kl_stop": ("none", PPO),
        "action_distribution": ("normal_unclipped", DISTRIBUTION),
        "policy_std": (std, DISTRIBUTION),
        "policy_layers": (list(a["hidden_dims"]), NETWORK),
        "value_layers": (list(a["hidden_dims"]), NETWORK),
        "torso": ("separate", PPO),
        "activation": (a["activation"], NETWORK),
        "network_init": ("torch_uniform", NETWORK),
        "bias_init": ("torch_uniform", NETWORK),
        "policy_init_scale": (1.0, NETWORK),
        "value_init_scale": (1.0, NETWORK),
        "observation_normalization": ("after" if a["obs_normalization"] else "none", PPO),
        "observation_statistics": ("per_batch", PPO),
        "reward_scaling": ("constant", PPO),
        "reward_scale": (1.0, PPO),
        "value_normalization": ("none", PPO),
        "advantage_scaling": ("none", PPO),
        "reset_pool": (FRESH, RUNNER),
    }
    if adaptive:
        read |= {
            "desired_kl": (a["desired_kl"], PPO),
            "learning_rate_low": (1e-5, PPO),
            "learning_rate_high": (1e-2, PPO),
            "learning_rate_factor": (1.5, PPO),
        }
    if std == "clamped_parameter":
        read["initial_std"] = (a["init_std"], DISTRIBUTION)
    else:
        read["initial_log_std"] = (math.log(a["init_std"]), DISTRIBUTION)
    if a["obs_normalization"]:
        read["observation_scaling"] = ("std_epsilon", NORMALIZATION)
        read["observation_std_epsilon"] = (0.01, NORMALIZATION)
    return read


PRESET = Preset(
    name="rsl_rl",
    library="rsl-rl-lib 5.5.1, github.com/leggedrobotics/rsl_rl",
    arguments=ARGUMENTS,
    unexpressed=UNEXPRESSED,
    settings=settings,
    in_words=(
        "The task draws the resets; those of its robots are fresh for every episode. "
        + FRESH_IN_WORDS,
        "num_envs is the task's there; 4096 is what its robots are trained with.",
        "A divergence of exactly 0 leaves the rate alone; here one below 1e-6 does, since another "
        "order of sums may round it away from 0.",
        "The task says whether environments start with time on their clocks "
        "(random_elapsed_steps), as its runner does with init_at_random_ep_len.",
        "What num_mini_batches leaves over of a batch it drops; here it is refused.",
        "In 5.4.2 statistics of observations are updated at every step, and the stored batch is "
        "normalised again.",
        "Recurrent policies are not expressed, nor are " + ", ".join(UNEXPRESSED) + ".",
    ),
)

"""RSL-RL's PPO: the configuration that its documentation shows."""

from __future__ import annotations

import math

from ablations.presets.arguments import setting, usual_ppo
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Argument, Arguments, Preset, Read

PPO = "rsl_rl/algorithms/ppo.py"
RUNNER = "rsl_rl/runners/on_policy_runner.py"
STORAGE = "rsl_rl/storage/rollout_storage.py"
DISTRIBUTION = "rsl_rl/modules/distribution.py"
NETWORK = "rsl_rl/modules/mlp.py"
NORMALIZATION = "rsl_rl/modules/normalization.py"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"

ARGUMENTS = {
    "num_envs": Argument(4096, "num_envs", RUNNER),
    "num_steps_per_env": Argument(24, "unroll_length", RUNNER),
    "num_learning_epochs": Argument(5, "epochs", PPO),
    "num_mini_batches": Argument(4, "num_minibatches", PPO),
    "learning_rate": Argument(1e-3, "learning_rate", PPO),
    "schedule": "adaptive",
    "desired_kl": 0.01,
    "gamma": Argument(0.99, "discount", PPO),
    "lam": Argument(0.95, "gae_lambda", PPO),
    "clip_param": Argument(0.2, "clip_epsilon", PPO),
    "use_clipped_value_loss": True,
    "value_loss_coef": Argument(1.0, "value_coefficient", PPO),
    "entropy_coef": Argument(0.01, "entropy_coefficient", PPO),
    "max_grad_norm": Argument(1.0, "max_gradient_norm", PPO),
    "normalize_advantage_per_mini_batch": False,
    "std_type": "scalar",
    "init_std": 1.0,
    "obs_normalization": False,
    "hidden_dims": (256, 256, 256),
    "activation": Argument("elu", "activation", NETWORK),
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
        **usual_ppo(PPO, NETWORK),
        "minibatch_unit": ("transitions", STORAGE),
        "minibatch_order": ("reused", STORAGE),
        "advantage": ("timeout_bonus", PPO),
        "advantage_statistics": ("all", PPO),
        "advantage_scope": ("minibatch" if minibatch else "batch", PPO),
        "ddof": (1.0, PPO),
        "epsilon": (1e-8, PPO),
        "value_clip": ("pessimistic" if a["use_clipped_value_loss"] else "none", PPO),
        "value_clip_range": (a["clip_param"], PPO),
        "old_value": ("rollout", PPO),
        "entropy_estimate": ("closed_form", DISTRIBUTION),
        "gradient_clip": ("per_network", PPO),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": (schedule if adaptive else "constant", PPO),
        "adam_epsilon": (1e-8, PPO),
        "action_distribution": ("normal_unclipped", DISTRIBUTION),
        "policy_std": (std, DISTRIBUTION),
        "policy_layers": (list(a["hidden_dims"]), NETWORK),
        "value_layers": (list(a["hidden_dims"]), NETWORK),
        "torso": ("separate", PPO),
        "network_init": ("torch_uniform", NETWORK),
        "bias_init": ("torch_uniform", NETWORK),
        "policy_init_scale": (1.0, NETWORK),
        "observation_normalization": ("after" if a["obs_normalization"] else "none", PPO),
        "observation_statistics": ("per_batch", PPO),
        "reward_scaling": ("constant", PPO),
        "reward_scale": (1.0, PPO),
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

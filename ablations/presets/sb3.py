"""Stable-Baselines3's PPO: the defaults of `PPO('MlpPolicy')`."""

from __future__ import annotations

import math

from ablations.presets.arguments import of_whole_actions, refused, usual_ppo
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Argument, Arguments, Preset, Read

PPO = "stable_baselines3/ppo/ppo.py"
ON_POLICY = "stable_baselines3/common/on_policy_algorithm.py"
BUFFERS = "stable_baselines3/common/buffers.py"
POLICIES = "stable_baselines3/common/policies.py"
DISTRIBUTIONS = "stable_baselines3/common/distributions.py"
VEC_NORMALIZE = "stable_baselines3/common/vec_env/vec_normalize.py"
VEC_ENV = "stable_baselines3/common/vec_env/dummy_vec_env.py"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"

ARGUMENTS = {
    "n_envs": Argument(1, "num_envs", PPO),
    "n_steps": Argument(2048, "unroll_length", PPO),
    "batch_size": 64,
    "n_epochs": Argument(10, "epochs", PPO),
    "learning_rate": Argument(3e-4, "learning_rate", PPO),
    "gamma": Argument(0.99, "discount", PPO),
    "gae_lambda": Argument(0.95, "gae_lambda", PPO),
    "clip_range": Argument(0.2, "clip_epsilon", PPO),
    "clip_range_vf": Argument(None, "value_clip_range", PPO),
    "normalize_advantage": True,
    "ent_coef": Argument(0.0, "entropy_coefficient", PPO),
    "vf_coef": Argument(0.5, "value_coefficient", PPO),
    "max_grad_norm": Argument(0.5, "max_gradient_norm", PPO),
    "target_kl": Argument(None, "target_kl", PPO),
    "activation": Argument("tanh", "activation", POLICIES),
    # VecNormalize is a wrapper that users add: off by default.
    "norm_obs": False,
    "norm_reward": False,
    "clip_obs": 10.0,
    "clip_reward": 10.0,
    "epsilon": 1e-8,
    "vec_normalize_gamma": 0.99,
    "use_sde": False,
    "sde_sample_freq": -1,
}
UNEXPRESSED = {"rollout_buffer_class": (None, "a buffer of one's own")}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate Stable-Baselines3's arguments to our settings."""
    for name in ("learning_rate", "clip_range", "clip_range_vf"):
        if callable(a[name]):
            raise refused(f"{name} as a schedule", "give a number")
    if a["norm_reward"] and a["vec_normalize_gamma"] != a["gamma"]:
        raise refused(
            f"VecNormalize's own gamma, {a['vec_normalize_gamma']}, beside gamma={a['gamma']}",
            "set vec_normalize_gamma to it, or norm_reward=False",
        )
    samples = a["n_envs"] * a["n_steps"]
    if samples % a["batch_size"]:
        raise refused(
            f"batch_size={a['batch_size']}, which leaves a smaller last minibatch of {samples}",
            "choose a divisor",
        )
    read: dict[str, Read] = {
        **usual_ppo(PPO, POLICIES),
        "num_minibatches": (samples // a["batch_size"], PPO),
        "minibatch_unit": ("transitions", BUFFERS),
        "minibatch_order": ("redrawn", BUFFERS),
        # r + γV(s')z with the recursion cut at every done is the same sum
        "advantage": ("standard", ON_POLICY),
        "advantage_timing": ("iteration", ON_POLICY),
        "advantage_statistics": ("all" if a["normalize_advantage"] else "none", PPO),
        "ddof": (1.0, PPO),
        "epsilon": (1e-8, PPO),
        "value_clip": ("none" if a["clip_range_vf"] is None else "replace", PPO),
        "entropy_estimate": ("closed_form", DISTRIBUTIONS),
        "gradient_clip": ("global_norm", PPO),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": ("constant", PPO),
        "adam_epsilon": (1e-5, POLICIES),
        "kl_stop": ("none" if a["target_kl"] is None else "minibatch", PPO),
        "action_distribution": ("normal", DISTRIBUTIONS),
        "initial_log_std": (0.0, POLICIES),
        **_spread(a),
        "policy_layers": ([64, 64], POLICIES),
        "value_layers": ([64, 64], POLICIES),
        "network_init": ("orthogonal", POLICIES),
        "policy_hidden_gain": (math.sqrt(2.0), POLICIES),
        "value_hidden_gain": (math.sqrt(2.0), POLICIES),
        "policy_init_scale": (0.01, POLICIES),
        "observation_normalization": ("after" if a["norm_obs"] else "none", VEC_NORMALIZE),
        "observation_statistics": ("per_step" if a["norm_obs"] else "per_batch", VEC_NORMALIZE),
        "reward_scaling": ("running_return_std" if a["norm_reward"] else "constant", VEC_NORMALIZE),
        "reward_scale": (1.0, VEC_NORMALIZE),
        "reset_pool": (FRESH, VEC_ENV),
    }
    if a["norm_obs"]:
        read["observation_scaling"] = ("epsilon_clipped", VEC_NORMALIZE)
        read["observation_epsilon"] = (a["epsilon"], VEC_NORMALIZE)
        read["observation_clip"] = (a["clip_obs"], VEC_NORMALIZE)
    if a["norm_reward"]:
        read["reward_clip"] = (a["clip_reward"], VEC_NORMALIZE)
    return read


def _spread(a: Arguments) -> dict[str, Read]:
    if not a["use_sde"]:
        return {"policy_std": ("exp_parameter", DISTRIBUTIONS), "std_low": (0.0, DISTRIBUTIONS)}
    if a["sde_sample_freq"] != 1:
        raise refused("gSDE's noise held for several steps", "set sde_sample_freq=1")
    return {"policy_std": ("gsde", DISTRIBUTIONS)}


def of_discrete(a: Arguments) -> dict[str, Read]:
    """Translate the arguments to our settings, for discrete actions."""
    if a["use_sde"]:
        raise refused("gSDE where actions are whole numbers", "set use_sde=False")
    return of_whole_actions(settings(a)) | {"filters": (0, POLICIES)}


LIBRARY = "Stable-Baselines3 2.9.2, github.com/DLR-RM/stable-baselines3"
IN_WORDS = (
    "A last, smaller minibatch, where batch_size does not divide the batch, is refused here.",
    "The bonus for a truncation is added to the reward as VecNormalize has scaled it, which "
    "advantage=standard does too.",
    "VecNormalize's own epsilon for rewards is that for observations; here it is 1e-8 always.",
    "VecNormalize has a gamma of its own, which stays 0.99 when PPO's changes: "
    "vec_normalize_gamma, refused beside another one.",
    "Refused: schedules of learning_rate, clip_range and clip_range_vf; use_sde with another "
    "sde_sample_freq than 1, whose noise is held for several steps; "
    + ", ".join(UNEXPRESSED)
    + ".",
)
PRESET = Preset(
    name="sb3",
    library=LIBRARY,
    arguments=ARGUMENTS,
    unexpressed=UNEXPRESSED,
    settings=settings,
    in_words=(FRESH_IN_WORDS, *IN_WORDS),
    discrete=Preset(
        name="sb3",
        library=f"{LIBRARY}: its CategoricalDistribution",
        arguments=ARGUMENTS,
        unexpressed=UNEXPRESSED,
        settings=of_discrete,
        in_words=IN_WORDS,
    ),
)

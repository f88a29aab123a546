"""Brax's PPO: the defaults of `brax.training.agents.ppo.train.train`."""

from __future__ import annotations

from ablations.presets.arguments import refused, setting, usual_ppo
from ablations.presets.definition import Argument, Arguments, Preset, Read

TRAIN = "brax/training/agents/ppo/train.py"
LOSSES = "brax/training/agents/ppo/losses.py"
NETWORKS = "brax/training/agents/ppo/networks.py"
OPTIMIZER = "brax/training/agents/ppo/optimizer.py"
WRAPPERS = "brax/envs/wrappers/training.py"
DISTRIBUTION = "brax/training/distribution.py"
STATISTICS = "brax/training/acme/running_statistics.py"

ARGUMENTS = {
    "batch_size": 32,
    "num_minibatches": Argument(16, "num_minibatches", TRAIN),
    "unroll_length": Argument(10, "unroll_length", TRAIN),
    "num_updates_per_batch": Argument(2, "epochs", TRAIN),
    "learning_rate": Argument(1e-4, "learning_rate", TRAIN),
    "learning_rate_schedule": None,
    "desired_kl": 0.01,
    "learning_rate_schedule_min_lr": 1e-5,
    "learning_rate_schedule_max_lr": 1e-2,
    "entropy_cost": Argument(1e-4, "entropy_coefficient", TRAIN),
    "discounting": Argument(0.9, "discount", TRAIN),
    "gae_lambda": Argument(0.95, "gae_lambda", TRAIN),
    "clipping_epsilon": Argument(0.3, "clip_epsilon", TRAIN),
    "clipping_epsilon_value": Argument(None, "value_clip_range", LOSSES),
    "vf_loss_coefficient": 0.5,
    "reward_scaling": Argument(1.0, "reward_scale", LOSSES),
    "normalize_observations": False,
    "normalize_advantage": True,
    "max_grad_norm": Argument(None, "max_gradient_norm", OPTIMIZER),
    "policy_hidden_layer_sizes": (32,) * 4,
    "value_hidden_layer_sizes": (256,) * 5,
    "activation": Argument("swish", "activation", NETWORKS),
    "num_envs": 1,
    "normalize_observations_mode": "welford",
}
UNEXPRESSED = {
    "action_repeat": (1, "steps of the environment for each action"),
    "num_resets_per_eval": (0, "fresh resets between evaluations"),
    "bootstrap_on_timeout": (
        False,
        "discounted V(s) as a reward, before reward_scaling, where the "
        "environment says time_out; advantage=timeout_bonus pays it where the clock truncates",
    ),
    "normalize_observations_std_eps": (0.0, "added to the variance"),
    "normalize_until_count": (None, "statistics that stop to learn"),
    "use_distributional_critic": (
        False,
        "quantiles of the return, which learn A + V; "
        "critic_head=quantiles has them learn the target",
    ),
    "distribution_type": ("tanh_normal", "a normal of the action as it is"),
    "noise_std_type": ("scalar", "of distribution_type normal alone"),
    "init_noise_std": (1.0, "of distribution_type normal alone"),
    "state_dependent_std": (False, "of distribution_type normal alone"),
    "mean_clip_scale": (None, "a bound of the mean, of distribution_type normal alone"),
    "layer_norm": (False, "between the layers of a network_factory of one's own"),
}
# Both weigh all observations alike: they differ by rounding.
MODES = {"welford": "per_batch", "ema": "per_batch"}
SCHEDULES = {None: "constant", "NONE": "constant", "ADAPTIVE_KL": "adaptive_offset_kl"}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate Brax's arguments to our settings."""
    value_clip, norm = a["clipping_epsilon_value"], a["max_grad_norm"]
    schedule = setting(a, "learning_rate_schedule", SCHEDULES)
    adaptive = schedule == "adaptive_offset_kl"
    segments = a["batch_size"] * a["num_minibatches"]
    if a["num_envs"] not in (1, segments):
        raise refused(
            f"num_envs={a['num_envs']} (each unrolled several times for a batch)",
            f"{segments}, batch_size·num_minibatches, are unrolled once",
        )
    # The divergence is that of policies which see the same statistics.
    normalization = "after" if adaptive else "before"
    if not a["normalize_observations"]:
        normalization = "none"
    read: dict[str, Read] = {
        **usual_ppo(LOSSES, NETWORKS),
        "num_envs": (segments, TRAIN),
        "minibatch_unit": ("segments", TRAIN),
        "minibatch_order": ("redrawn", TRAIN),
        "advantage": ("brax", LOSSES),
        "advantage_timing": ("minibatch", LOSSES),
        "advantage_statistics": ("all" if a["normalize_advantage"] else "none", LOSSES),
        "ddof": (0.0, LOSSES),
        "epsilon": (1e-8, LOSSES),
        "value_coefficient": (0.5 * a["vf_loss_coefficient"], LOSSES),
        "value_clip": ("none" if value_clip is None else "pessimistic", LOSSES),
        "entropy_estimate": ("one_sample", DISTRIBUTION),
        "gradient_clip": ("none" if norm is None else "global_norm", OPTIMIZER),
        "learning_rate_schedule": (schedule, OPTIMIZER),
        "adam_epsilon": (1e-8, OPTIMIZER),
        "kl_stop": ("none", TRAIN),
        "action_distribution": ("tanh_normal", DISTRIBUTION),
        "policy_std": ("softplus_head", DISTRIBUTION),
        "policy_layers": (list(a["policy_hidden_layer_sizes"]), NETWORKS),
        "value_layers": (list(a["value_hidden_layer_sizes"]), NETWORKS),
        "network_init": ("lecun_uniform", NETWORKS),
        "policy_init_scale": (1.0, NETWORKS),
        "observation_normalization": (normalization, TRAIN),
        "observation_statistics": (setting(a, "normalize_observations_mode", MODES), STATISTICS),
        "observation_scaling": ("bounded_std", STATISTICS),
        "reward_scaling": ("constant", LOSSES),
        "reset_pool": (1, WRAPPERS),
    }
    if adaptive:
        read |= {
            "desired_kl": (a["desired_kl"], TRAIN),
            "learning_rate_low": (a["learning_rate_schedule_min_lr"], TRAIN),
            "learning_rate_high": (a["learning_rate_schedule_max_lr"], TRAIN),
            "learning_rate_factor": (1.5, OPTIMIZER),
        }
    if norm is not None:
        read["gradient_norm_epsilon"] = (0.0, OPTIMIZER)
    return read


PRESET = Preset(
    name="brax",
    library="Brax 0.14.2 (0b96d05), github.com/google/brax",
    arguments=ARGUMENTS,
    unexpressed=UNEXPRESSED,
    settings=settings,
    in_words=(
        "num_envs is 1 in train(), which unrolls until it has batch_size·num_minibatches segments; "
        "here so many environments are unrolled at once.",
        "With learning_rate_schedule ADAPTIVE_KL statistics of observations are updated after the "
        "gradient steps, else before them.",
        "Arguments that no setting expresses are refused: " + ", ".join(UNEXPRESSED) + ".",
        "Environments start with nothing on their clocks; here the task's random_elapsed_steps "
        "decides of that.",
    ),
)

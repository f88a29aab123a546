"""Rejax's PPO and PQN: the defaults of their classes."""

from __future__ import annotations

import math

from ablations.presets.arguments import of_whole_actions, refused
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Arguments, Preset, Read

PPO = "src/rejax/algos/ppo.py"
MIXINS = "src/rejax/algos/mixins.py"
NETWORKS = "src/rejax/networks.py"
OPTAX = "optax/_src/alias.py"
ENVIRONMENT = "gymnax/environments/environment.py"

ARGUMENTS = {
    "num_envs": 64,
    "num_steps": 64,
    "num_minibatches": 16,
    "num_epochs": 8,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_eps": 0.2,
    "vf_coef": 0.5,
    "ent_coef": 0.01,
    "max_grad_norm": math.inf,
    "normalize_observations": False,
    "normalize_rewards": False,
    "reward_normalization_discount": 0.99,
    "activation": "swish",
}


def shared(a: Arguments, file: str) -> dict[str, Read]:
    """Return the settings that both algorithms read alike; file: of the algorithm."""
    if a["normalize_rewards"] and a["reward_normalization_discount"] != a["gamma"]:
        raise refused(
            f"reward_normalization_discount={a['reward_normalization_discount']} beside "
            f"gamma={a['gamma']}",
            "set it to gamma, or normalize_rewards=False",
        )
    bound = a["max_grad_norm"]
    clipped = bound is not None and math.isfinite(bound)
    return {
        "gradient_clip": ("element_wise" if clipped else "none", file),
        **({"max_gradient_norm": (bound, file)} if clipped else {}),
        "network_init": ("lecun_normal", NETWORKS),
        "bias_init": ("zeros", NETWORKS),
        "value_init_scale": (1.0, NETWORKS),
        "reward_scaling": ("leaking_return_std" if a["normalize_rewards"] else "constant", MIXINS),
        "reward_scale": (1.0, MIXINS),
        "reset_pool": (FRESH, ENVIRONMENT),
    }


def settings(a: Arguments) -> dict[str, Read]:
    """Translate Rejax's arguments to our settings."""
    normalized = a["normalize_observations"]
    read: dict[str, Read] = {
        "num_envs": (a["num_envs"], PPO),
        "unroll_length": (a["num_steps"], PPO),
        "num_minibatches": (a["num_minibatches"], PPO),
        "epochs": (a["num_epochs"], PPO),
        "minibatch_unit": ("transitions", PPO),
        "minibatch_order": ("redrawn", PPO),
        "advantage": ("done_cut", PPO),
        "advantage_timing": ("iteration", PPO),
        "advantage_statistics": ("all", PPO),
        "advantage_scope": ("minibatch", PPO),
        "ddof": (0.0, PPO),
        "epsilon": (1e-8, PPO),
        "discount": (a["gamma"], PPO),
        "gae_lambda": (a["gae_lambda"], PPO),
        "policy_loss": ("clip", PPO),
        "clip_epsilon": (a["clip_eps"], PPO),
        "value_error": ("squared", PPO),
        "value_coefficient": (0.5 * a["vf_coef"], PPO),
        "value_clip": ("pessimistic", PPO),
        "value_clip_range": (a["clip_eps"], PPO),
        "old_value": ("rollout", PPO),
        "entropy_estimate": ("closed_form", NETWORKS),
        "entropy_coefficient": (a["ent_coef"], PPO),
        **shared(a, PPO),
        "learning_rate": (a["learning_rate"], PPO),
        "learning_rate_schedule": ("constant", PPO),
        "adam_epsilon": (1e-8, PPO),
        "kl_stop": ("none", PPO),
        "action_distribution": ("normal", PPO),
        "policy_std": ("exp_parameter", NETWORKS),
        "initial_log_std": (0.0, NETWORKS),
        "std_low": (0.0, NETWORKS),
        "policy_layers": ([64, 64], NETWORKS),
        "value_layers": ([64, 64], NETWORKS),
        "torso": ("separate", PPO),
        "activation": (a["activation"], PPO),
        "policy_init_scale": (1.0, NETWORKS),
        "observation_normalization": ("after" if normalized else "none", MIXINS),
        "observation_statistics": ("per_step_after_first" if normalized else "per_batch", MIXINS),
        "value_normalization": ("none", PPO),
        "advantage_scaling": ("none", PPO),
    }
    if normalized:
        read["observation_scaling"] = ("epsilon", MIXINS)
        read["observation_epsilon"] = (1e-8, MIXINS)
    return read


def of_discrete(a: Arguments) -> dict[str, Read]:
    """Translate Rejax's arguments to our settings, for discrete actions."""
    return of_whole_actions(settings(a)) | {"filters": (0, NETWORKS)}


LIBRARY = "Rejax 0.1.3, github.com/keraJLi/rejax"
IN_WORDS = (
    "It has an optimiser for each network and steps the actor's first; no minibatch's critic "
    "sees that step, so one Adam over both is the same.",
    "reward_normalization_discount, 0.99, is a discount of its own; another one than gamma is "
    "refused here.",
)

PPO_PRESET = Preset(
    name="rejax",
    library=LIBRARY,
    arguments=ARGUMENTS,
    settings=settings,
    in_words=(FRESH_IN_WORDS, *IN_WORDS),
    discrete=Preset(
        name="rejax",
        library=f"{LIBRARY}: its DiscretePolicy",
        arguments=ARGUMENTS,
        settings=of_discrete,
        in_words=(
            *IN_WORDS,
            "Gymnax's limit of time is a termination to it; here the task's episode_length "
            "truncates, which advantage=done_cut takes for one.",
            "configs/gymnax of its repository has others for each task, such as num_envs=5, "
            "num_steps=100, num_epochs=5 and num_minibatches=5 for CartPole-v1.",
        ),
    ),
)

# PQN

PQN = "src/rejax/algos/pqn.py"
ALGORITHM = "src/rejax/algos/algorithm.py"

PQN_ARGUMENTS = {
    "num_envs": 64,
    "num_steps": 64,
    "num_minibatches": 16,
    "num_epochs": 1,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "td_lambda": 0.9,
    "eps_start": 1.0,
    "eps_end": 0.05,
    "exploration_fraction": 0.1,
    "max_grad_norm": math.inf,
    "normalize_rewards": False,
    "reward_normalization_discount": 0.99,
}
PQN_UNEXPRESSED = {
    "normalize_observations": (False, "its targets are of observations that are not normalised")
}


def pqn_settings(a: Arguments) -> dict[str, Read]:
    """Translate the arguments of Rejax's PQN to our settings."""
    return {
        "num_envs": (a["num_envs"], MIXINS),
        "unroll_length": (a["num_steps"], MIXINS),
        "num_minibatches": (a["num_minibatches"], MIXINS),
        "epochs": (a["num_epochs"], PQN),
        "minibatch_unit": ("transitions", MIXINS),
        "minibatch_order": ("redrawn", PQN),
        "q_return": ("rejax", PQN),
        "q_truncation": ("terminal", PQN),
        "q_target": ("none", PQN),
        "discount": (a["gamma"], ALGORITHM),
        "q_lambda": (a["td_lambda"], PQN),
        "exploration": ("linear", MIXINS),
        "epsilon_start": (a["eps_start"], MIXINS),
        "epsilon_end": (a["eps_end"], MIXINS),
        "epsilon_share": (a["exploration_fraction"], MIXINS),
        "value_error": ("squared", PQN),
        "value_coefficient": (0.5, "optax/losses/_regression.py"),
        **shared(a, PQN),
        "optimizer": ("adam", PQN),
        "optimizer_reset": ("none", PQN),
        "weight_regularization": ("none", PQN),
        "adam_epsilon": (1e-8, OPTAX),
        "adam_beta1": (0.9, OPTAX),
        "adam_beta2": (0.999, OPTAX),
        "learning_rate": (a["learning_rate"], ALGORITHM),
        "learning_rate_schedule": ("constant", PQN),
        "learning_rate_warmup": ("none", PQN),
        "value_layers": ([64, 64], PQN),
        "activation": ("relu", PQN),
        "filters": (0, NETWORKS),
        "network_normalization": ("both", PQN),
        "observation_normalization": ("none", MIXINS),
        "observation_statistics": ("per_batch", MIXINS),
        "observation_scaling": ("bounded_std", MIXINS),
    }


PRESETS = (
    PPO_PRESET,
    Preset(
        name="rejax_pqn",
        library="Rejax 0.1.3, github.com/keraJLi/rejax, its PQN",
        arguments=PQN_ARGUMENTS,
        unexpressed=PQN_UNEXPRESSED,
        settings=pqn_settings,
        in_words=(
            FRESH_IN_WORDS,
            "Among actions that are equally good it draws; here the first is taken.",
            "It is evaluated with one random action in 200; here with none.",
            "normalize_observations, whose targets are of observations as they are, is refused "
            "here.",
        ),
        trainer="pqn",
    ),
)

"""Rejax's PPO and PQN: the defaults of their classes."""

from __future__ import annotations

import math

from ablations.presets.arguments import of_whole_actions, refused, usual_ppo
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Argument, Arguments, Preset, Read

PPO = "src/rejax/algos/ppo.py"
MIXINS = "src/rejax/algos/mixins.py"
NETWORKS = "src/rejax/networks.py"
OPTAX = "optax/_src/alias.py"
ENVIRONMENT = "gymnax/environments/environment.py"

ARGUMENTS = {
    "num_envs": Argument(64, "num_envs", PPO),
    "num_steps": Argument(64, "unroll_length", PPO),
    "num_minibatches": Argument(16, "num_minibatches", PPO),
    "num_epochs": Argument(8, "epochs", PPO),
    "learning_rate": Argument(3e-4, "learning_rate", PPO),
    "gamma": Argument(0.99, "discount", PPO),
    "gae_lambda": Argument(0.95, "gae_lambda", PPO),
    "clip_eps": Argument(0.2, "clip_epsilon", PPO),
    "vf_coef": 0.5,
    "ent_coef": Argument(0.01, "entropy_coefficient", PPO),
    "max_grad_norm": math.inf,
    "normalize_observations": False,
    "normalize_rewards": False,
    "reward_normalization_discount": 0.99,
    "activation": Argument("swish", "activation", PPO),
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
        **usual_ppo(PPO, NETWORKS),
        "advantage": ("done_cut", PPO),
        "advantage_statistics": ("all", PPO),
        "ddof": (0.0, PPO),
        "epsilon": (1e-8, PPO),
        "value_coefficient": (0.5 * a["vf_coef"], PPO),
        "value_clip": ("pessimistic", PPO),
        "value_clip_range": (a["clip_eps"], PPO),
        "old_value": ("rollout", PPO),
        "entropy_estimate": ("closed_form", NETWORKS),
        **shared(a, PPO),
        "learning_rate_schedule": ("constant", PPO),
        "adam_epsilon": (1e-8, PPO),
        "action_distribution": ("normal", PPO),
        "policy_std": ("exp_parameter", NETWORKS),
        "initial_log_std": (0.0, NETWORKS),
        "std_low": (0.0, NETWORKS),
        "policy_layers": ([64, 64], NETWORKS),
        "value_layers": ([64, 64], NETWORKS),
        "torso": ("separate", PPO),
        "policy_init_scale": (1.0, NETWORKS),
        "observation_normalization": ("after" if normalized else "none", MIXINS),
        "observation_statistics": ("per_step_after_first" if normalized else "per_batch", MIXINS),
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
    "num_envs": Argument(64, "num_envs", MIXINS),
    "num_steps": Argument(64, "unroll_length", MIXINS),
    "num_minibatches": Argument(16, "num_minibatches", MIXINS),
    "num_epochs": Argument(1, "epochs", PQN),
    "learning_rate": Argument(3e-4, "learning_rate", ALGORITHM),
    "gamma": Argument(0.99, "discount", ALGORITHM),
    "td_lambda": Argument(0.9, "q_lambda", PQN),
    "eps_start": Argument(1.0, "epsilon_start", MIXINS),
    "eps_end": Argument(0.05, "epsilon_end", MIXINS),
    "exploration_fraction": Argument(0.1, "epsilon_share", MIXINS),
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
        "minibatch_unit": ("transitions", MIXINS),
        "minibatch_order": ("redrawn", PQN),
        "q_return": ("rejax", PQN),
        "q_truncation": ("terminal", PQN),
        "q_target": ("none", PQN),
        "exploration": ("linear", MIXINS),
        "value_error": ("squared", PQN),
        "value_coefficient": (0.5, "optax/losses/_regression.py"),
        **shared(a, PQN),
        "optimizer": ("adam", PQN),
        "optimizer_reset": ("none", PQN),
        "weight_regularization": ("none", PQN),
        "adam_epsilon": (1e-8, OPTAX),
        "adam_beta1": (0.9, OPTAX),
        "adam_beta2": (0.999, OPTAX),
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

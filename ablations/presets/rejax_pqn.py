"""Rejax's PQN: the defaults of its class."""

from __future__ import annotations

import math

from ablations.presets.arguments import refused, require_defaults
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Arguments, Preset, Read

PQN = "src/rejax/algos/pqn.py"
ALGORITHM = "src/rejax/algos/algorithm.py"
MIXINS = "src/rejax/algos/mixins.py"
NETWORKS = "src/rejax/networks.py"
OPTAX = "optax/_src/alias.py"

ARGUMENTS = {
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
    "normalize_observations": False,
    "normalize_rewards": False,
    "reward_normalization_discount": 0.99,
}
UNEXPRESSED = {"normalize_observations": "its targets are of observations that are not normalised"}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate Rejax's arguments to our settings."""
    require_defaults(a, ARGUMENTS, UNEXPRESSED)
    if a["normalize_rewards"] and a["reward_normalization_discount"] != a["gamma"]:
        raise refused(
            f"reward_normalization_discount={a['reward_normalization_discount']} beside "
            f"gamma={a['gamma']}",
            "set it to gamma, or normalize_rewards=False",
        )
    bound = a["max_grad_norm"]
    clipped = bound is not None and math.isfinite(bound)
    read: dict[str, Read] = {
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
        "gradient_clip": ("element_wise" if clipped else "none", PQN),
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
        "network_init": ("lecun_normal", NETWORKS),
        "bias_init": ("zeros", NETWORKS),
        "value_init_scale": (1.0, NETWORKS),
        "observation_normalization": ("none", MIXINS),
        "observation_statistics": ("per_batch", MIXINS),
        "observation_scaling": ("bounded_std", MIXINS),
        "reward_scaling": ("leaking_return_std" if a["normalize_rewards"] else "constant", MIXINS),
        "reward_scale": (1.0, MIXINS),
        "reset_pool": (FRESH, "gymnax/environments/environment.py"),
    }
    if clipped:
        read["max_gradient_norm"] = (bound, PQN)
    return read


PRESET = Preset(
    name="rejax_pqn",
    library="Rejax 0.1.3, github.com/keraJLi/rejax, its PQN",
    arguments=ARGUMENTS,
    settings=settings,
    in_words=(
        FRESH_IN_WORDS,
        "Among actions that are equally good it draws; here the first is taken.",
        "It is evaluated with one random action in 200; here with none.",
        "normalize_observations, whose targets are of observations as they are, is refused here.",
    ),
    trainer="pqn",
)

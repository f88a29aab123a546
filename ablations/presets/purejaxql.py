"""PureJaxQL's PQN, by its authors: as configured for CartPole, and for MinAtar."""

from __future__ import annotations

from ablations.presets.arguments import setting
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Arguments, Preset, Read

GYMNAX, MINATAR = "purejaxql/pqn_gymnax.py", "purejaxql/pqn_minatar.py"
CONFIG = "purejaxql/config/alg"
OPTAX = "optax/_src/alias.py"
LINEAR = "flax/linen/linear.py"

ARGUMENTS = {
    "NUM_ENVS": 32,
    "NUM_STEPS": 64,
    "EPS_START": 1.0,
    "EPS_FINISH": 0.2,
    "EPS_DECAY": 0.2,
    "NUM_MINIBATCHES": 16,
    "NUM_EPOCHS": 4,
    "HIDDEN_SIZE": 256,
    "NUM_LAYERS": 2,
    "NORM_TYPE": "layer_norm",
    "LR": 1e-4,
    "MAX_GRAD_NORM": 10.0,
    "LR_LINEAR_DECAY": True,
    "REW_SCALE": 0.1,
    "GAMMA": 0.99,
    "LAMBDA": 0.95,
}
# Its network of images has one size.
MINATAR_ARGUMENTS = {
    name: value for name, value in ARGUMENTS.items() if name not in ("HIDDEN_SIZE", "NUM_LAYERS")
} | {
    "NUM_ENVS": 128,
    "NUM_STEPS": 32,
    "EPS_FINISH": 0.05,
    "EPS_DECAY": 0.1,
    "NUM_MINIBATCHES": 32,
    "NUM_EPOCHS": 2,
    "LR": 5e-4,
    "REW_SCALE": 1.0,
    "LAMBDA": 0.65,
}
NORMALIZATIONS = {"layer_norm": "both", "none": "none"}
UNEXPRESSED = {"NORM_INPUT": (False, "a batch norm of observations")}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate the arguments of pqn_gymnax.py to our settings."""
    network: dict[str, Read] = {
        "value_layers": ([a["HIDDEN_SIZE"]] * a["NUM_LAYERS"], GYMNAX),
        "filters": (0, GYMNAX),
        "network_init": ("lecun_normal", LINEAR),
    }
    return network | _common(a, GYMNAX, f"{CONFIG}/pqn_cartpole.yaml")


def minatar_settings(a: Arguments) -> dict[str, Read]:
    """Translate the arguments of pqn_minatar.py to our settings."""
    network: dict[str, Read] = {
        "value_layers": ([128], MINATAR),
        "filters": (16, MINATAR),
        "network_init": ("he_normal", MINATAR),
        "value_hidden_gain": (2**0.5, MINATAR),
    }
    return network | _common(a, MINATAR, f"{CONFIG}/pqn_minatar.yaml")


def _common(a: Arguments, script: str, config: str) -> dict[str, Read]:
    schedule = "linear_per_step" if a["LR_LINEAR_DECAY"] else "constant"
    return {
        "num_envs": (a["NUM_ENVS"], config),
        "unroll_length": (a["NUM_STEPS"], config),
        "num_minibatches": (a["NUM_MINIBATCHES"], config),
        "epochs": (a["NUM_EPOCHS"], config),
        "minibatch_unit": ("transitions", script),
        "minibatch_order": ("redrawn", script),
        "q_return": ("purejaxql", script),
        "q_truncation": ("terminal", script),
        "q_target": ("none", script),
        "discount": (a["GAMMA"], config),
        "q_lambda": (a["LAMBDA"], config),
        "exploration": ("linear", script),
        "epsilon_start": (a["EPS_START"], config),
        "epsilon_end": (a["EPS_FINISH"], config),
        "epsilon_share": (a["EPS_DECAY"], config),
        "value_error": ("squared", script),
        "value_coefficient": (0.5, script),
        "gradient_clip": ("global_norm", script),
        "max_gradient_norm": (a["MAX_GRAD_NORM"], config),
        "gradient_norm_epsilon": (0.0, "optax/transforms/_clipping.py"),
        "optimizer": ("radam", script),
        "optimizer_reset": ("none", script),
        "weight_regularization": ("none", script),
        "adam_epsilon": (1e-8, OPTAX),
        "adam_beta1": (0.9, OPTAX),
        "adam_beta2": (0.999, OPTAX),
        "learning_rate": (a["LR"], config),
        "learning_rate_schedule": (schedule, script),
        "learning_rate_warmup": ("none", script),
        "activation": ("relu", script),
        "network_normalization": (setting(a, "NORM_TYPE", NORMALIZATIONS), script),
        "bias_init": ("zeros", LINEAR),
        "value_init_scale": (1.0, script),
        "observation_normalization": ("none", script),
        "observation_statistics": ("per_batch", script),
        "observation_scaling": ("bounded_std", script),
        "reward_scaling": ("constant", script),
        "reward_scale": (a["REW_SCALE"], script),
        "reset_pool": (FRESH, "gymnax/environments/environment.py"),
    }


IN_WORDS = (
    FRESH_IN_WORDS,
    "The rate and epsilon fall over TOTAL_TIMESTEPS_DECAY steps, here over those of the run.",
    "NORM_INPUT, a batch norm of observations, has no setting here, nor has NORM_TYPE=batch_norm.",
)

PRESETS = (
    Preset(
        name="purejaxql",
        library="PureJaxQL at 47af6d7, github.com/mttga/purejaxql",
        arguments=ARGUMENTS,
        settings=settings,
        unexpressed=UNEXPRESSED,
        in_words=IN_WORDS,
        trainer="pqn",
    ),
    Preset(
        name="purejaxql_minatar",
        library="PureJaxQL at 47af6d7, github.com/mttga/purejaxql, on MinAtar",
        arguments=MINATAR_ARGUMENTS,
        settings=minatar_settings,
        unexpressed=UNEXPRESSED,
        in_words=(
            *IN_WORDS,
            "It divides observations by 255, which are 0 and 1 in MinAtar; here they stay.",
        ),
        trainer="pqn",
    ),
)

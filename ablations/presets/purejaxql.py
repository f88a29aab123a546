"""PureJaxQL's PQN, by its authors: as configured for CartPole, and for MinAtar."""

from __future__ import annotations

from ablations.presets.arguments import redefined, setting
from ablations.presets.definition import FRESH, FRESH_IN_WORDS, Argument, Arguments, Preset, Read

GYMNAX, MINATAR = "purejaxql/pqn_gymnax.py", "purejaxql/pqn_minatar.py"
CARTPOLE_CONFIG = "purejaxql/config/alg/pqn_cartpole.yaml"
MINATAR_CONFIG = "purejaxql/config/alg/pqn_minatar.yaml"
OPTAX = "optax/_src/alias.py"
LINEAR = "flax/linen/linear.py"

ARGUMENTS = {
    "NUM_ENVS": Argument(32, "num_envs", CARTPOLE_CONFIG),
    "NUM_STEPS": Argument(64, "unroll_length", CARTPOLE_CONFIG),
    "EPS_START": Argument(1.0, "epsilon_start", CARTPOLE_CONFIG),
    "EPS_FINISH": Argument(0.2, "epsilon_end", CARTPOLE_CONFIG),
    "EPS_DECAY": Argument(0.2, "epsilon_share", CARTPOLE_CONFIG),
    "NUM_MINIBATCHES": Argument(16, "num_minibatches", CARTPOLE_CONFIG),
    "NUM_EPOCHS": Argument(4, "epochs", CARTPOLE_CONFIG),
    "HIDDEN_SIZE": 256,
    "NUM_LAYERS": 2,
    "NORM_TYPE": "layer_norm",
    "LR": Argument(1e-4, "learning_rate", CARTPOLE_CONFIG),
    "MAX_GRAD_NORM": Argument(10.0, "max_gradient_norm", CARTPOLE_CONFIG),
    "LR_LINEAR_DECAY": True,
    "REW_SCALE": Argument(0.1, "reward_scale", CARTPOLE_CONFIG),
    "GAMMA": Argument(0.99, "discount", CARTPOLE_CONFIG),
    "LAMBDA": Argument(0.95, "q_lambda", CARTPOLE_CONFIG),
}
# Its network of images has one size.
MINATAR_ARGUMENTS = redefined(
    {name: of for name, of in ARGUMENTS.items() if name not in ("HIDDEN_SIZE", "NUM_LAYERS")},
    {
        "NUM_ENVS": 128,
        "NUM_STEPS": 32,
        "EPS_FINISH": 0.05,
        "EPS_DECAY": 0.1,
        "NUM_MINIBATCHES": 32,
        "NUM_EPOCHS": 2,
        "LR": 5e-4,
        "REW_SCALE": 1.0,
        "LAMBDA": 0.65,
    },
    MINATAR_CONFIG,
)
NORMALIZATIONS = {"layer_norm": "both", "none": "none"}
UNEXPRESSED = {"NORM_INPUT": (False, "a batch norm of observations")}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate the arguments of pqn_gymnax.py to our settings."""
    network: dict[str, Read] = {
        "value_layers": ([a["HIDDEN_SIZE"]] * a["NUM_LAYERS"], GYMNAX),
        "filters": (0, GYMNAX),
        "network_init": ("lecun_normal", LINEAR),
    }
    return network | _common(a, GYMNAX)


def minatar_settings(a: Arguments) -> dict[str, Read]:
    """Translate the arguments of pqn_minatar.py to our settings."""
    network: dict[str, Read] = {
        "value_layers": ([128], MINATAR),
        "filters": (16, MINATAR),
        "network_init": ("he_normal", MINATAR),
        "value_hidden_gain": (2**0.5, MINATAR),
    }
    return network | _common(a, MINATAR)


def _common(a: Arguments, script: str) -> dict[str, Read]:
    schedule = "linear_per_step" if a["LR_LINEAR_DECAY"] else "constant"
    return {
        "minibatch_unit": ("transitions", script),
        "minibatch_order": ("redrawn", script),
        "q_return": ("purejaxql", script),
        "q_truncation": ("terminal", script),
        "q_target": ("none", script),
        "exploration": ("linear", script),
        "value_error": ("squared", script),
        "value_coefficient": (0.5, script),
        "gradient_clip": ("global_norm", script),
        "gradient_norm_epsilon": (0.0, "optax/transforms/_clipping.py"),
        "optimizer": ("radam", script),
        "optimizer_reset": ("none", script),
        "weight_regularization": ("none", script),
        "adam_epsilon": (1e-8, OPTAX),
        "adam_beta1": (0.9, OPTAX),
        "adam_beta2": (0.999, OPTAX),
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
        "reset_pool": (FRESH, "gymnax/environments/environment.py"),
    }


IN_WORDS = (
    FRESH_IN_WORDS,
    "The rate and epsilon fall over TOTAL_TIMESTEPS_DECAY steps, here over those of the run.",
    "NORM_INPUT, a batch norm of observations, has no setting here, nor has NORM_TYPE=batch_norm.",
)

PRESET = Preset(
    name="purejaxql",
    library="PureJaxQL at 47af6d7, github.com/mttga/purejaxql",
    arguments=ARGUMENTS,
    settings=settings,
    unexpressed=UNEXPRESSED,
    in_words=IN_WORDS,
    trainer="pqn",
)
MINATAR_PRESET = Preset(
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
)
PRESETS = (PRESET, MINATAR_PRESET)

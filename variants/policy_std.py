# ruff: noqa: RUF001  # the formulas are in Greek
"""Source of the policy's standard deviation σ [..., A]. A structural axis.

The input that a choice reads decides what the policy's network gets. head [..., A]: A more outputs
of the last layer, so that σ depends on the state. parameter [A]: one weight s per action dimension,
from 0, the same in every state. feature_variance [..., A]: a matrix W [F, A], from 0, and
Σⱼ φⱼ²·exp(2·Wⱼ) of the last hidden layer φ [..., F], which gets no gradient from it.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats

MIN_STD = 0.001

AXIS = Axis(
    "policy_std",
    summary="where the standard deviation of the policy comes from",
    inputs={"head": floats(6, 2), "parameter": floats(2), "feature_variance": floats(6, 2)},
    structural=True,
)


@AXIS.choice(
    "softplus_head",
    formula="σ = log(1 + exp(h)) + 0.001,  h: outputs of the policy beside the mean",
    source="Brax (brax/training/distribution.py)",
    summary="a function of the state, never below 0.001",
)
def softplus_head(*, head: Array) -> Array:
    return jax.nn.softplus(head) + MIN_STD


INITIAL_STD = Number(1.0, 1e-6, 1e6, "σ that clamped_parameter and shifted_softplus_head start at")
INITIAL_LOG_STD = Number(
    0.0,
    -20.0,
    10.0,
    "log σ that policy_std starts at where it is an exponential; of gsde, of a weight",
)
STD_LOW = Number(0.0, 0.0, 1.0, "lowest σ of policy_std=exp_parameter and exp_head")
BOUNDS = (1e-6, 1e6)


@AXIS.choice(
    "exp_parameter",
    formula="σ = max(exp(initial_log_std + s), std_low),  s from 0",
    source="CleanRL, Stable-Baselines3, PureJaxRL, Rejax; TorchRL's recipe (std_low = 10⁻⁸)",
    summary="one log std per action dimension, learned: the same in every state",
    numbers={"initial_log_std": INITIAL_LOG_STD, "std_low": STD_LOW},
)
def exp_parameter(*, parameter: Array, initial_log_std: Scalar, std_low: Scalar) -> Array:
    return jnp.maximum(jnp.exp(initial_log_std + parameter), std_low)


@AXIS.choice(
    "clamped_parameter",
    formula="σ = clip(initial_std + s, 10⁻⁶, 10⁶),  s from 0",
    source="RSL-RL (rsl_rl/modules/distribution.py, std_type='scalar')",
    summary="the std itself is learned, not its logarithm: its steps are as large when it is small",
    numbers={"initial_std": INITIAL_STD},
)
def clamped_parameter(*, parameter: Array, initial_std: Scalar) -> Array:
    """Outside the bounds the gradient is 0, so s stays there."""
    return jnp.clip(initial_std + parameter, *BOUNDS)


@AXIS.choice(
    "clamped_exp_parameter",
    formula="σ = exp(clip(initial_log_std + s, log 10⁻⁶, log 10⁶)),  s from 0",
    source="RSL-RL (rsl_rl/modules/distribution.py, std_type='log')",
    summary="exp_parameter within the bounds of clamped_parameter",
    numbers={"initial_log_std": INITIAL_LOG_STD},
)
def clamped_exp_parameter(*, parameter: Array, initial_log_std: Scalar) -> Array:
    """Outside the bounds the gradient is 0, so s stays there."""
    low, high = (math.log(bound) for bound in BOUNDS)
    return jnp.exp(jnp.clip(initial_log_std + parameter, low, high))


@AXIS.choice(
    "exp_head",
    formula="σ = max(exp(initial_log_std + h), std_low),  h: outputs of the policy beside the mean",
    source="exp_parameter with a head; Andrychowicz et al. 2021 compare the two",
    summary="exp_parameter, but a function of the state: they differ in that alone",
    numbers={"initial_log_std": INITIAL_LOG_STD, "std_low": STD_LOW},
)
def exp_head(*, head: Array, initial_log_std: Scalar, std_low: Scalar) -> Array:
    return jnp.maximum(jnp.exp(initial_log_std + head), std_low)


@AXIS.choice(
    "shifted_softplus_head",
    formula=(
        "σ = log(1 + exp(h + b)) + 0.001,  h: outputs of the policy beside the mean,\n"
        "b = log(exp(initial_std) - 1), so that σ = initial_std + 0.001 where h = 0"
    ),
    source="softplus_head with an initial σ, which Andrychowicz et al. 2021 vary",
    summary="softplus_head that starts at a σ of choice; at log 2 it is softplus_head",
    numbers={"initial_std": INITIAL_STD},
)
def shifted_softplus_head(*, head: Array, initial_std: Scalar) -> Array:
    shift = initial_std + jnp.log(-jnp.expm1(-jnp.asarray(initial_std)))
    return jax.nn.softplus(head + shift) + MIN_STD


@AXIS.choice(
    "gsde",
    formula=(
        "σ = √(Σⱼ φⱼ²·exp(2·(initial_log_std + Wⱼ)) + 10⁻⁶),  W from 0,\n"
        "φ: the policy's last hidden layer, constant in differentiation"
    ),
    source=(
        "Raffin et al. 2021 (https://arxiv.org/abs/2005.05719); Stable-Baselines3, use_sde with "
        "sde_sample_freq = 1: noise is drawn anew at every step, there without the 10⁻⁶"
    ),
    summary="noise on the weights of the last layer: σ grows with the features of a state",
    numbers={"initial_log_std": INITIAL_LOG_STD},
)
def gsde(*, feature_variance: Array, initial_log_std: Scalar) -> Array:
    return jnp.sqrt(jnp.exp(2.0 * jnp.asarray(initial_log_std)) * feature_variance + 1e-6)

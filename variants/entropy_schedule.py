# ruff: noqa: RUF001  # the formulas are in Greek
"""Schedule of the entropy coefficient c from batch to batch: a structural axis.

All inputs are scalars. bonus: c of the last update. initial: entropy_coefficient, c of the first
update. progress: share of the training that is done after the last update. entropy: mean of
entropy_estimate over the last update's gradient steps, per dimension of the action. The output is c
of the next update.
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import conflict_where
from variants.shapes import Array, Scalar, floats

LOW, HIGH = 1e-6, 1e6  # the bounds of SEED RL's adaptive coefficients

AXIS = Axis(
    "entropy_schedule",
    summary="how the factor on the entropy bonus changes over training",
    inputs={"bonus": floats(), "initial": floats(), "progress": floats(), "entropy": floats()},
    structural=True,
)


@AXIS.choice(
    "constant",
    formula="c",
    source="Brax, CleanRL, Stable-Baselines3, RSL-RL, PureJaxRL, TorchRL",
    summary="the same from first to last",
)
def constant(*, bonus: Array) -> Array:
    return bonus


@AXIS.choice(
    "linear",
    formula="c₀(1 - p),  p the share of training that is behind,  c₀ = entropy_coefficient",
    source="RLlib, where entropy_coeff is a schedule",
    summary="rewards exploration at the start of training, and not at the end",
)
def linear(*, initial: Array, progress: Array) -> Array:
    return initial * (1 - jnp.clip(progress, 0, 1))


@AXIS.choice(
    "target",
    formula=(
        "c·exp(η(H̄ - H)),  H the entropy per dimension of the action,\n"
        "H̄ = entropy_target, η = entropy_rate;  within 10⁻⁶ to 10⁶"
    ),
    source=(
        "SAC's α (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905, H̄ = -1 a dimension), by "
        "plain steps on log α; of PPO: SEED RL (constraints.py), Andrychowicz et al. 2021"
    ),
    summary="the bonus rises while the entropy is below a target, and falls above it",
    numbers={
        "entropy_target": Number(
            -1.0, -1e3, 1e3, "H̄ of entropy_schedule=target, nats per dimension of the action"
        ),
        "entropy_rate": Number(
            0.01, 0.0, 1e3, "η of entropy_schedule=target: log c's step per batch and nat"
        ),
    },
)
def target(*, bonus: Array, entropy: Array, entropy_target: Scalar, entropy_rate: Scalar) -> Array:
    """A step down the gradient of log c·(H - H̄)."""
    return jnp.clip(bonus * jnp.exp(entropy_rate * (entropy_target - entropy)), LOW, HIGH)


@conflict_where(
    "entropy_schedule=target multiplies entropy_coefficient, which is 0: set it above 0, such "
    "as 0.001"
)
def a_factor_of_zero_cannot_rise(*, entropy_schedule: str, entropy_coefficient: float) -> bool:
    return entropy_schedule == "target" and entropy_coefficient <= 0


@conflict_where(
    "entropy_target={entropy_target:g} is below the entropy of any policy over whole actions, "
    "0 to the logarithm of their number: set it to 0 or more, such as 0.5"
)
def whole_actions_have_no_negative_entropy(
    *, entropy_schedule: str, entropy_target: float, discrete: float = 0.0
) -> bool:
    return entropy_schedule == "target" and bool(discrete) and entropy_target < 0

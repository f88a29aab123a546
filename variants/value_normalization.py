# ruff: noqa: RUF001  # the formulas are in Greek
"""Map between the critic's output v and the value V in units of scaled reward. A structural axis.

A choice maps values to outputs (for the loss), and with inverse=True outputs to values (for
advantages); x and the output have one shape. The scalars μ and σ² are mean and variance (ddof 0) of
all value targets so far, 0 and 1 before the first batch. A batch's targets enter after its
advantages were estimated and before its gradient steps. value_clip_range is in units of v.
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.registry import Axis
from variants.rules import conflict_where
from variants.shapes import Array, floats, symexp, symlog

LOWEST_STD = 1e-6

AXIS = Axis(
    "value_normalization",
    summary="in which units the critic answers, and so in which its loss is",
    inputs={"x": floats(6), "mean": floats(), "variance": floats(), "inverse": False},
    structural=True,
)


@AXIS.choice(
    "none",
    formula="V = v",
    source="Brax, CleanRL, Stable-Baselines3, RSL-RL, TorchRL, PureJaxRL, Rejax",
    summary="values in units of scaled reward",
)
def none(*, x: Array) -> Array:
    return x


@AXIS.choice(
    "running",
    formula="V = μ + max(σ, 10⁻⁶)·v;  μ, σ of all value targets so far",
    source="Andrychowicz et al. 2021 (value normalization), https://arxiv.org/abs/2006.05990",
    summary="the critic learns standardised targets; what it answered jumps as they move",
)
def running(*, x: Array, mean: Array, variance: Array, inverse: bool) -> Array:
    std = jnp.maximum(jnp.sqrt(variance), LOWEST_STD)
    return mean + std * x if inverse else (x - mean) / std


@AXIS.choice(
    "popart",
    formula=(
        "running, and with new statistics μ', σ' the critic's last layer is rescaled:\n"
        "W' = W·σ/σ',  b' = (σb + μ - μ')/σ'"
    ),
    source=(
        "van Hasselt et al. 2016, https://arxiv.org/abs/1602.07714, whose statistics forget; here "
        "all targets weigh alike, as in running"
    ),
    summary="as running, but no value jumps when the statistics move",
)
def popart(*, x: Array, mean: Array, variance: Array, inverse: bool) -> Array:
    return running(x=x, mean=mean, variance=variance, inverse=inverse)


@AXIS.choice(
    "symlog",
    formula="V = sign(v)(exp|v| - 1);  v learns sign(V)·ln(1 + |V|)",
    source=(
        "Hafner et al. 2023 (DreamerV3), https://arxiv.org/abs/2301.04104; with PPO: Sullivan et "
        "al. 2023, https://arxiv.org/abs/2310.17805"
    ),
    summary="large targets are squashed, small ones left nearly as they are; nothing is estimated",
)
def symlog_targets(*, x: Array, inverse: bool) -> Array:
    return symexp(x) if inverse else symlog(x)


@conflict_where(
    "value_normalization={value_normalization} takes in the targets of a whole batch before "
    "its gradient steps, and advantage_timing={advantage_timing} estimates them during these: "
    "set advantage_timing=iteration"
)
def statistics_are_of_the_rollout_s_targets(
    *, value_normalization: str, advantage_timing: str
) -> bool:
    return value_normalization in ("running", "popart") and advantage_timing != "iteration"

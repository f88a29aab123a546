# ruff: noqa: RUF001  # the formulas are in Greek
"""The scale of advantages, before advantage_statistics. A stateful, structural axis.

Shapes: advantages, their value targets R, and the output are [T, N], a whole batch. Each batch is
one call.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import conflict_where, inert_where
from variants.shapes import Array, Scalar, floats, require_equal_shapes, symlog

LOW, HIGH = 5.0, 95.0  # percentiles


class Spread(NamedTuple):
    """current: float32 scalar, S of the batches so far; only percentile changes it."""

    current: Array


def init() -> Spread:
    """Return the state before the first batch."""
    return Spread(jnp.float32(0))


AXIS = Axis(
    "advantage_scaling",
    summary="the scale of advantages, before they are standardised",
    init=init,
    inputs={"advantages": floats(5, 3), "targets": floats(5, 3)},
    structural=True,
)


@AXIS.choice(
    "none",
    formula="A",
    source="Brax, CleanRL, Stable-Baselines3, RSL-RL, TorchRL, PureJaxRL, Rejax",
    summary="advantages in units of scaled reward",
)
def none(state: Spread, *, advantages: Array) -> tuple[Spread, Array]:
    return state, advantages


@AXIS.choice(
    "percentile",
    formula=(
        "A/max(1, S),  S = ρS⁻ + (1-ρ)(Per(R, 95) - Per(R, 5)) from 0,  ρ = percentile_decay\n"
        "R: the batch's value targets"
    ),
    source=(
        "Hafner et al. 2023 (DreamerV3; retnorm in dreamerv3/configs.yaml); with PPO: Sullivan et "
        "al. 2023, https://arxiv.org/abs/2310.17805, Adkins et al. 2024, "
        "https://arxiv.org/abs/2412.07165"
    ),
    summary="large returns are scaled down, small ones never up; outliers do not count",
    numbers={
        "percentile_decay": Number(
            0.99, 0.0, 1.0, "ρ of advantage_scaling=percentile, per batch; 0: each batch by itself"
        )
    },
)
def percentile(
    state: Spread, *, advantages: Array, targets: Array, percentile_decay: Scalar
) -> tuple[Spread, Array]:
    """S includes this batch; percentiles interpolate linearly between samples."""
    require_equal_shapes(advantages=advantages, targets=targets)
    low, high = jnp.percentile(targets, jnp.array([LOW, HIGH]))
    spread = percentile_decay * state.current + (1 - percentile_decay) * (high - low)
    return Spread(spread), advantages / jnp.maximum(1.0, spread)


@AXIS.choice(
    "symlog",
    formula="sign(A)·ln(1 + |A|)",
    source="DreamerV3's symlog (Hafner et al. 2023, equation 9), applied to advantages",
    summary="large advantages are squashed, small ones left nearly as they are",
)
def symlog_advantages(state: Spread, *, advantages: Array) -> tuple[Spread, Array]:
    return state, symlog(advantages)


@conflict_where(
    "advantage_scaling={advantage_scaling} is done once per batch, and "
    "advantage_timing={advantage_timing} estimates advantages again after that: set "
    "advantage_timing=iteration"
)
def a_batch_is_scaled_as_it_was_collected(*, advantage_scaling: str, advantage_timing: str) -> bool:
    return advantage_scaling != "none" and advantage_timing != "iteration"


@inert_where(
    "advantage_statistics={advantage_statistics} divides by the std of advantages, which "
    "undoes any factor on all of them: set advantage_statistics=none",
    "advantage_scaling",
    "percentile_decay",
)
def standardising_undoes_a_factor(*, advantage_scaling: str, advantage_statistics: str) -> bool:
    return advantage_scaling == "percentile" and advantage_statistics != "none"

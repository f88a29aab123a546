# ruff: noqa: RUF001  # the formulas are in Greek
"""Normalisation of observations by running statistics. A structural axis.

Shapes: observation and output [..., O]; mean and population variance broadcast against it. Before
the first observation they are 0 and 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import inert_where
from variants.shapes import Array, Scalar, floats, symlog

AXIS = Axis(
    "observation_scaling",
    summary="what running statistics make of an observation",
    inputs={"observation": floats(6, 3), "mean": floats(3), "variance": floats(3)},
    structural=True,
)


class Seen(NamedTuple):
    """Inputs of every choice that reads statistics."""

    observation: Array
    mean: Array
    variance: Array

    @property
    def centred(self) -> Array:
        """The observation less its mean."""
        return self.observation - self.mean


OBSERVATION_EPSILON = Number(
    1e-8, 0.0, 1.0, "added to the variance that observations are scaled by"
)
OBSERVATION_CLIP = Number(10.0, 1e-6, 1e6, "bound of an observation that was scaled")


@AXIS.choice(
    "bounded_std",
    pack=Seen,
    formula="(o - μ)/clip(σ, 10⁻⁶, 10⁶)",
    source="Brax (brax/training/acme/running_statistics.py)",
    summary="in units of the standard deviation, without a bound",
)
def bounded_std(seen: Seen) -> Array:
    return seen.centred / jnp.clip(jnp.sqrt(seen.variance), 1e-6, 1e6)


@AXIS.choice(
    "epsilon",
    pack=Seen,
    formula="(o - μ)/√(σ² + ε),  ε = observation_epsilon",
    source="PureJaxRL (purejaxrl/wrappers.py), Rejax (rejax/algos/mixins.py)",
    summary="ε keeps a constant feature from being divided by 0; without a bound",
    numbers={"observation_epsilon": OBSERVATION_EPSILON},
)
def epsilon(seen: Seen, *, observation_epsilon: Scalar) -> Array:
    return seen.centred / jnp.sqrt(seen.variance + observation_epsilon)


@AXIS.choice(
    "epsilon_clipped",
    pack=Seen,
    formula="clip((o - μ)/√(σ² + ε), -c, c),  ε = observation_epsilon,  c = observation_clip",
    source="CleanRL through Gymnasium, Stable-Baselines3 (VecNormalize); c = 10 in both",
    summary="no feature is further than a bound from its mean, however rare it is",
    numbers={"observation_epsilon": OBSERVATION_EPSILON, "observation_clip": OBSERVATION_CLIP},
)
def epsilon_clipped(seen: Seen, *, observation_epsilon: Scalar, observation_clip: Scalar) -> Array:
    scaled = epsilon(seen, observation_epsilon=observation_epsilon)
    return jnp.clip(scaled, -observation_clip, observation_clip)


@AXIS.choice(
    "std_epsilon",
    pack=Seen,
    formula="(o - μ)/(σ + ε),  ε = observation_std_epsilon",
    source="RSL-RL (rsl_rl/modules/normalization.py), ε = 0.01",
    summary="a feature that hardly varies is shrunk instead of blown up",
    numbers={
        "observation_std_epsilon": Number(
            0.01, 0.0, 1.0, "added to the std by observation_scaling=std_epsilon"
        )
    },
)
def std_epsilon(seen: Seen, *, observation_std_epsilon: Scalar) -> Array:
    """Before the first statistics it returns o/(1 + ε)."""
    return seen.centred / (jnp.sqrt(seen.variance) + observation_std_epsilon)


@AXIS.choice(
    "floored_std_clipped",
    pack=Seen,
    formula="clip((o - μ)/max(σ, ε), -c, c),  ε = observation_std_low,  c = observation_clip",
    source=(
        "TorchRL's MuJoCo recipe (VecNorm, whose eps = 0.01 bounds the variance, then "
        "ClipTransform): ε = √0.01, c = 10"
    ),
    summary="a feature that hardly varies is shrunk; no feature is further from its mean than c",
    numbers={
        "observation_std_low": Number(
            0.1, 1e-30, 1.0, "lowest std of observation_scaling=floored_std_clipped"
        ),
        "observation_clip": OBSERVATION_CLIP,
    },
)
def floored_std_clipped(
    seen: Seen, *, observation_std_low: Scalar, observation_clip: Scalar
) -> Array:
    scaled = seen.centred / jnp.maximum(jnp.sqrt(seen.variance), observation_std_low)
    return jnp.clip(scaled, -observation_clip, observation_clip)


@AXIS.choice(
    "symlog",
    formula="sign(o)·ln(1 + |o|)",
    source=(
        "Hafner et al. 2023 (DreamerV3), https://arxiv.org/abs/2301.04104; with PPO: Adkins et al. "
        "2024, https://arxiv.org/abs/2412.07165"
    ),
    summary="large observations are squashed; no statistics",
)
def symlog_observations(*, observation: Array) -> Array:
    return symlog(observation)


@inert_where("observation_scaling=symlog reads no statistics", "observation_statistics")
def symlog_reads_no_statistics(*, observation_scaling: str) -> bool:
    return observation_scaling == "symlog"

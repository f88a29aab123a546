"""The samples that share a mean and a standard deviation when advantages are standardised.

Shapes: advantages, groups and the output are [B]; groups holds ids in 0 ... num_groups-1 (static).
std divides by n - ddof; ddof is 0 in JAX and NumPy projects, 1 in PyTorch projects. A set gives
exactly 0 if its values are constant or if it has no more than ddof members. The values decide that:
by rounding, a constant set has a tiny std, and a small epsilon would turn it into large advantages.
advantage_scope chooses the B samples.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import conflict_where, inert_where
from variants.shapes import Array, Scalar, floats, require_equal_shapes

AXIS = Axis(
    "advantage_statistics",
    summary="which samples share the statistics that advantages are standardised by",
    inputs={
        "advantages": floats(6),
        "groups": jax.ShapeDtypeStruct((6,), jnp.int32),
        "num_groups": 4,
    },
    numbers={
        "ddof": Number(
            0.0, 0.0, 1.0, "advantage_statistics divide by n - ddof; 1 in PyTorch's projects"
        ),
        "epsilon": Number(1e-8, 0.0, 1.0, "added to the standard deviation of advantages"),
    },
)


@AXIS.choice("none", formula="A", source="TorchRL's default", summary="advantages as they are")
def none(*, advantages: Array) -> Array:
    return advantages


def standardised(
    centred: Array, *, squares: Array, count: Scalar, constant: Array, ddof: Scalar, epsilon: Scalar
) -> Array:
    """centred / (sqrt(squares / (count - ddof)) + ε); 0 where the set is constant or too small."""
    degrees = count - ddof
    defined = ~constant & (degrees > 0)
    # Both branches of a where are differentiated, so the undefined one must be finite too.
    std = jnp.sqrt(jnp.where(defined, squares / jnp.where(degrees > 0, degrees, 1), 1))
    return jnp.where(defined, centred / (std + epsilon), 0)


@AXIS.choice(
    "all",
    formula="(A - mean A) / (std A + ε)",
    source="Brax, CleanRL, Stable-Baselines3, RSL-RL, OpenAI Baselines, PureJaxRL",
    summary="one mean and standard deviation for all samples in scope",
)
def all_samples(*, advantages: Array, ddof: Scalar, epsilon: Scalar) -> Array:
    centred = advantages - jnp.mean(advantages)
    return standardised(
        centred,
        squares=jnp.sum(jnp.square(centred)),
        count=jnp.asarray(advantages.size, advantages.dtype),
        constant=jnp.max(advantages) == jnp.min(advantages),
        ddof=ddof,
        epsilon=epsilon,
    )


@AXIS.choice(
    "all_floored",
    formula="(A - mean A) / max(std A, ε),  ε = advantage_std_low",
    source="TorchRL (torchrl/objectives/ppo.py, normalize_advantage), ε = 10⁻⁶",
    summary="as all, with a lowest standard deviation in place of an added one",
    numbers={
        "advantage_std_low": Number(
            1e-6, 1e-30, 1.0, "lowest std of advantages of advantage_statistics=all_floored"
        )
    },
)
def all_floored(*, advantages: Array, ddof: Scalar, advantage_std_low: Scalar) -> Array:
    centred = advantages - jnp.mean(advantages)
    degrees = advantages.size - ddof
    variance = jnp.sum(jnp.square(centred)) / jnp.where(degrees > 0, degrees, 1)
    defined = (jnp.max(advantages) != jnp.min(advantages)) & (degrees > 0)  # NaN: they differ
    std = jnp.sqrt(jnp.where(defined, variance, 1))
    return jnp.where(defined, centred / jnp.maximum(std, advantage_std_low), 0)


@AXIS.choice(
    "per_group",
    formula="(A - mean_g A) / (std_g A + ε),  g: the sample's group",
    source="GRPO (Shao et al. 2024, https://arxiv.org/abs/2402.03300), carried over to control",
    summary="each group by itself; on control tasks, environments that share a reset form a group",
)
def per_group(
    *, advantages: Array, groups: Array, num_groups: int, ddof: Scalar, epsilon: Scalar
) -> Array:
    require_equal_shapes(advantages=advantages, groups=groups)
    total = partial(jax.ops.segment_sum, segment_ids=groups, num_segments=num_groups)
    count = total(jnp.ones_like(advantages))
    mean = total(advantages) / jnp.maximum(count, 1)
    centred = advantages - mean[groups]
    highest = jax.ops.segment_max(advantages, groups, num_groups)
    lowest = jax.ops.segment_min(advantages, groups, num_groups)
    return standardised(
        centred,
        squares=total(jnp.square(centred))[groups],
        count=count[groups],
        constant=(highest == lowest)[groups],
        ddof=ddof,
        epsilon=epsilon,
    )


@inert_where(
    "reset_group_size={reset_group_size} makes each environment a group of its own, so "
    "per_group compares it with no other",
    "advantage_statistics",
)
def groups_of_one_compare_nothing(*, advantage_statistics: str, reset_group_size: int) -> bool:
    return advantage_statistics == "per_group" and reset_group_size == 1


@conflict_where(
    "advantage_statistics=per_group compares environments that share a reset, and with "
    "reset_pool={reset_pool} each goes on to its next one when its episode ends: set "
    "reset_pool=1"
)
def groups_share_their_reset_for_ever(*, advantage_statistics: str, reset_pool: int) -> bool:
    return advantage_statistics == "per_group" and reset_pool != 1

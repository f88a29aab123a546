"""Coefficients of the loss that change from batch to batch, by the names of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ablations.trainers.choices import apply
from ablations.trainers.trainer import Tree, Variant

Coefficients = Mapping[str, jax.Array]
SCHEDULES = {
    "entropy_coefficient": "entropy_schedule",
    "penalty_coefficient": "penalty_schedule",
}


def start(fixed: Mapping[str, str], variant: Variant) -> dict[str, jax.Array]:
    """Return the coefficients that change, at their numbers. fixed: axis -> the choice compiled in.

    There are none where their schedules are constant.
    """
    return {
        name: jnp.asarray(variant.numbers[name], jnp.float32)
        for name, axis in SCHEDULES.items()
        if fixed[axis] != "constant"
    }


def as_numbers(coefficients: Coefficients, variant: Variant) -> Variant:
    """Return the variant with its coefficients as they are now."""
    return variant._replace(numbers={**variant.numbers, **coefficients})


class Measured(NamedTuple):
    """Scalars of an update that is over.

    progress: share of the run that is behind. entropy: of the policy, per dimension of the action.
    divergence: KL(π_old, π) over the batch.
    """

    progress: jax.Array
    entropy: jax.Array
    divergence: jax.Array


def after(
    coefficients: Coefficients, variant: Variant, measure: Callable[[], Measured]
) -> dict[str, jax.Array]:
    """Return the coefficients of the next update. measure: called only where some change."""
    if not coefficients:
        return {}
    seen = measure()

    def changed(name: str, now: jax.Array) -> Tree:
        if name == "penalty_coefficient":
            return apply("penalty_schedule", variant, penalty=now, divergence=seen.divergence)
        return apply(
            "entropy_schedule",
            variant,
            bonus=now,
            initial=variant.numbers[name],
            progress=seen.progress,
            entropy=seen.entropy,
        )

    return {name: changed(name, now) for name, now in coefficients.items()}

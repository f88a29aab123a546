"""A step of Adam down a gradient, as every trainer takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import variants
from ablations.trainers.choices import apply
from ablations.trainers.trainer import Variant


class Learner(NamedTuple):
    """What a gradient step changes. schedule: what the axis learning_rate_schedule carries."""

    parameters: Any
    optimizer: optax.OptState
    schedule: Any


def start(parameters: Any, variant: Variant) -> Learner:
    """Before the first step."""
    return Learner(
        parameters=parameters,
        optimizer=optax.scale_by_adam().init(parameters),
        schedule=variants.axis("learning_rate_schedule").init(
            learning_rate=variant.numbers["learning_rate"]
        ),
    )


def descend(
    learner: Learner,
    gradient: Any,
    *,
    approximate_kl: jax.Array,
    exact_kl: jax.Array | float = jnp.nan,
    offset_kl: jax.Array | float = jnp.nan,
    progress: jax.Array,
    steps: int,
    variant: Variant,
    factors: Mapping[str, jax.Array] | None = None,
) -> tuple[Learner, jax.Array]:
    """The learner after one step, and the learning rate of that step.

    approximate_kl, exact_kl, offset_kl: how far the policy is from the one that acted, for the
        schedule; not every trainer knows the last two. progress: share of the run that is done.
        steps: of an iteration. factors: of outermost entries of the parameters, what multiplies the
        rate there.
    """
    taken = learner.optimizer.count.astype(jnp.float32)
    gradient = apply("gradient_clip", variant, gradients=gradient)
    adam = optax.scale_by_adam(eps=variant.numbers["adam_epsilon"])
    direction, optimizer = adam.update(gradient, learner.optimizer)
    schedule, rate = apply(
        "learning_rate_schedule",
        variant,
        learner.schedule,
        learning_rate=variant.numbers["learning_rate"],
        progress=progress,
        step_progress=taken / (variant.iterations * steps),
        approximate_kl=approximate_kl,
        exact_kl=exact_kl,
        offset_kl=offset_kl,
    )
    if factors:
        direction = {
            name: jax.tree.map(lambda d, f=factors[name]: f * d, part) if name in factors else part
            for name, part in direction.items()
        }
    parameters = jax.tree.map(lambda p, d: p - rate * d, learner.parameters, direction)
    return Learner(parameters, optimizer, schedule), rate

# the formulas are in Greek
"""Early end of an update once the policy has moved too far. A structural axis.

All inputs are scalars. approximate_kl: the mean of ρ - 1 - log ρ on a minibatch, before its step.
last_of_epoch: whether it is the last minibatch of its epoch. The output is `Stop`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import WHERE, inert_where, on_policy
from variants.shapes import Array, Scalar, floats

AXIS = Axis(
    "kl_stop",
    summary="whether an update ends early, once the policy has moved far enough",
    inputs={"approximate_kl": floats(), "last_of_epoch": jax.ShapeDtypeStruct((), jnp.bool_)},
    structural=True,
)

TARGET_KL = Number(0.02, 0.0, 1e3, "divergence at which kl_stop ends an update")


class Stop(NamedTuple):
    """Bool scalars. here: skip this step and all later ones. later: skip the later ones only."""

    here: Array
    later: Array


@AXIS.choice(
    "none",
    formula="every step of every epoch is taken",
    source="every library's default",
    summary="no early stop",
)
def none(*, last_of_epoch: Array) -> Stop:
    return Stop(jnp.zeros_like(last_of_epoch), jnp.zeros_like(last_of_epoch))


@AXIS.choice(
    "minibatch",
    formula="the update ends before a step on whose minibatch KL > 1.5·target_kl",
    source="Stable-Baselines3 (stable_baselines3/ppo/ppo.py), when target_kl is set",
    summary="tested on each minibatch, before its step",
    numbers={"target_kl": TARGET_KL},
)
def minibatch(*, approximate_kl: Array, target_kl: Scalar) -> Stop:
    far = approximate_kl > 1.5 * target_kl
    return Stop(far, far)


@AXIS.choice(
    "epoch",
    formula="the update ends after an epoch on whose last minibatch KL > target_kl",
    source="CleanRL (cleanrl/ppo_continuous_action.py), when target_kl is set",
    summary="tested once per epoch, on its last minibatch before the step",
    numbers={"target_kl": TARGET_KL},
)
def epoch(*, approximate_kl: Array, last_of_epoch: Array, target_kl: Scalar) -> Stop:
    far = (approximate_kl > target_kl) & last_of_epoch
    return Stop(jnp.zeros_like(far), far)


@inert_where(f"the divergence is always 0 {WHERE}", "kl_stop", "target_kl")
def the_policy_has_not_moved(
    *,
    kl_stop: str,
    epochs: int,
    num_minibatches: int,
    observation_normalization: str = "none",
    mean_perturbation: str = "none",
) -> bool:
    return kl_stop != "none" and on_policy(
        epochs, num_minibatches, observation_normalization, mean_perturbation
    )

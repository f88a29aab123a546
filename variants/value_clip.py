"""Limit on the change of a value from its value at rollout, in the critic's loss.

Shapes: values (now), targets and old_values (at rollout) are [B]. The outputs are the loss per
element [B] and the clip fraction, a scalar. error(values=, targets=) returns the loss per element.
value_clip_range ε is in units of value, so its effect depends on the scale of rewards. old_values
must come from the rollout: with the current critic's values every choice equals `none`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import WHERE, inert, on_policy
from variants.shapes import Array, Scalar, floats, require_equal_shapes

Error = Callable[..., Array]


AXIS = Axis(
    "value_clip",
    summary="whether the critic may move further than a range from its values at rollout",
    inputs={
        "error": lambda *, values, targets: jnp.square(values - targets),
        "values": floats(6),
        "targets": floats(6),
        "old_values": floats(6),
    },
    numbers={
        "value_clip_range": Number(
            0.2, 0.0, 1e6, "ε of value_clip, in units of value (scaled reward)"
        )
    },
)


def _clipped(values: Array, old_values: Array, clip_range: Scalar) -> Array:
    """V_old + clip(V - V_old, -ε, ε), written so that a value within the range keeps its bits."""
    return jnp.clip(values, old_values - clip_range, old_values + clip_range)


def _clip_fraction(values: Array, old_values: Array, clip_range: Scalar) -> Array:
    """mean(|V - V_old| > ε)."""
    return jnp.mean(jnp.abs(values - old_values) > clip_range, dtype=values.dtype)


@AXIS.choice(
    "none",
    formula="error(V)",
    source="Brax's default, TorchRL's default, Stable-Baselines3's default",
    summary="no clipping: the critic may move as far as its loss takes it",
)
def none(*, error: Error, values: Array, targets: Array) -> tuple[Array, Array]:
    """The clip fraction is NaN."""
    require_equal_shapes(values=values, targets=targets)
    return error(values=values, targets=targets), jnp.full((), jnp.nan, values.dtype)


@AXIS.choice(
    "pessimistic",
    formula="max(error(V), error(V_clip)),  V_clip = V_old + clip(V - V_old, -ε, ε)",
    source="OpenAI Baselines (ppo2), CleanRL, RSL-RL, SEED RL; TorchRL and Brax when set",
    summary="the larger of both errors: moving away from the target is never hidden by the clip",
)
def pessimistic(
    *, error: Error, values: Array, targets: Array, old_values: Array, value_clip_range: Scalar
) -> tuple[Array, Array]:
    require_equal_shapes(values=values, targets=targets, old_values=old_values)
    clipped = _clipped(values, old_values, value_clip_range)
    loss = jnp.maximum(
        error(values=values, targets=targets), error(values=clipped, targets=targets)
    )
    return loss, _clip_fraction(values, old_values, value_clip_range)


@AXIS.choice(
    "replace",
    formula="error(V_clip),  V_clip = V_old + clip(V - V_old, -ε, ε)",
    source="Stable-Baselines3 (clip_range_vf)",
    summary="the clipped error alone: outside the range the gradient is 0, wherever the target is",
)
def replace(
    *, error: Error, values: Array, targets: Array, old_values: Array, value_clip_range: Scalar
) -> tuple[Array, Array]:
    require_equal_shapes(values=values, targets=targets, old_values=old_values)
    clipped = _clipped(values, old_values, value_clip_range)
    loss = error(values=clipped, targets=targets)
    return loss, _clip_fraction(values, old_values, value_clip_range)


@inert
def values_have_not_moved(
    *, value_clip: str, epochs: int, num_minibatches: int, observation_normalization: str = "none"
) -> dict[str, str]:
    if not on_policy(epochs, num_minibatches, observation_normalization):
        return {}
    reason = f"values are always those at rollout {WHERE}, so no value_clip has anything to clip"
    return dict.fromkeys(["value_clip", *AXIS.known_numbers], reason)

"""Keeping a value close to what it was at rollout: what the critic's loss becomes.

Shapes: values (the critic now), targets and old_values (the critic **at rollout**) are [B]; the
outputs are the loss per element [B] and the clip fraction, a scalar. `error` is a function, called
as error(values=, targets=), that returns the loss per element. clip_range ε is in units of value,
so the scale of rewards decides whether it bites. Old values that come from the current critic
would make every choice `none`, silently.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from variants.registry import Axis, register
from variants.shapes import require_equal_shapes

Array = jax.Array
Error = Callable[..., Array]

_SAMPLES = jax.ShapeDtypeStruct((6,), jnp.float32)

AXIS = register(
    Axis(
        "value_clip",
        summary="whether the critic may move further than a range from its values at rollout",
        inputs={
            "error": lambda *, values, targets: jnp.square(values - targets),
            "values": _SAMPLES,
            "targets": _SAMPLES,
            "old_values": _SAMPLES,
            "clip_range": jax.ShapeDtypeStruct((), jnp.float32),
        },
    )
)


def _clipped(values: Array, old_values: Array, clip_range: Array | float) -> Array:
    """V_old + clip(V - V_old, -ε, ε), written so that a value within the range keeps its bits."""
    return jnp.clip(values, old_values - clip_range, old_values + clip_range)


def _clip_fraction(values: Array, old_values: Array, clip_range: Array | float) -> Array:
    """mean(|V - V_old| > ε)."""
    return jnp.mean(jnp.abs(values - old_values) > clip_range, dtype=values.dtype)


@AXIS.choice(
    "none",
    formula="error(V)",
    source="Brax's default, TorchRL's default, Stable-Baselines3's default",
    summary="no clipping; the clip fraction tells what a clip would have touched",
)
def none(
    *, error: Error, values: Array, targets: Array, old_values: Array, clip_range: Array | float
) -> tuple[Array, Array]:
    """error(V); the clip fraction is mean(|V - V_old| > ε) all the same, as a diagnostic."""
    require_equal_shapes(values=values, targets=targets, old_values=old_values)
    return error(values=values, targets=targets), _clip_fraction(values, old_values, clip_range)


@AXIS.choice(
    "pessimistic",
    formula="max(error(V), error(V_clip)),  V_clip = V_old + clip(V - V_old, -ε, ε)",
    source="OpenAI Baselines (ppo2), CleanRL, RSL-RL, SEED RL; TorchRL and Brax when set",
    summary="the larger of both errors: moving away from the target is never hidden by the clip",
)
def pessimistic(
    *, error: Error, values: Array, targets: Array, old_values: Array, clip_range: Array | float
) -> tuple[Array, Array]:
    """max(error(V), error(V_clip)), and mean(|V - V_old| > ε)."""
    require_equal_shapes(values=values, targets=targets, old_values=old_values)
    clipped = _clipped(values, old_values, clip_range)
    loss = jnp.maximum(
        error(values=values, targets=targets), error(values=clipped, targets=targets)
    )
    return loss, _clip_fraction(values, old_values, clip_range)


@AXIS.choice(
    "replace",
    formula="error(V_clip),  V_clip = V_old + clip(V - V_old, -ε, ε)",
    source="Stable-Baselines3 (clip_range_vf)",
    summary="the clipped error alone: outside the range the gradient is 0, wherever the target is",
)
def replace(
    *, error: Error, values: Array, targets: Array, old_values: Array, clip_range: Array | float
) -> tuple[Array, Array]:
    """error(V_clip), and mean(|V - V_old| > ε)."""
    require_equal_shapes(values=values, targets=targets, old_values=old_values)
    clipped = _clipped(values, old_values, clip_range)
    loss = error(values=clipped, targets=targets)
    return loss, _clip_fraction(values, old_values, clip_range)

"""What variants/value_error.py and variants/value_clip.py must satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from oracles import check_of, close

# Value errors

ERRORS = np.asarray([-30.0, -2.0, -1.5, -0.7, -0.01, 0.0, 0.3, 0.9, 1.0, 4.0, 1e4])


@check_of("value_error")
def error_equals_loop(module: ModuleType) -> None:
    targets = np.linspace(-1, 1, len(ERRORS))
    for scale in (0.3, 1.0, 2.0):
        expected = {"squared": [], "absolute": [], "huber": [], "smooth_l1": []}
        for e in (float(e) for e in ERRORS):
            expected["squared"].append(e * e)
            expected["absolute"].append(abs(e))
            near = abs(e) <= scale
            expected["huber"].append(e * e / 2 if near else scale * (abs(e) - scale / 2))
            expected["smooth_l1"].append(e * e / 2 / scale if near else abs(e) - scale / 2)
        for choice, losses in expected.items():
            got = module.AXIS.apply(
                choice,
                values=jnp.asarray(targets + ERRORS, jnp.float32),
                targets=jnp.asarray(targets, jnp.float32),
                error_scale=scale,
            )
            close(got, losses)


@check_of("value_error")
def huber_equals_optax(module: ModuleType) -> None:
    import optax

    values = jnp.asarray(ERRORS, jnp.float32)
    targets = jnp.zeros_like(values)
    for delta in (0.3, 1.0):
        got = module.AXIS.apply("huber", values=values, targets=targets, error_scale=delta)
        close(got, optax.losses.huber_loss(values, targets, delta=delta))
        scaled = module.AXIS.apply("smooth_l1", values=values, targets=targets, error_scale=delta)
        close(scaled * delta, got)


@check_of("value_error")
def error_gradients_are_right(module: ModuleType) -> None:
    values = jnp.asarray(ERRORS, jnp.float32)
    scale = 0.8
    expected = {
        "squared": 2 * ERRORS,
        "absolute": np.sign(ERRORS),
        "huber": np.clip(ERRORS, -scale, scale),
        "smooth_l1": np.clip(ERRORS / scale, -1, 1),
    }
    for choice, gradient in expected.items():
        got = jax.grad(
            lambda v, choice=choice: jnp.sum(
                module.AXIS.apply(choice, values=v, targets=jnp.zeros_like(v), error_scale=scale)
            )
        )(values)
        close(got, gradient)


# Value clipping


def squared(*, values: Any, targets: Any) -> Any:
    return jnp.square(values - targets)


def clip_case(seed: int, B: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    old = rng.normal(size=B)
    arrays = {
        "values": old + 0.4 * rng.normal(size=B),
        "old_values": old,
        "targets": old + rng.normal(size=B),
    }
    return {n: jnp.asarray(x, jnp.float32) for n, x in arrays.items()}


@check_of("value_clip")
def clip_equals_loop(module: ModuleType) -> None:
    case = clip_case(0)
    expected: dict[str, list[float]] = {"none": [], "pessimistic": [], "replace": []}
    outside = 0
    for v, old, target in zip(
        *(np.asarray(case[n], np.float64) for n in ("values", "old_values", "targets")), strict=True
    ):
        moved = v - old
        outside += abs(moved) > 0.2
        clipped = old + min(max(moved, -0.2), 0.2)
        expected["none"].append((v - target) ** 2)
        expected["replace"].append((clipped - target) ** 2)
        expected["pessimistic"].append(max((v - target) ** 2, (clipped - target) ** 2))
    assert 5 < outside < 35
    for choice, losses in expected.items():
        loss, fraction = module.AXIS.apply(choice, error=squared, **case, value_clip_range=0.2)
        close(loss, losses)
        close(fraction, np.nan if choice == "none" else outside / 40)


@check_of("value_clip")
def clip_bounds_the_gradient(module: ModuleType) -> None:
    """Outside the range replace has none, and pessimistic that of the unclipped error if larger."""
    case = clip_case(2)
    moved = np.asarray(case["values"] - case["old_values"])
    outside = np.abs(moved) > 0.2

    def gradient(choice):
        return np.asarray(
            jax.grad(
                lambda v: jnp.sum(
                    module.AXIS.apply(
                        choice, error=squared, **(case | {"values": v}), value_clip_range=0.2
                    )[0]
                )
            )(case["values"])
        )

    plain = 2 * np.asarray(case["values"] - case["targets"])
    close(gradient("none"), plain)
    close(gradient("replace"), np.where(outside, 0, plain))
    clipped = np.asarray(case["old_values"]) + np.clip(moved, -0.2, 0.2)
    leads = np.abs(plain / 2) > np.abs(clipped - np.asarray(case["targets"]))
    assert np.any(outside & leads)
    assert np.any(outside & ~leads)
    close(gradient("pessimistic"), np.where(outside & ~leads, 0, plain))

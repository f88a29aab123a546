"""What must hold of policy losses made for completions, beside libraries' recorded losses."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from oracles import check_of, close

EPSILON, HIGHER = 0.2, 0.4
TEMPERATURES = {"sapo_temperature": 0.8, "sapo_temperature_negative": 1.5}


def temperature(advantage: float) -> float:
    return TEMPERATURES["sapo_temperature" if advantage > 0 else "sapo_temperature_negative"]


def completions(seed: int, B: int = 9, L: int = 5) -> dict[str, np.ndarray]:
    """Completions of every length, one of them empty; ratios outside of any range."""
    rng = np.random.default_rng(seed)
    mask = np.arange(L) < np.array([0, *rng.integers(1, L + 1, B - 1)])[:, None]
    return {
        "log_ratio": 0.4 * rng.normal(size=(B, L)) * mask,
        "advantages": np.repeat(2 * rng.normal(size=(B, 1)), L, axis=1) * mask,
        "mask": mask.astype(np.float64),
    }


def losses(module: ModuleType, choice: str, **case: Any) -> tuple[Any, Any]:
    numbers = {"clip_epsilon": EPSILON, "clip_epsilon_high": HIGHER, **TEMPERATURES}
    arrays = {name: jnp.asarray(x, jnp.float32) for name, x in case.items()}
    return module.AXIS.apply(choice, numbers=numbers, **arrays)


@check_of("policy_loss")
def sequence_ratio_is_the_product(module: ModuleType) -> None:
    """One loss per completion, at each of its tokens, clipped as a whole."""
    case = completions(0)
    got, _ = losses(module, "clip_sequence", **case)
    clipped = 0
    for b, mask in enumerate(case["mask"]):
        if not mask.any():
            continue
        ratio = math.prod(math.exp(x) for x, m in zip(case["log_ratio"][b], mask, strict=True) if m)
        advantage = case["advantages"][b, 0]
        kept = min(max(ratio, 1 - EPSILON), 1 + HIGHER)
        clipped += kept != ratio
        close(got[b][mask > 0], -min(ratio * advantage, kept * advantage))
    assert clipped > 2


@check_of("policy_loss")
def sequence_ratio_is_differentiated_through_all_tokens(module: ModuleType) -> None:
    """Of the mean over completions, by log π: -sA/B at each token, 0 where s is clipped."""
    case = completions(1)

    def total(log_ratio: Any) -> Any:
        found, _ = losses(module, "clip_sequence", **(case | {"log_ratio": log_ratio}))
        lengths = np.maximum(case["mask"].sum(-1, keepdims=True), 1)
        return jnp.sum(found * case["mask"] / lengths)

    ratio = np.exp((case["log_ratio"] * case["mask"]).sum(-1, keepdims=True))
    a = case["advantages"]
    clipped = ((a > 0) & (ratio > 1 + HIGHER)) | ((a < 0) & (ratio < 1 - EPSILON))
    got = jax.grad(total)(jnp.asarray(case["log_ratio"], jnp.float32))
    close(got, np.where(clipped, 0, -ratio * a) * case["mask"], atol=2e-5)


@check_of("policy_loss")
def soft_gate_equals_loop(module: ModuleType) -> None:
    case = completions(2)
    got, _ = losses(module, "sapo", **case)
    for b, t in np.ndindex(case["mask"].shape):
        advantage = case["advantages"][b, t]
        tau = temperature(advantage)
        gate = 4 / tau / (1 + math.exp(-tau * (math.exp(case["log_ratio"][b, t]) - 1)))
        close(got[b, t], -gate * advantage)


@check_of("policy_loss")
def soft_gate_fades_on_both_sides(module: ModuleType) -> None:
    """By log π: -4σ'(τ(ρ - 1))ρA, which is that of clip at ρ = 1 alone."""
    log_ratio = np.array([-1.5, -0.3, 0.0, 0.3, 1.5])
    for advantage in (2.0, -3.0):
        gradient = jax.grad(
            lambda x, a=advantage: jnp.sum(
                losses(module, "sapo", log_ratio=x, advantages=jnp.full(5, a))[0]
            )
        )(jnp.asarray(log_ratio, jnp.float32))
        tau = temperature(advantage)
        sigmoid = 1 / (1 + np.exp(-tau * (np.exp(log_ratio) - 1)))
        slope = 4 * sigmoid * (1 - sigmoid) * np.exp(log_ratio)
        close(gradient, -slope * advantage)
        close(gradient[2], -advantage)

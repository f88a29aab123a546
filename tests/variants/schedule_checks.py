"""What variants/learning_rate_schedule.py must satisfy."""

from __future__ import annotations

from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest
from oracles import check_of, close

DESIRED = 0.02
# Far, near and on target; in between; 0, as on the first minibatch of a batch.
DIVERGENCES = (0.0, 1e-6, 0.005, 0.03, 0.05, 0.2, 0.2, 0.02, 0.011, 0.009)


def rates(module: ModuleType, choice: str, divergences, learning_rate: float = 1e-3) -> np.ndarray:
    state = module.init(learning_rate=jnp.float32(learning_rate))
    out = []
    for step, divergence in enumerate(divergences):
        state, rate = module.AXIS.apply(
            choice,
            state,
            learning_rate=jnp.float32(learning_rate),
            progress=jnp.float32(step / len(divergences)),
            approximate_kl=jnp.float32(divergence),
            step_progress=jnp.float32(0),
            exact_kl=jnp.float32(0),
            desired_kl=jnp.float32(DESIRED),
        )
        out.append(float(rate))
    return np.asarray(out)


@check_of("learning_rate_schedule")
def adaptive_equals_loop(module: ModuleType) -> None:
    rate, expected = 1e-3, []
    for divergence in DIVERGENCES:
        if divergence > 2 * DESIRED:
            rate = max(rate / 1.5, 1e-5)
        elif divergence < DESIRED / 2:
            rate = min(rate * 1.5, 1e-2)
        expected.append(rate)
    assert len(set(np.diff(expected) > 0)) == 2
    close(rates(module, "adaptive_kl", DIVERGENCES), expected, atol=0)


@check_of("learning_rate_schedule")
def adaptive_equals_brax(module: ModuleType) -> None:
    """Where the divergence is above 0: at exactly 0 Brax lets the rate be."""
    from brax.training.agents.ppo.optimizer import adaptive_kl_learning_rate

    class Optimizer:
        def __init__(self) -> None:
            self.hyperparams = {"learning_rate": jnp.float32(1e-3)}

    optimizer, expected = Optimizer(), []
    divergences = [d for d in DIVERGENCES if d > 0] * 3
    for divergence in divergences:
        optimizer, rate = adaptive_kl_learning_rate(optimizer, jnp.float32(divergence), DESIRED)
        expected.append(float(rate))
    close(rates(module, "adaptive_kl", divergences), expected, atol=0)


@check_of("learning_rate_schedule")
def adaptive_has_bounds(module: ModuleType) -> None:
    assert rates(module, "adaptive_kl", [1.0] * 40)[-1] == pytest.approx(1e-5)
    assert rates(module, "adaptive_kl", [0.0] * 40)[-1] == pytest.approx(1e-2)
    # A divergence that is not a number says nothing.
    close(rates(module, "adaptive_kl", [float("nan")] * 3), [1e-3] * 3, atol=0)


@check_of("learning_rate_schedule")
def linear_falls_to_zero(module: ModuleType) -> None:
    got = rates(module, "linear", DIVERGENCES)
    close(got, 1e-3 * (1 - np.arange(10) / 10), atol=0)
    state = module.init(learning_rate=1e-3)
    for progress, share in ((0.0, 1.0), (1.0, 0.0), (1.5, 0.0)):
        _, rate = module.AXIS.apply(
            "linear",
            state,
            learning_rate=jnp.float32(1e-3),
            progress=jnp.float32(progress),
            approximate_kl=jnp.float32(0),
            step_progress=jnp.float32(0),
            exact_kl=jnp.float32(0),
        )
        close(rate, 1e-3 * share, atol=0)


@check_of("learning_rate_schedule")
def constant_stays(module: ModuleType) -> None:
    assert np.all(rates(module, "constant", DIVERGENCES) == np.float32(1e-3))

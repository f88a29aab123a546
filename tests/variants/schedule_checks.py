"""What variants/learning_rate_schedule.py must satisfy."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType, SimpleNamespace

import jax.numpy as jnp
import numpy as np
import optax
from oracles import check_of, close

DESIRED = 0.02
INPUTS = ("progress", "step_progress", "approximate_kl", "exact_kl")
# Far, near and on target; in between; 0, as on the first minibatch of a batch.
DIVERGENCES = (0.0, 1e-6, 0.005, 0.03, 0.05, 0.2, 0.2, 0.02, 0.011, 0.009)


def rates(
    module: ModuleType, choice: str, name: str, values: Iterable[float], start: float = 1e-3
) -> np.ndarray:
    """The rate after each step. values: of the input `name`, step by step; others are 0."""
    state, found = module.init(learning_rate=jnp.float32(start)), []
    for value in values:
        given = {**dict.fromkeys(INPUTS, 0.0), "learning_rate": start, "desired_kl": DESIRED}
        given = {n: jnp.float32(x) for n, x in (given | {name: value}).items()}
        state, rate = module.AXIS.apply(choice, state, **given)
        found.append(float(rate))
    return np.asarray(found)


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
    close(rates(module, "adaptive_kl", "approximate_kl", DIVERGENCES), expected, atol=0)


@check_of("learning_rate_schedule")
def adaptive_equals_brax(module: ModuleType) -> None:
    """Of adaptive_kl where the divergence is above 0: at exactly 0 Brax lets the rate be."""
    from brax.training.agents.ppo.optimizer import adaptive_kl_learning_rate

    for choice, name, divergences in (
        ("adaptive_kl", "approximate_kl", [d for d in DIVERGENCES if d > 0] * 3),
        ("adaptive_offset_kl", "offset_kl", (4e-5, 0.0, -1e-6, *DIVERGENCES[2:], 1e-5) * 2),
    ):
        optimizer = SimpleNamespace(hyperparams={"learning_rate": jnp.float32(1e-3)})
        expected = []
        for divergence in divergences:
            optimizer, rate = adaptive_kl_learning_rate(optimizer, jnp.float32(divergence), DESIRED)
            expected.append(float(rate))
        close(rates(module, choice, name, divergences), expected, atol=0)


@check_of("learning_rate_schedule")
def adaptive_has_bounds(module: ModuleType) -> None:
    """And a divergence that is not a number says nothing."""
    for choice, name in (("adaptive_kl", "approximate_kl"), ("adaptive_exact_kl", "exact_kl")):
        close(rates(module, choice, name, [1.0] * 40)[-1], 1e-5, atol=0)
        close(rates(module, choice, name, [1e-5] * 40)[-1], 1e-2, atol=0)
        close(rates(module, choice, name, [float("nan")] * 3), [1e-3] * 3, atol=0)


@check_of("learning_rate_schedule")
def rsl_rl_reads_the_exact_divergence(module: ModuleType) -> None:
    for kl, expected in ((0.0, 1e-3), (0.041, 1e-3 / 1.5), (0.039, 1e-3), (0.009, 1.5e-3)):
        close(rates(module, "adaptive_exact_kl", "exact_kl", [kl]), [expected], atol=1e-9)


@check_of("learning_rate_schedule")
def rates_fall_as_they_say(module: ModuleType) -> None:
    """To 0 and no further: in a line by the batch, by the step, or in optax's cosine."""
    shares = (0.0, 0.3, 0.5, 1.0, 1.5)
    line = [0.1 * max(0.0, 1 - share) for share in shares]
    cosine = [optax.cosine_decay_schedule(0.1, 1000)(1000 * share) for share in shares]
    for choice, name, expected in (
        ("linear", "progress", line),
        ("linear_per_step", "step_progress", line),
        ("cosine", "step_progress", cosine),
        ("constant", "progress", [0.1] * 5),
    ):
        close(rates(module, choice, name, shares, 0.1), expected, atol=1e-9)

"""What the axes must satisfy that change coefficients of the loss, or what it looks at."""

from __future__ import annotations

import math
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import optax
from oracles import check_of, close

DIVERGENCES = (0.001, 0.05, 0.0199, 0.0301, 0.025, 0.0134, 0.0132, float("nan"))


@check_of("penalty_schedule")
def penalty_equals_a_loop(module: ModuleType) -> None:
    """Section 4 of Schulman et al. 2017, aiming at 0.02."""
    found = expected = 3.0
    for divergence in DIVERGENCES:
        if divergence < 0.02 / 1.5:
            expected /= 2
        if divergence > 0.02 * 1.5:
            expected *= 2
        numbers = {"penalty": jnp.float32(found), "divergence": jnp.float32(divergence)}
        assert float(module.AXIS.apply("constant", **numbers)) == found
        found = float(module.AXIS.apply("adaptive_kl", **numbers, penalty_kl=0.02))
        close(found, expected)


@check_of("penalty_schedule")
def penalty_comes_back(module: ModuleType) -> None:
    """From however long a time of halving or doubling."""
    for divergence, bound in ((0.0, 1e-6), (9.0, 1e6)):
        penalty = jnp.float32(1.0)
        for _ in range(60):
            penalty = module.AXIS.apply(
                "adaptive_kl", penalty=penalty, divergence=jnp.float32(divergence)
            )
        close(penalty, bound, atol=0)


def bonus(module: ModuleType, choice: str, now: float, **more: float) -> float:
    inputs = {"bonus": now, "initial": 0.3, "progress": 0.25, "entropy": 0.5} | more
    return float(module.AXIS.apply(choice, **{name: jnp.float32(x) for name, x in inputs.items()}))


@check_of("entropy_schedule")
def bonus_equals_a_loop(module: ModuleType) -> None:
    now, logarithm = 0.2, math.log(0.2)
    for entropy in (1.4, -0.2, 0.6, 0.7, -3.0):
        logarithm -= 0.05 * (entropy - 0.6)
        now = bonus(module, "target", now, entropy=entropy, entropy_target=0.6, entropy_rate=0.05)
        close(now, math.exp(logarithm))
    assert bonus(module, "constant", 0.125) == 0.125


@check_of("entropy_schedule")
def bonus_is_a_gradient_step_of_sac(module: ModuleType) -> None:
    """On J = log α·(H - H̄), with H from samples of -log π, as Stable-Baselines3 has it."""
    surprises = np.random.default_rng(0).normal(size=50)
    gradient = np.mean(surprises) - (-1.0)
    after = bonus(
        module, "target", 0.2, entropy=np.mean(surprises), entropy_target=-1.0, entropy_rate=0.1
    )
    close(after, 0.2 * math.exp(-0.1 * gradient))


@check_of("entropy_schedule")
def bonus_falls_in_a_line(module: ModuleType) -> None:
    for progress, share in ((0.0, 1.0), (0.25, 0.75), (1.0, 0.0), (1.5, 0.0)):
        close(bonus(module, "linear", 9.0, progress=progress), 0.3 * share)


@check_of("entropy_schedule")
def bonus_stays_within_bounds(module: ModuleType) -> None:
    for entropy, bound in ((500.0, 1e-6), (-500.0, 1e6)):
        close(bonus(module, "target", 0.2, entropy=entropy, entropy_rate=1.0), bound, atol=0)


@check_of("mean_perturbation")
def means_are_displaced_as_in_cleanrl(module: ModuleType) -> None:
    """By a sample of the uniform distribution between -α and α for each mean."""
    rng = np.random.default_rng(1)
    mean, noise = rng.normal(size=(5, 3)), rng.random((5, 3))
    inputs = {"mean": jnp.asarray(mean, jnp.float32), "noise": jnp.asarray(noise, jnp.float32)}
    found = module.AXIS.apply("uniform", **inputs, perturbation_width=0.7)
    close(
        found,
        [
            [m - 0.7 + u * 1.4 for m, u in zip(*x, strict=True)]
            for x in zip(mean, noise, strict=True)
        ],
    )
    assert np.array_equal(module.AXIS.apply("none", **inputs), inputs["mean"])


@check_of("learning_rate_warmup")
def rates_rise_as_optax_has_it(module: ModuleType) -> None:
    """Over 7 of 28 gradient steps, 4 in a batch; then a cosine, or a line by the batch."""
    total, share, peak = 28, 0.25, 0.3
    rises = optax.warmup_cosine_decay_schedule(0.0, peak, 7, total)
    for k in range(total):
        inputs = {"taken": k, "total": total, "progress": k // 4 / 7, "step_progress": k / total}
        inputs = {name: jnp.float32(x) for name, x in inputs.items()}
        warmup = module.AXIS.apply("linear", **inputs, warmup_share=share)
        falls = 0.5 * (1 + math.cos(math.pi * float(warmup.step_progress)))
        close(peak * warmup.factor * falls, rises(k))
        close(warmup.progress, max(0.0, (k // 4 * 4 - 7) / 21))
        plain = module.AXIS.apply("none", **inputs)
        assert plain == (1.0, inputs["progress"], inputs["step_progress"])


@check_of("learning_rate_warmup")
def a_training_of_unknown_length_has_no_rise(module: ModuleType) -> None:
    inputs = {"taken": 3.0, "total": math.inf, "progress": 0.0, "step_progress": 0.0}
    inputs = {name: jnp.float32(x) for name, x in inputs.items()}
    assert module.AXIS.apply("linear", **inputs) == (1.0, 0.0, 0.0)
    whole = module.AXIS.apply("linear", **inputs | {"total": jnp.float32(12)}, warmup_share=1.0)
    assert whole == (0.25, 0.0, 0.0)

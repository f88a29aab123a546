"""Units of values, advantages and observations against plain loops: what symlog,
value_normalization, advantage_scaling and observation_scaling satisfy.
"""

from __future__ import annotations

import math
from types import ModuleType

import jax.numpy as jnp
import numpy as np
from oracles import check_of, close

X = np.concatenate([np.random.default_rng(0).normal(size=40) * 30, [0.0, 1e-3, -1e-3]])


def symlog_of(x: float) -> float:
    return math.copysign(math.log(1 + abs(x)), x)


# What variants/shapes.py must satisfy


@check_of("shapes")
def symlog_equals_a_loop(module: ModuleType) -> None:
    close(module.symlog(jnp.asarray(X)), [symlog_of(x) for x in X])


@check_of("shapes")
def symexp_undoes_it(module: ModuleType) -> None:
    close(module.symexp(module.symlog(jnp.asarray(X))), X, rtol=1e-4)
    close(module.symlog(jnp.float32(math.e - 1)), 1.0)


# What variants/value_normalization.py must satisfy


def outputs(module: ModuleType, choice: str, variance: float = 9.0, inverse: bool = False, x=X):
    return module.AXIS.apply(
        choice, x=jnp.asarray(x, jnp.float32), mean=2.0, variance=variance, inverse=inverse
    )


@check_of("value_normalization")
def statistics_equal_a_loop(module: ModuleType) -> None:
    for choice in ("running", "popart"):
        close(outputs(module, choice), [(x - 2) / 3 for x in X])
        close(outputs(module, choice, inverse=True), [2 + 3 * x for x in X])
        # Constant targets: the std has a floor.
        close(outputs(module, choice, variance=0.0, x=[2.5]), [0.5e6])


@check_of("value_normalization")
def every_map_has_its_inverse(module: ModuleType) -> None:
    for choice in module.AXIS:
        there = outputs(module, choice)
        close(outputs(module, choice, inverse=True, x=there), X, rtol=1e-4, atol=1e-4)


@check_of("value_normalization")
def none_and_symlog_read_no_statistics(module: ModuleType) -> None:
    assert np.array_equal(outputs(module, "none"), X.astype(np.float32))
    close(outputs(module, "symlog"), [symlog_of(x) for x in X])


# What variants/advantage_scaling.py must satisfy


def percentile_of(samples: list[float], share: float) -> float:
    """Between the two neighbours of place share·(n - 1) in order, linearly."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 2)
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


def batches(scale: float) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [
        (scale * rng.normal(size=(6, 8)), scale * (i + rng.normal(size=(6, 8)))) for i in range(4)
    ]


def run(module: ModuleType, choice: str, given, **numbers: float) -> list[np.ndarray]:
    state, found = module.init(), []
    for advantages, targets in given:
        state, out = module.AXIS.apply(
            choice,
            state,
            advantages=jnp.asarray(advantages, jnp.float32),
            targets=jnp.asarray(targets, jnp.float32),
            **numbers,
        )
        found.append(np.asarray(out))
    return found


@check_of("advantage_scaling")
def percentile_equals_a_loop(module: ModuleType) -> None:
    for decay in (0.0, 0.7, 0.99):
        spread, expected = 0.0, []
        for advantages, targets in batches(20.0):
            samples = targets.ravel().tolist()
            now = percentile_of(samples, 0.95) - percentile_of(samples, 0.05)
            spread = decay * spread + (1 - decay) * now
            expected.append(advantages / max(1.0, spread))
        close(run(module, "percentile", batches(20.0), percentile_decay=decay), expected)


@check_of("advantage_scaling")
def small_returns_are_never_scaled_up(module: ModuleType) -> None:
    for got, (advantages, _) in zip(
        run(module, "percentile", batches(0.01)), batches(0.01), strict=True
    ):
        assert np.array_equal(got, advantages.astype(np.float32))


@check_of("advantage_scaling")
def symlog_and_none_keep_no_state(module: ModuleType) -> None:
    for choice, each in (("none", lambda x: x), ("symlog", symlog_of)):
        for got, (advantages, _) in zip(
            run(module, choice, batches(20.0)), batches(20.0), strict=True
        ):
            close(got, np.vectorize(each)(advantages))


# What is new in variants/observation_scaling.py


@check_of("observation_scaling")
def floored_equals_a_loop(module: ModuleType) -> None:
    observation = np.array([[1.0, 40.0, 0.3], [-2.0, -70.0, 0.2]])
    mean, std, low, bound = [0.5, 0.0, 0.25], [2.0, 3.0, 1e-4], 0.01, 10.0
    got = module.AXIS.apply(
        "floored_std_clipped",
        observation=jnp.asarray(observation),
        mean=jnp.asarray(mean),
        variance=jnp.square(jnp.asarray(std)),
        observation_std_low=low,
        observation_clip=bound,
    )
    expected = [
        [
            min(max((o - m) / max(s, low), -bound), bound)
            for o, m, s in zip(row, mean, std, strict=True)
        ]
        for row in observation
    ]
    close(got, expected)


@check_of("observation_scaling")
def symlog_observations_equal_a_loop(module: ModuleType) -> None:
    zeros = jnp.zeros(X.shape)
    got = module.AXIS.apply("symlog", observation=jnp.asarray(X), mean=zeros, variance=zeros)
    close(got, [symlog_of(x) for x in X])

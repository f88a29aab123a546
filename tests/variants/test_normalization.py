# the formulas are in Greek
"""Units of values, advantages and observations against plain loops; and mutations of the formulas,
each of which some check notices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from oracles import close
from test_mutations import Mutation, require_noticed

import variants
import variants.advantage_scaling
import variants.learning_rate_schedule
import variants.observation_scaling
import variants.symlog
import variants.value_normalization

X = np.concatenate([np.random.default_rng(0).normal(size=40) * 30, [0.0, 1e-3, -1e-3]])


def symlog_of(x: float) -> float:
    return math.copysign(math.log(1 + abs(x)), x)


# What variants/symlog.py must satisfy


def symlog_equals_a_loop(module: ModuleType) -> None:
    close(module.symlog(jnp.asarray(X)), [symlog_of(x) for x in X])


def symexp_undoes_it(module: ModuleType) -> None:
    close(module.symexp(module.symlog(jnp.asarray(X))), X, rtol=1e-4)
    close(module.symlog(jnp.float32(math.e - 1)), 1.0)


# What variants/value_normalization.py must satisfy


def outputs(module: ModuleType, choice: str, variance: float = 9.0, inverse: bool = False, x=X):
    return module.AXIS.apply(
        choice, x=jnp.asarray(x, jnp.float32), mean=2.0, variance=variance, inverse=inverse
    )


def statistics_equal_a_loop(module: ModuleType) -> None:
    for choice in ("running", "popart"):
        close(outputs(module, choice), [(x - 2) / 3 for x in X])
        close(outputs(module, choice, inverse=True), [2 + 3 * x for x in X])
        # Constant targets: the std has a floor.
        close(outputs(module, choice, variance=0.0, x=[2.5]), [0.5e6])


def every_map_has_its_inverse(module: ModuleType) -> None:
    for choice in module.AXIS:
        there = outputs(module, choice)
        close(outputs(module, choice, inverse=True, x=there), X, rtol=1e-4, atol=1e-4)


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


def percentile_equals_a_loop(module: ModuleType) -> None:
    for decay in (0.0, 0.7, 0.99):
        spread, expected = 0.0, []
        for advantages, targets in batches(20.0):
            samples = targets.ravel().tolist()
            now = percentile_of(samples, 0.95) - percentile_of(samples, 0.05)
            spread = decay * spread + (1 - decay) * now
            expected.append(advantages / max(1.0, spread))
        close(run(module, "percentile", batches(20.0), percentile_decay=decay), expected)


def small_returns_are_never_scaled_up(module: ModuleType) -> None:
    for got, (advantages, _) in zip(
        run(module, "percentile", batches(0.01)), batches(0.01), strict=True
    ):
        assert np.array_equal(got, advantages.astype(np.float32))


def an_outlier_does_not_count(module: ModuleType) -> None:
    plain, wild = batches(20.0), batches(20.0)
    for _, targets in wild:
        targets[np.unravel_index(targets.argmax(), targets.shape)] = 1e6
    for one, other in zip(
        run(module, "percentile", plain), run(module, "percentile", wild), strict=True
    ):
        assert np.array_equal(one, other)


def symlog_and_none_keep_no_state(module: ModuleType) -> None:
    for choice, each in (("none", lambda x: x), ("symlog", symlog_of)):
        for got, (advantages, _) in zip(
            run(module, choice, batches(20.0)), batches(20.0), strict=True
        ):
            close(got, np.vectorize(each)(advantages))


# What is new in variants/observation_scaling.py and variants/learning_rate_schedule.py


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


def symlog_observations_equal_a_loop(module: ModuleType) -> None:
    zeros = jnp.zeros(X.shape)
    got = module.AXIS.apply("symlog", observation=jnp.asarray(X), mean=zeros, variance=zeros)
    close(got, [symlog_of(x) for x in X])


def offset_schedule_equals_brax(module: ModuleType) -> None:
    from brax.training.agents.ppo.optimizer import adaptive_kl_learning_rate

    optimizer = SimpleNamespace(hyperparams={"learning_rate": jnp.float32(1e-3)})
    state = module.init(learning_rate=jnp.float32(1e-3))
    for divergence in (4e-5, 0.005, 0.0, -1e-6, 0.03, 0.05, 0.2, 0.2, 0.2, 1e-5) * 2:
        _, expected = adaptive_kl_learning_rate(optimizer, jnp.float32(divergence), 0.02)
        state, rate = module.AXIS.apply(
            "adaptive_offset_kl",
            state,
            learning_rate=jnp.float32(1e-3),
            progress=jnp.float32(0),
            approximate_kl=jnp.float32(9),
            step_progress=jnp.float32(0),
            exact_kl=jnp.float32(9),
            offset_kl=jnp.float32(divergence),
            desired_kl=jnp.float32(0.02),
        )
        close(rate, expected, atol=0)


CHECKS: dict[ModuleType, tuple[Callable[[ModuleType], None], ...]] = {
    variants.symlog: (symlog_equals_a_loop, symexp_undoes_it),
    variants.value_normalization: (
        statistics_equal_a_loop,
        every_map_has_its_inverse,
        none_and_symlog_read_no_statistics,
    ),
    variants.advantage_scaling: (
        percentile_equals_a_loop,
        small_returns_are_never_scaled_up,
        an_outlier_does_not_count,
        symlog_and_none_keep_no_state,
    ),
    variants.observation_scaling: (floored_equals_a_loop, symlog_observations_equal_a_loop),
    variants.learning_rate_schedule: (offset_schedule_equals_brax,),
}

_values = variants.value_normalization
_advantages = variants.advantage_scaling
_observations = variants.observation_scaling

MUTATIONS = (
    Mutation("a logarithm of x", variants.symlog.symlog, "jnp.log1p", "jnp.log"),
    Mutation("an even logarithm", variants.symlog.symlog, "jnp.sign(x) * ", ""),
    Mutation("not its inverse", variants.symlog.symexp, "jnp.expm1", "jnp.exp"),
    Mutation("a std without its floor", _values.running, "LOWEST_STD)", "0.0)"),
    Mutation("the way back forgets the mean", _values.running, "mean + std * x", "std * x"),
    Mutation("a variance for a std", _values.running, "jnp.sqrt(variance)", "variance"),
    Mutation("there for back", _values.symlog_targets, "if inverse", "if not inverse"),
    Mutation("scaled up too", _advantages.percentile, "jnp.maximum(1.0, spread)", "spread"),
    Mutation("the range of all", _advantages.percentile, "[LOW, HIGH]", "[0.0, 100.0]"),
    Mutation(
        "of advantages",
        _advantages.percentile,
        "jnp.percentile(targets",
        "jnp.percentile(advantages",
    ),
    Mutation(
        "without this batch",
        _advantages.percentile,
        "maximum(1.0, spread)",
        "maximum(1.0, state.current)",
    ),
    Mutation("a mean that adds up", _advantages.percentile, "(1 - percentile_decay) *", ""),
    Mutation(
        "a range that is forgotten", _advantages.percentile, "return Spread(spread)", "return state"
    ),
    Mutation(
        "ε added",
        _observations.floored_std_clipped,
        "jnp.maximum(jnp.sqrt(variance), observation_std_low)",
        "(jnp.sqrt(variance) + observation_std_low)",
    ),
    Mutation(
        "no bound",
        _observations.floored_std_clipped,
        "jnp.clip(scaled, -observation_clip, observation_clip)",
        "scaled",
    ),
    Mutation(
        "0 raises the rate",
        variants.learning_rate_schedule.adaptive_offset_kl,
        "offset_kl > 0",
        "offset_kl > -1",
    ),
    Mutation(
        "another divergence",
        variants.learning_rate_schedule.adaptive_offset_kl,
        "approximate_kl=offset_kl",
        "approximate_kl=0 * offset_kl",
    ),
)


@pytest.mark.parametrize(
    ("module", "check"),
    [(module, check) for module, checks in CHECKS.items() for check in checks],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_formula(module, check):
    check(module)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.mistake)
def test_mutation_is_noticed(mutation):
    require_noticed(mutation, CHECKS)


def test_refused_combinations():
    for setting in (
        {"value_normalization": "running"},
        {"value_normalization": "popart"},
        {"advantage_scaling": "percentile"},
        {"advantage_scaling": "symlog"},
    ):
        (complaint,) = variants.conflicts(setting | {"advantage_timing": "epoch"})
        assert "set advantage_timing=iteration" in complaint
        assert not variants.conflicts(setting | {"advantage_timing": "iteration"})
    assert not variants.conflicts({"value_normalization": "symlog", "advantage_timing": "epoch"})
    grouped = {"advantage_statistics": "per_group"}
    (complaint,) = variants.conflicts(grouped | {"reset_pool": 4})
    assert "set reset_pool=1" in complaint
    assert not variants.conflicts(grouped | {"reset_pool": 1})


def test_what_cannot_act_is_named():
    scaled = {"advantage_scaling": "percentile"}
    found = variants.inert_settings(scaled | {"advantage_statistics": "all"})
    assert found.keys() == {"advantage_scaling", "percentile_decay"}
    assert not variants.inert_settings(scaled | {"advantage_statistics": "none"})
    found = variants.inert_settings({"observation_scaling": "symlog"})
    assert found.keys() == {"observation_statistics"}

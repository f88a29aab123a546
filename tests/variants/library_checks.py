"""What the axes that only libraries' presets need must satisfy: oracles in NumPy, float64."""

from __future__ import annotations

import itertools
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from oracles import check_of, close, golden
from scipy import stats


def _policy(seed: int, B: int = 40, A: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mean, noise = rng.normal(size=(2, B, A))
    std = rng.uniform(0.2, 1.5, (B, A))
    return mean, std, mean + std * noise


def _normal(mean: np.ndarray, std: np.ndarray, x: np.ndarray) -> np.ndarray:
    density = np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
    return np.log(density).sum(-1)


@check_of("action_distribution")
def actions_are_what_was_drawn(module: ModuleType) -> None:
    mean, std, x = _policy(0)
    assert (np.abs(x) > 1).any()
    inputs = {"mean": jnp.asarray(mean), "std": jnp.asarray(std), "x": jnp.asarray(x)}
    for choice, action, slope in (
        ("tanh_normal", np.tanh(x), np.log(1 - np.tanh(x) ** 2)),
        ("tanh_normal_inverted", np.tanh(x), np.log(1 - np.tanh(x) ** 2)),
        ("normal", np.clip(x, -1, 1), np.zeros_like(x)),
        ("normal_unclipped", x, np.zeros_like(x)),
    ):
        drawn = module.AXIS.apply(choice, **inputs)
        close(drawn.action, action)
        close(drawn.log_prob, _normal(mean, std, x), rtol=1e-3 if "inv" in choice else 1e-5)
        close(drawn.log_slope, slope, rtol=1e-3 if "inv" in choice else 1e-5)


@check_of("action_distribution")
def saturated_actions_stay_finite(module: ModuleType) -> None:
    far = jnp.full((1, 2), 30.0)
    inputs = {"mean": jnp.zeros((1, 2)), "std": jnp.ones((1, 2)), "x": far}
    kept = module.AXIS.apply("tanh_normal", **inputs)
    close(kept.log_prob, _normal(np.zeros((1, 2)), np.ones((1, 2)), np.asarray(far)))
    close(kept.log_slope, np.full((1, 2), 2 * np.log(2.0) - 60))
    inverted = module.AXIS.apply("tanh_normal_inverted", **inputs)
    close(inverted.action, np.full((1, 2), 1 - 1e-6), rtol=1e-7, atol=0)
    back = np.full((1, 2), np.arctanh(1 - 1e-6))
    close(inverted.log_prob, _normal(np.zeros((1, 2)), np.ones((1, 2)), back), rtol=1e-2)


@check_of("action_distribution")
def beta_is_scipys(module: ModuleType) -> None:
    rng = np.random.default_rng(1)
    old, new = (2.0 * rng.normal(size=(5, 6)) for _ in range(2))
    made, other = (module.AXIS.apply("beta", outputs=jnp.asarray(raw)) for raw in (old, new))
    known, known_other = (
        stats.beta(*np.split(1.0 + np.logaddexp(0.0, raw), 2, axis=-1)) for raw in (old, new)
    )
    x = known.rvs(size=(5, 3), random_state=2)
    close(made.log_prob(jnp.asarray(x)), known.logpdf(x).sum(-1), rtol=1e-4)
    close(made.action(jnp.asarray(x)), 2 * x - 1)
    close(made.entropy(), (known.entropy() + np.log(2)).sum(-1), rtol=1e-4)
    grid = np.linspace(0, 1, 20_002)[1:-1, None, None]
    density = known.pdf(grid)
    close(made.mode(), grid[density.argmax(0), 0, 0], atol=1e-4)
    divergence = density * (known.logpdf(grid) - known_other.logpdf(grid))
    close(made.kl(other), divergence.mean(0).sum(-1), rtol=1e-3, atol=1e-4)
    close(made.kl(made), np.zeros(5), atol=2e-6)


@check_of("action_distribution")
def beta_draws_as_scipy(module: ModuleType) -> None:
    raw = jnp.asarray([1.0, -1.0, 3.0, 2.0])
    made = module.AXIS.apply("beta", outputs=raw)
    x = jax.vmap(made.sample)(jax.random.split(jax.random.key(0), 2000))
    for i in range(2):
        known = stats.beta(float(made.alpha[i]), float(made.beta[i]))
        assert stats.kstest(x[:, i], known.cdf).pvalue > 0.01
    # One that leans on its bounds stays within them
    made = module.AXIS.apply("beta", outputs=jnp.asarray([1e6, -1e6, -1e6, 1e6]))
    x = np.asarray(jax.vmap(made.sample)(jax.random.split(jax.random.key(0), 100)))
    assert (x > 0.0).all()
    assert (x < 1.0).all()
    assert np.isfinite(jax.vmap(made.log_prob)(jnp.asarray(x))).all()


@check_of("action_distribution")
def beta_has_slopes_everywhere(module: ModuleType) -> None:
    """At the bounds too, and where it is flat or all but one point."""
    extremes = np.array(list(itertools.product((-200.0, 0.0, 200.0, 1e4), repeat=2)))
    for x in (module.EDGE, 0.5, 1.0 - module.EDGE):

        def asked(raw: jax.Array, x: float = x) -> jax.Array:
            made = module.AXIS.apply("beta", outputs=raw)
            other = module.AXIS.apply("beta", outputs=raw + 0.1)
            at = jnp.full_like(made.alpha, x)
            return made.log_prob(at) + made.entropy() + made.kl(other) + made.mode()[..., 0]

        values, slopes = jax.vmap(jax.value_and_grad(asked))(jnp.asarray(extremes))
        assert np.isfinite(values).all()
        assert np.isfinite(slopes).all()
    flat = module.AXIS.apply("beta", outputs=jnp.full(2, -200.0))
    close(flat.mode(), [0.5])


@check_of("policy_std")
def stds_are_positive_and_start_where_they_should(module: ModuleType) -> None:
    head = np.linspace(-30, 30, 12).reshape(6, 2)
    parameter = np.array([-0.4, 0.7])
    inputs = {
        "head": jnp.asarray(head),
        "parameter": jnp.asarray(parameter),
        "feature_variance": jnp.square(jnp.asarray(head)),
    }
    close(module.AXIS.apply("softplus_head", **inputs), np.log1p(np.exp(head)) + 1e-3)
    apply = module.AXIS.apply
    close(apply("exp_parameter", **inputs), np.exp(parameter))
    close(apply("exp_parameter", **inputs, initial_log_std=-1.0), np.exp(parameter - 1))
    close(apply("exp_parameter", **inputs, std_low=1.0), [1.0, np.exp(0.7)])
    close(apply("clamped_parameter", **inputs), [0.6, 1.7])
    close(apply("clamped_parameter", **inputs, initial_std=0.3), [1e-6, 1.0], atol=1e-8)
    close(
        apply("clamped_parameter", **{**inputs, "parameter": jnp.asarray([3e6, 0.0])}), [1e6, 1.0]
    )
    close(apply("clamped_exp_parameter", **inputs, initial_log_std=-1.0), np.exp(parameter - 1))
    far = {**inputs, "parameter": jnp.asarray([-20.0, 20.0])}
    close(apply("clamped_exp_parameter", **far), [1e-6, 1e6], atol=1e-9)
    close(apply("exp_head", **inputs, initial_log_std=-1.0, std_low=0.1), _floored(head - 1))
    zero = {**inputs, "head": jnp.zeros((1, 2)), "feature_variance": jnp.zeros((1, 2))}
    for first in (0.05, 0.6, 3.0, 200.0):
        close(apply("shifted_softplus_head", **zero, initial_std=first), [[first + 1e-3] * 2])
        shifted = np.logaddexp(0, head + np.log(np.expm1(first))) + 1e-3
        close(apply("shifted_softplus_head", **inputs, initial_std=first), shifted)
    expected = np.sqrt(np.square(np.exp(-2.0) * head) + 1e-6)
    close(apply("gsde", **inputs, initial_log_std=-2.0), expected)
    close(apply("gsde", **zero), [[1e-3] * 2])
    same = apply("shifted_softplus_head", **inputs, initial_std=np.log(2.0))
    close(same, apply("softplus_head", **inputs))


def _floored(log_std: np.ndarray) -> np.ndarray:
    return np.maximum(np.exp(log_std), 0.1)


@check_of("observation_scaling")
def observations_are_scaled(module: ModuleType) -> None:
    rng = np.random.default_rng(1)
    o = rng.normal(size=(6, 3)) * 30
    mean, variance = np.array([0.5, -3.0, 1.0]), np.array([4.0, 0.09, 0.0])
    inputs = {
        "observation": jnp.asarray(o),
        "mean": jnp.asarray(mean),
        "variance": jnp.asarray(variance),
    }
    apply = module.AXIS.apply
    close(apply("bounded_std", **inputs), (o - mean) / np.clip(np.sqrt(variance), 1e-6, 1e6))
    scaled = (o - mean) / np.sqrt(variance + 0.04)
    close(apply("epsilon", **inputs, observation_epsilon=0.04), scaled)
    clipped = apply("epsilon_clipped", **inputs, observation_epsilon=0.04, observation_clip=3.0)
    assert (np.abs(scaled) > 3).any()
    close(clipped, np.clip(scaled, -3, 3))
    close(apply("std_epsilon", **inputs), (o - mean) / (np.sqrt(variance) + 0.01))
    close(apply("epsilon", **inputs), (o - mean) / np.sqrt(variance + 1e-8))


@check_of("observation_scaling")
def a_floor_of_the_std_shrinks(module: ModuleType) -> None:
    """RSL-RL's own numbers, whose first rollout is seen by statistics of 0 and 1."""
    file = golden("updates/rsl_rl_normalizer")
    given = np.array(file["stream"]["observation"])
    seen = np.array(file["outputs"]["observation"])
    steps = file["hyperparameters"]["steps_per_rollout"]
    for i in range(len(given) // steps):
        before = {"mean": np.zeros(3), "std": np.ones(3)} if i == 0 else file["after"][i - 1]
        part = slice(i * steps, (i + 1) * steps)
        got = module.AXIS.apply(
            "std_epsilon",
            observation=jnp.asarray(given[part]),
            mean=jnp.asarray(before["mean"]),
            variance=jnp.square(jnp.asarray(before["std"])),
            observation_std_epsilon=file["hyperparameters"]["epsilon"],
        )
        close(got, seen[part], rtol=1e-5, atol=1e-6)


@check_of("bias_init")
def biases_are_as_spread_out_as_torch_has_them(module: ModuleType) -> None:
    key = jax.random.key(0)
    drawn = np.asarray(module.AXIS.apply("torch_uniform", key=key, fan_in=16, size=20_000))
    assert drawn.shape == (20_000,)
    assert np.abs(drawn).max() <= 0.25
    close(drawn.std(), 0.25 / np.sqrt(3), rtol=0.02)
    close(drawn.mean(), 0.0, atol=0.01)
    close(module.AXIS.apply("zeros", key=key, fan_in=16, size=4), np.zeros(4))


@check_of("kl_stop")
def updates_end_where_each_library_ends_them(module: ModuleType) -> None:
    for kl, last in itertools.product((0.0, 0.011, 0.016, np.nan), (False, True)):
        inputs = {"approximate_kl": jnp.float32(kl), "last_of_epoch": jnp.bool_(last)}
        for choice, here, later in (
            ("none", False, False),
            ("minibatch", kl > 0.015, kl > 0.015),
            ("epoch", False, last and kl > 0.01),
        ):
            stop = module.AXIS.apply(choice, **inputs, target_kl=0.01)
            assert (bool(stop.here), bool(stop.later)) == (here, later), (choice, kl, last)


@check_of("reward_scaling")
def rewards_are_scaled_as_the_libraries_do(module: ModuleType) -> None:
    """Streams that the libraries' own wrappers were stepped through."""
    for library, choice in (
        ("cleanrl", "leaking_return_std_per_environment"),
        ("sb3", "running_return_std"),
        ("purejaxrl", "leaking_return_std"),
        ("rejax", "leaking_return_std"),
    ):
        file = golden(f"updates/{library}_normalizer")
        stream = {n: jnp.asarray(x) for n, x in file["stream"].items()}
        state = module.init(num_envs=stream["reward"].shape[1])
        for part in (slice(0, 7), slice(7, None)):
            state, scaled = module.AXIS.apply(
                choice,
                state,
                rewards=stream["reward"][part],
                termination=stream["termination"][part],
                truncation=stream["truncation"][part],
                discount=0.99,
            )
            expected = np.array(file["outputs"]["reward"])[part]
            np.testing.assert_array_less(
                np.abs(np.asarray(scaled) - expected), 1e-6 + 1e-5 * np.abs(expected)
            )
        final = file["final"]
        if not isinstance(final, list):
            final = [{**final, "running_return": running} for running in final["running_return"]]
        close(state.running, [one["running_return"] for one in final])
        close(state.mean, [one["return_mean"] for one in final])
        close(state.variance, [one["return_var"] for one in final])


@check_of("gradient_clip")
def each_network_is_cut_by_itself(module: ModuleType) -> None:
    gradients = {
        "policy": {"kernel": jnp.asarray([[3.0, 0.0]]), "spread": jnp.asarray([4.0])},
        "value": jnp.asarray([0.03, 0.04]),
    }
    got = module.AXIS.apply("per_network", gradients=gradients, max_gradient_norm=1.0)
    close(got["policy"]["kernel"], [[0.6, 0.0]])
    close(got["policy"]["spread"], [0.8])
    close(got["value"], np.float32([0.03, 0.04]), rtol=0, atol=0)
    whole = module.AXIS.apply("global_norm", gradients=gradients, max_gradient_norm=1.0)
    close(whole["value"], np.array([0.03, 0.04]) / np.sqrt(25.0025))


@check_of("gradient_clip")
def torch_divides_by_a_little_more(module: ModuleType) -> None:
    gradients = {"policy": jnp.asarray([3.0, 4.0])}
    for choice in ("per_network", "global_norm"):
        got = module.AXIS.apply(
            choice, gradients=gradients, max_gradient_norm=2.0, gradient_norm_epsilon=0.5
        )
        close(got["policy"], np.array([3.0, 4.0]) * 2 / 5.5)
        within = module.AXIS.apply(
            choice, gradients=gradients, max_gradient_norm=5.5, gradient_norm_epsilon=0.5
        )
        close(within["policy"], [3.0, 4.0], rtol=0, atol=0)


@check_of("advantage_statistics")
def a_floor_stands_in_for_a_small_std(module: ModuleType) -> None:
    advantages = np.random.default_rng(2).normal(size=12)
    inputs = {"groups": jnp.zeros(12, jnp.int32), "num_groups": 1, "ddof": 1.0}
    for scale, floor in ((1.0, 1e-6), (1.0, 0.7), (1e-3, 0.5)):
        a = advantages * scale
        got = module.AXIS.apply(
            "all_floored", advantages=jnp.asarray(a), **inputs, advantage_std_low=floor
        )
        close(got, (a - a.mean()) / max(a.std(ddof=1), floor))
    same = module.AXIS.apply("all_floored", advantages=jnp.full(12, 0.9), **inputs)
    close(same, np.zeros(12), atol=0)


@check_of("entropy_estimate")
def a_sample_of_the_log_density(module: ModuleType) -> None:
    mean, std, x = _policy(4)
    noise = (x - mean) / std
    inputs = {"mean": jnp.asarray(mean), "std": jnp.asarray(std), "noise": jnp.asarray(noise)}
    slope = np.log(1 - np.tanh(x) ** 2).sum(-1)
    close(module.AXIS.apply("negative_log_density", **inputs), slope - _normal(mean, std, x))
    straight = module.AXIS.apply("negative_log_density", **inputs, log_slope=jnp.zeros_like)
    close(straight, -_normal(mean, std, x))
    exact = 0.5 * np.log(2 * np.pi * np.e * std**2).sum(-1)
    close(module.AXIS.apply("one_sample", **inputs, log_slope=jnp.zeros_like), exact)
    close(module.AXIS.apply("one_sample", **inputs), exact + slope)

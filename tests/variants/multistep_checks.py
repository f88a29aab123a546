"""What variants/multistep_advantage.py must satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rlax
from advantage_checks import trajectory
from oracles import check_of, close

import variants

CASES = ((0, 0.97, 0.9), (2, 1.0, 0.5))
RHO, C = 1.4, 0.8
STANDARD = variants.axis("advantage")["standard"].fn


def log_ratios(seed: int) -> np.ndarray:
    """Ratios below, between and above both bounds."""
    return 0.5 * np.random.default_rng(seed).normal(size=(12, 6)).astype(np.float32)


def n_step(module: ModuleType, steps: dict[str, Any], n: float, discount: float = 0.97) -> Any:
    return module.AXIS.apply("n_step", **steps, discount=discount, bootstrap_steps=jnp.float32(n))


def vtrace(
    module: ModuleType, choice: str, steps: dict[str, Any], ratios: Any, **numbers: float
) -> Any:
    return module.AXIS.apply(choice, **steps, log_ratio=lambda: jnp.asarray(ratios), **numbers)


def doubles(steps: dict[str, Any]) -> tuple[np.ndarray, ...]:
    names = ("rewards", "values", "next_values", "termination", "truncation")
    return tuple(np.asarray(steps[name], np.float64) for name in names)


@check_of("multistep_advantage")
def n_step_equals_loop(module: ModuleType) -> None:
    """Rewards one by one, then the value of where n steps, an end or the segment's end led to."""
    for seed, n in ((0, 1), (1, 3), (3, 40)):
        steps = trajectory(seed)
        r, v, v_next, d, z = doubles(steps)
        T, N = r.shape
        expected = np.zeros((T, N))
        for t, i in np.ndindex(T, N):
            for k in range(n):
                now = t + k
                expected[t, i] += 0.9**k * r[now, i]
                if d[now, i] or z[now, i] or now == T - 1 or k == n - 1:
                    expected[t, i] += 0.9 ** (k + 1) * v_next[now, i] * (1 - d[now, i])
                    break
        advantages, targets = n_step(module, steps, n, discount=0.9)
        close(targets, expected)
        close(advantages, expected - v)


@check_of("multistep_advantage")
def n_step_equals_rlax(module: ModuleType) -> None:
    steps = trajectory(4, truncations=False)
    discounts = 0.97 * (1 - steps["termination"])
    returns = jax.vmap(rlax.n_step_bootstrapped_returns, in_axes=(1, 1, 1, None), out_axes=1)
    for n in (1, 4):
        expected = returns(steps["rewards"], discounts, steps["next_values"], n)
        close(n_step(module, steps, n)[1], expected)


@check_of("multistep_advantage")
def extremes_are_those_of_lambda(module: ModuleType) -> None:
    for n, gae_lambda in ((1, 0.0), (12, 1.0), (1e6, 1.0)):
        steps = trajectory(5)
        expected = STANDARD(**steps, discount=0.97, gae_lambda=gae_lambda)
        close(n_step(module, steps, n), expected)


@check_of("multistep_advantage")
def vtrace_equals_sums(module: ModuleType) -> None:
    """Section 4.1 of Espeholt et al., as its sum over products, with λ in c (remark 2)."""
    for seed, discount, gae_lambda in CASES:
        steps, ratios = trajectory(seed), log_ratios(seed)
        r, v, v_next, d, z = doubles(steps)
        rho = np.exp(ratios.astype(np.float64))
        delta = r + discount * (1 - d) * v_next - v
        T, N = r.shape
        target, plain, weighted = v.copy(), delta.copy(), delta.copy()
        for t, i in np.ndindex(T, N):
            product = 1.0
            for s in range(t, T):
                target[t, i] += product * min(rho[s, i], RHO) * delta[s, i]
                if d[s, i] or z[s, i]:
                    break
                product *= discount * gae_lambda * min(rho[s, i], C)
        for t, i in np.ndindex(T - 1, N):
            later = discount * (target[t + 1, i] - v[t + 1, i]) * (1 - d[t, i]) * (1 - z[t, i])
            plain[t, i] += gae_lambda * later
            weighted[t, i] += later
        numbers = {"discount": discount, "gae_lambda": gae_lambda, "vtrace_rho": RHO, "vtrace_c": C}
        for choice, expected in (
            ("vtrace", plain),
            ("vtrace_weighted", np.minimum(rho, RHO) * weighted),
        ):
            advantages, targets = vtrace(module, choice, steps, ratios, **numbers)
            close(targets, target)
            close(advantages, expected)


@check_of("multistep_advantage")
def vtrace_equals_rlax(module: ModuleType) -> None:
    """Its advantages are weighted, and have λ on the first hop too: at 1 they are IMPALA's."""
    for gae_lambda in (1.0, 0.8):
        steps, ratios = trajectory(6, truncations=False), log_ratios(6)
        discounts = 0.97 * (1 - steps["termination"])
        expected = jax.vmap(
            lambda v, v_next, r, discount, rho: rlax.vtrace_td_error_and_advantage(
                v, v_next, r, discount, rho, gae_lambda, RHO, RHO  # noqa: B023
            ),
            in_axes=1,
            out_axes=1,
        )(
            steps["values"], steps["next_values"], steps["rewards"], discounts, np.exp(ratios)
        )  # fmt: skip
        numbers = {"discount": 0.97, "gae_lambda": gae_lambda, "vtrace_rho": RHO, "vtrace_c": 1.0}
        advantages, targets = vtrace(module, "vtrace", steps, ratios, **numbers)
        close(targets, steps["values"] + expected.errors)
        close(np.minimum(np.exp(ratios), RHO) * advantages, expected.pg_advantage)
        if gae_lambda == 1:
            advantages, _ = vtrace(module, "vtrace_weighted", steps, ratios, **numbers)
            close(advantages, expected.pg_advantage)


@check_of("multistep_advantage")
def vtrace_of_the_policy_that_acted_is_standard(module: ModuleType) -> None:
    steps = trajectory(7)
    numbers = {"discount": 0.97, "gae_lambda": 0.9}
    expected = STANDARD(**steps, **numbers)
    for given in ({}, {"log_ratio": lambda: jnp.zeros((12, 6))}):
        found = module.AXIS.apply("vtrace", **steps, **given, **numbers)
        close(found, expected)


@check_of("multistep_advantage")
def a_huge_ratio_is_cut(module: ModuleType) -> None:
    """Without an overflow on the way."""
    steps = trajectory(8)
    numbers = {"discount": 0.97, "gae_lambda": 0.9, "vtrace_rho": 1.0, "vtrace_c": 1.0}
    for choice in ("vtrace", "vtrace_weighted"):
        found = vtrace(module, choice, steps, np.full((12, 6), 500.0), **numbers)
        expected = vtrace(module, choice, steps, np.zeros((12, 6)), **numbers)
        close(found, expected)

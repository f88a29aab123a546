"""What variants/critic_head.py must satisfy."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rlax
from oracles import check_of, close
from scipy import stats

R, K = 4.0, 9
# Within bins, on their edges, and beyond the range.
TARGETS = np.array([0.0, 0.3, -1.7, 2.0, 3.9, -4.0, 6.0, -50.0])


def outputs() -> np.ndarray:
    return 2 * np.random.default_rng(0).normal(size=(len(TARGETS), K))


def answer(module: ModuleType, choice: str, given: Any, **more: Any) -> Any:
    return module.AXIS.apply(
        choice,
        outputs=jnp.asarray(given, jnp.float32),
        targets=jnp.asarray(TARGETS, jnp.float32),
        **{"value_range": R} | more,
    )


def log_shares(given: np.ndarray) -> np.ndarray:
    return given - np.log(np.exp(given).sum(-1, keepdims=True))


@check_of("critic_head")
def hl_gauss_equals_loop(module: ModuleType) -> None:
    """By the mass of SciPy's truncated normal in each bin."""
    for smoothing in (0.75, 0.2, 3.0):
        std, width = smoothing * 2 * R / K, 2 * R / K
        expected = []
        for log_p, target in zip(log_shares(outputs()), TARGETS, strict=True):
            centre = min(max(target, -R), R)
            normal = stats.truncnorm((-R - centre) / std, (R - centre) / std, centre, std)
            loss = 0.0
            for i in range(K):
                mass = normal.cdf(-R + (i + 1) * width) - normal.cdf(-R + i * width)
                loss -= mass * log_p[i]
            expected.append(loss)
        found = answer(module, "hl_gauss", outputs(), value_smoothing=smoothing)
        close(found.loss, expected, rtol=1e-4)
        middles = -R + (np.arange(K) + 0.5) * width
        close(found.value, (np.exp(log_shares(outputs())) * middles).sum(-1))


@check_of("critic_head")
def two_hot_equals_rlax(module: ModuleType) -> None:
    shares = rlax.transform_to_2hot(jnp.asarray(TARGETS, jnp.float32), -R, R, K)
    found = answer(module, "two_hot", outputs())
    close(found.loss, -(np.asarray(shares) * log_shares(outputs())).sum(-1), rtol=1e-4)
    probabilities = jax.nn.softmax(jnp.asarray(outputs(), jnp.float32))
    close(found.value, rlax.transform_from_2hot(probabilities, -R, R, K), rtol=1e-4)


@check_of("critic_head")
def quantiles_equal_brax(module: ModuleType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from brax.training.agents.ppo.losses import quantile_huber_loss

    for scale in (1.0, 0.3):
        found = answer(module, "quantiles", outputs(), quantile_scale=scale)
        expected = quantile_huber_loss(
            jnp.asarray(outputs(), jnp.float32)[None],
            jnp.asarray(TARGETS, jnp.float32)[None],
            scale,
        )
        close(jnp.mean(found.loss), expected)
        close(found.value, outputs().mean(-1))


@check_of("critic_head")
def quantiles_equal_loop(module: ModuleType) -> None:
    expected = []
    for answers, target in zip(outputs(), TARGETS, strict=True):
        total = 0.0
        for i, q in enumerate(answers):
            error, tau = target - q, (i + 0.5) / K
            huber = 0.5 * error**2 if abs(error) <= 0.5 else 0.5 * (abs(error) - 0.25)
            total += (1 - tau if error < 0 else tau) * huber
        expected.append(total / K)
    close(answer(module, "quantiles", outputs(), quantile_scale=0.5).loss, expected)


@check_of("critic_head")
def scalar_is_its_output(module: ModuleType) -> None:
    found = answer(module, "scalar", outputs()[:, :1])
    close(found.value, outputs()[:, 0])
    close(found.loss, (outputs()[:, 0] - TARGETS) ** 2)

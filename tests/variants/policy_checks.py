"""What variants/policy_loss.py and variants/entropy_estimate.py must satisfy."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from oracles import check_of, close

EPSILON, HIGHER, DUAL, PENALTY = 0.2, 0.4, 1.3, 0.7
# What looks at one sample at a time; those made for completions have checks of their own.
PER_SAMPLE = (
    "clip",
    "clip_lower_inverse",
    "dual_clip",
    "clip_higher",
    "dual_clip_higher",
    "none",
    "kl_penalty",
    "spo",
)
WITH_RANGE = tuple(name for name in PER_SAMPLE if "clip" in name or name == "spo")


def policy_case(seed: int, B: int = 40) -> dict[str, Any]:
    """Ratios well inside and outside of any range, advantages of both signs."""
    rng = np.random.default_rng(seed)
    arrays = {"log_ratio": 0.6 * rng.normal(size=B), "advantages": 2 * rng.normal(size=B)}
    return {n: jnp.asarray(x, jnp.float32) for n, x in arrays.items()}


def policy_loss(module: ModuleType, choice: str, **inputs: Any) -> tuple[Any, Any]:
    """With coefficients that differ from any default."""
    coefficients = {
        "clip_epsilon": EPSILON,
        "clip_epsilon_high": HIGHER,
        "dual_clip": DUAL,
        "penalty_coefficient": PENALTY,
    }
    return module.AXIS.apply(choice, **(coefficients | inputs))


def loop_policy_loss(choice: str, log_ratio: float, advantage: float) -> tuple[float, bool]:
    """One sample: its loss, and whether its ratio is out of range."""
    ratio = math.exp(log_ratio)
    lowest = 1 / (1 + EPSILON) if choice == "clip_lower_inverse" else 1 - EPSILON
    highest = 1 + (HIGHER if choice.endswith("higher") else EPSILON)
    gain = ratio * advantage
    if "clip" in choice:
        kept = min(ratio, highest) if advantage >= 0 else max(ratio, lowest)
        gain = kept * advantage
    if choice.startswith("dual_clip") and advantage < 0:
        gain = max(gain, DUAL * advantage)
    if choice == "kl_penalty":
        gain -= PENALTY * (ratio - 1 - log_ratio)
    if choice == "spo":
        gain -= abs(advantage) * (ratio - 1) ** 2 / (2 * EPSILON)
    return -gain, not lowest <= ratio <= highest


@check_of("policy_loss")
def policy_loss_equals_loop(module: ModuleType) -> None:
    case = policy_case(0)
    bounded = 0
    for choice in PER_SAMPLE:
        losses, outside = zip(
            *(
                loop_policy_loss(choice, float(x), float(a))
                for x, a in zip(case["log_ratio"], case["advantages"], strict=True)
            ),
            strict=True,
        )
        assert 10 < sum(outside) < 35
        loss, fraction = policy_loss(module, choice, **case)
        close(loss, losses)
        close(fraction, sum(outside) / 40 if choice in WITH_RANGE else np.nan)
        if choice == "clip":
            plain = losses
        if choice == "dual_clip":
            bounded = sum(a != b for a, b in zip(losses, plain, strict=True))
    assert bounded > 2


@check_of("policy_loss")
def policy_gradients_are_right(module: ModuleType) -> None:
    """By log π it is -ρA where nothing is clipped, 0 where it is; that of the penalty β(ρ-1)."""
    case = policy_case(2)
    x, a = (np.asarray(case[n], np.float64) for n in ("log_ratio", "advantages"))
    ratio = np.exp(x)

    def gradient(choice: str) -> np.ndarray:
        return np.asarray(
            jax.grad(
                lambda x: jnp.sum(policy_loss(module, choice, **(case | {"log_ratio": x}))[0])
            )(case["log_ratio"])
        )

    def clipped(lowest: float) -> np.ndarray:
        return ((a > 0) & (ratio > 1 + EPSILON)) | ((a < 0) & (ratio < lowest))

    close(gradient("none"), -ratio * a)
    close(gradient("clip"), np.where(clipped(1 - EPSILON), 0, -ratio * a))
    inverse = 1 / (1 + EPSILON)
    close(gradient("clip_lower_inverse"), np.where(clipped(inverse), 0, -ratio * a))
    bounded = (a < 0) & (ratio > DUAL)
    assert bounded.sum() > 2
    close(gradient("dual_clip"), np.where(clipped(1 - EPSILON) | bounded, 0, -ratio * a))
    close(gradient("kl_penalty"), -ratio * a + PENALTY * (ratio - 1))
    close(gradient("spo"), -ratio * a + np.abs(a) * ratio * (ratio - 1) / EPSILON, rtol=1e-4)


@check_of("policy_loss")
def penalty_does_not_cancel(module: ModuleType) -> None:
    """Near ρ = 1 it is ½log²ρ, far below the rounding of ρ - 1 - log ρ, and never negative."""
    x = jnp.asarray([1e-5, -1e-5, 1e-4, -3e-4, 0.0], jnp.float32)
    loss, _ = policy_loss(module, "kl_penalty", log_ratio=x, advantages=jnp.zeros_like(x))
    assert np.all(np.asarray(loss) >= 0)
    close(loss, PENALTY * 0.5 * np.square(np.asarray(x, np.float64)), atol=2e-11, rtol=0.05)


@check_of("policy_loss")
def spo_pulls_to_its_range(module: ModuleType) -> None:
    """Each sample's loss is least at ρ = 1 ± ε by the sign of A: -|A|(sgn A + ε/2) there."""
    for advantage in (2.0, -3.0):
        best = 1 + math.copysign(EPSILON, advantage)
        ratios = np.linspace(0.3, 2.0, 1701)
        loss, _ = policy_loss(
            module,
            "spo",
            log_ratio=jnp.asarray(np.log(ratios), jnp.float32),
            advantages=jnp.full(1701, advantage),
        )
        close(ratios[np.argmin(np.asarray(loss))], best, atol=2e-3)
        close(np.min(np.asarray(loss)), -advantage - abs(advantage) * EPSILON / 2)
    case = {"log_ratio": jnp.asarray([60.0, 500.0]), "advantages": jnp.ones(2)}
    assert np.all(np.asarray(policy_loss(module, "spo", **case)[0]) == np.inf)


# Entropy


def policy_head(seed: int, B: int = 7, A: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arrays = {
        "mean": rng.normal(size=(B, A)),
        "std": rng.uniform(0.1, 1.5, size=(B, A)),
        "noise": rng.normal(size=(B, A)),
    }
    return {n: jnp.asarray(x, jnp.float32) for n, x in arrays.items()}


@check_of("policy_loss")
def clip_cov_drops_one_of_few_tokens(module: ModuleType) -> None:
    """The first of equal candidates; a token alone has no covariance."""
    for advantages, log_probs, low in (([3, -3, 3, -3], [2, -2, 1, -1], 1.0), ([2], [-1], -0.1)):
        advantages = jnp.asarray(advantages, jnp.float32)
        loss, dropped = module.AXIS.apply(
            "clip_cov",
            log_ratio=jnp.zeros_like(advantages),
            advantages=advantages,
            log_probs=jnp.asarray(log_probs, jnp.float32),
            clip_cov_low=low,
            clip_cov_high=10.0,
        )
        close(loss, [0, *-advantages[1:]])
        close(dropped, 1 / len(advantages))


@check_of("entropy_estimate")
def entropy_equals_scipy(module: ModuleType) -> None:
    """H(x) of the normal, and log(1 - tanh²x) of the sample on top."""
    from scipy import stats

    head = policy_head(0)
    mean, std, noise = (np.asarray(head[n], np.float64) for n in ("mean", "std", "noise"))
    normal = stats.norm(mean, std).entropy()
    close(module.AXIS.apply("closed_form", **head), normal.sum(axis=-1))
    slope = np.log1p(-np.square(np.tanh(mean + std * noise)))
    close(module.AXIS.apply("one_sample", **head), (normal + slope).sum(axis=-1), rtol=1e-4)


@check_of("entropy_estimate")
def one_sample_equals_brax(module: ModuleType) -> None:
    """Brax draws its noise from a key itself; with the same key it is the same number."""
    from brax.training.distribution import NormalTanhDistribution

    key = jax.random.key(5)
    logits = jnp.asarray(np.random.default_rng(1).normal(size=(9, 4)), jnp.float32)
    loc, scale = jnp.split(logits, 2, axis=-1)
    got = module.AXIS.apply(
        "one_sample",
        mean=loc,
        std=jax.nn.softplus(scale) + 0.001,
        noise=jax.random.normal(key, loc.shape),
    )
    close(got, NormalTanhDistribution(event_size=2).entropy(logits, key))


@check_of("entropy_estimate")
def saturation_costs_entropy(module: ModuleType) -> None:
    """A mean far out: finite, the slope is -2|x| + 2 log 2 there, and its gradient points back."""
    head = {n: jnp.zeros((1, 1)) for n in ("noise",)} | {"std": jnp.ones((1, 1))}

    def entropy(mean: Any, choice: str) -> Any:
        return jnp.sum(module.AXIS.apply(choice, mean=jnp.full((1, 1), mean), **head))

    normal = 0.5 + 0.5 * math.log(2 * math.pi)
    for mean in (40.0, -40.0):
        value, gradient = jax.value_and_grad(entropy)(mean, "one_sample")
        close(value, normal + 2 * math.log(2) - 80)
        close(gradient, -2 * np.sign(mean))
        value, gradient = jax.value_and_grad(entropy)(mean, "closed_form")
        close(value, normal)
        assert float(gradient) == 0

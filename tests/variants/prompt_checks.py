"""What variants/prompt_advantage.py must satisfy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from language_golden import CASES, GOLDEN_TOLERANCE, expected_advantages
from oracles import check_of, close

EPSILONS = {
    "per_prompt": 1e-9,
    "per_prompt_mean_batch_std": 1e-4,
    "per_prompt_mean_batch_std_whitened": 1e-4,
}
DDOFS = dict.fromkeys(EPSILONS, 1)
OF_TOKENS = (
    "batch",
    "batch_mean",
    "per_prompt_baseline_batch",
    "per_prompt_mean_batch_std_whitened",
)
GROUPS = (
    "per_prompt",
    "per_prompt_baseline_batch",
    "per_prompt_baseline_batch_mean",
    "per_prompt_baseline_batch_samples",
    "leave_one_out",
    "per_prompt_mean",
    "per_prompt_mean_batch_std",
    "per_prompt_mean_batch_std_whitened",
)


def rollout(seed: int, P: int = 5, K: int = 4, L: int = 6) -> dict[str, Any]:
    """Holes in the masks, an empty sample, a prompt of equal rewards; NaN where masked."""
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=(P, K)) * rng.choice([0.1, 1.0, 10.0], (P, 1))
    mask = (rng.random((P, K, L)) < 0.7).astype(np.float64)
    if P * K > 1:
        mask[-1, -1] = 0
    if P > 1:
        rewards[1] = 0.9
    token_kl = np.where(mask > 0, rng.normal(size=(P, K, L)), np.nan)
    arrays = {"rewards": rewards, "mask": mask, "token_kl": token_kl}
    return {n: jnp.asarray(x, jnp.float32) for n, x in arrays.items()}


def loop_advantages(
    choice: str,
    rewards: np.ndarray,
    token_kl: np.ndarray,
    mask: np.ndarray,
    kl_coefficient: float,
    clip: float | None = None,
    ddof: int | None = None,
    epsilon: float | None = None,
    greedy_rewards: np.ndarray | None = None,
) -> np.ndarray:
    """One number at a time, from the table of formulas."""
    P, K, L = mask.shape
    ddof = DDOFS.get(choice, 0) if ddof is None else ddof
    epsilon = EPSILONS.get(choice, 1e-8) if epsilon is None else epsilon

    def bounded(x: float) -> float:
        return x if clip is None else min(max(x, -clip), clip)

    def std(numbers: list[float]) -> float:
        mean = sum(numbers) / len(numbers)
        return (sum((x - mean) ** 2 for x in numbers) / (len(numbers) - ddof)) ** 0.5

    every = [float(r) for r in rewards.ravel()]
    if choice == "batch_samples":
        every = [bounded(r) for r in every]
    values = np.zeros((P, K))
    for p in range(P):
        prompt = [float(r) for r in rewards[p]]
        for k, reward in enumerate(prompt):
            equal = len(set(prompt)) == 1
            less = 0.0 if equal else reward - sum(prompt) / K
            if choice in ("none", "batch", "batch_mean"):
                values[p, k] = bounded(reward)
            elif choice == "greedy":
                values[p, k] = bounded(reward - float(greedy_rewards[p]))
            elif choice == "batch_samples":
                same = len(set(every)) == 1
                mean = sum(every) / len(every)
                values[p, k] = 0 if same else (bounded(reward) - mean) / (std(every) + epsilon)
            elif choice == "per_prompt":
                values[p, k] = 0 if equal else bounded(less / (std(prompt) + epsilon))
            elif choice == "leave_one_out":
                others = prompt[:k] + prompt[k + 1 :]
                values[p, k] = bounded(reward - sum(others) / (K - 1)) if others else 0
            elif choice == "per_prompt_mean_batch_std":
                values[p, k] = 0 if equal else bounded(less / (std(every) + epsilon))
            elif choice == "per_prompt_mean_batch_std_whitened":
                values[p, k] = 0 if equal else less / (std(every) + epsilon)
            elif choice == "per_prompt_baseline_batch_samples":
                values[p, k] = less
            else:
                values[p, k] = bounded(less)
    if choice == "per_prompt_baseline_batch_samples" and np.any(values):
        scale = std([float(x) for x in values.ravel()])
        values = np.vectorize(lambda x: bounded(x / (scale + epsilon)))(values)

    returns = {}
    for p, k, t in np.ndindex(P, K, L):
        if mask[p, k, t]:
            later = sum(float(token_kl[p, k, u]) for u in range(t, L) if mask[p, k, u])
            returns[p, k, t] = values[p, k] - kl_coefficient * later
    tokens = list(returns.values())
    result = np.zeros((P, K, L))
    for place, value in returns.items():
        if choice in ("batch", "per_prompt_baseline_batch"):
            if len(tokens) > max(ddof, 1) and len(set(tokens)) > 1:
                result[place] = (value - sum(tokens) / len(tokens)) / max(std(tokens), epsilon**0.5)
        elif choice == "per_prompt_mean_batch_std_whitened":
            if len(set(tokens)) > 1:
                mean = sum(tokens) / len(tokens)
                variance = sum((x - mean) ** 2 for x in tokens) / (len(tokens) - 1)
                result[place] = bounded((value - mean) / (variance + 1e-8) ** 0.5)
        elif choice in ("batch_mean", "per_prompt_baseline_batch_mean"):
            result[place] = value - sum(tokens) / len(tokens)
        else:
            result[place] = value
    return result


@check_of("prompt_advantage")
def advantages_equal_loop(module: ModuleType) -> None:
    for seed, settings in enumerate(
        (
            {"kl_coefficient": 0.3},
            {"kl_coefficient": 0.0, "clip": 0.3, "ddof": 1, "epsilon": 0.5},
            {"kl_coefficient": 0.2, "ddof": 0, "epsilon": 0.5},
        )
    ):
        case = rollout(seed)
        case["greedy_rewards"] = jnp.asarray([0.5, -1.0, 0.0, 2.0, 0.1], jnp.float32)
        arrays = {n: np.asarray(x, np.float64) for n, x in case.items()}
        given = {("advantage_clip" if n == "clip" else n): x for n, x in settings.items()}
        for choice in module.AXIS:
            got = module.AXIS.apply(choice, **case, **given)
            close(got, loop_advantages(choice, **arrays, **settings), rtol=2e-5, atol=2e-5)


@cache
def compiled(module: ModuleType) -> Callable[..., np.ndarray]:
    """All choices in one program per shape: their ddof and epsilon are given, ±∞ clips nothing."""
    switch = jax.jit(lambda index, inputs: module.AXIS.apply(index, **inputs))

    def call(choice: str, **inputs: Any) -> np.ndarray:
        given = {
            "advantage_clip": np.inf,
            "ddof": DDOFS.get(choice, 0),
            "epsilon": EPSILONS.get(choice, 1e-8),
        } | inputs
        arrays = {n: jnp.asarray(x, jnp.float32) for n, x in given.items()}
        return np.asarray(switch(jnp.int32(module.AXIS.index(choice)), arrays))

    return call


@check_of("prompt_advantage")
def advantages_equal_golden(module: ModuleType) -> None:
    seen: Counter[str] = Counter()
    call = compiled(module)
    for case in CASES:
        for expected in expected_advantages(case):
            got = call(expected.choice, **expected.inputs)
            assert np.all(got[expected.mask == 0] == 0)
            if expected.added:
                centred = call(f"{expected.choice}_mean", **expected.inputs)
                variance = np.sum(np.square(centred)) / (expected.mask.sum() - 1)
                got = got * np.sqrt(max(variance, 1e-8) / (variance + expected.added))
            if expected.output.ndim == 2:
                wanted = expected.output[..., None] * expected.mask
            else:
                wanted = expected.output * expected.mask
            np.testing.assert_allclose(
                got, wanted, **GOLDEN_TOLERANCE, err_msg=f"{expected.choice} {expected.name}"
            )
            seen[expected.choice] += 1
    unseen = {"none", "batch_samples", "greedy", "per_prompt_mean_batch_std_whitened"}
    assert set(module.AXIS) - set(seen) <= unseen
    assert sum(seen.values()) >= 85, seen


@check_of("prompt_advantage")
def two_tokens_have_one_degree_of_freedom(module: ModuleType) -> None:
    case = {"rewards": np.array([[1.0, 3.0]]), "mask": np.ones((1, 2, 1)), "kl_coefficient": 0.0}
    case["token_kl"] = np.zeros_like(case["mask"])
    for choice in (name for name in OF_TOKENS if name in module.AXIS):
        wanted = loop_advantages(choice, **case, ddof=1)
        close(module.AXIS.apply(choice, **case, ddof=1.0), wanted, rtol=1e-4)
        assert np.any(wanted), choice


@check_of("prompt_advantage")
def constant_prompts_give_exact_zeros(module: ModuleType) -> None:
    """Without KL. 0.9 three times has a mean of its own; token means are of other prompts too."""
    call = compiled(module)
    for reward in (0.9, -7.3, 1e6):
        for shape in ((2, 3, 3), (4, 1, 3)):
            P, K, _ = shape
            rewards = np.full((P, K), reward, np.float32)
            rewards[1:] = 1.1 * np.arange(K) + np.arange(1, P)[:, None]
            for choice in (name for name in GROUPS if name in module.AXIS):
                got = call(
                    choice,
                    rewards=rewards,
                    token_kl=np.zeros(shape),
                    mask=np.ones(shape),
                    kl_coefficient=0.0,
                    epsilon=1e-9,
                )
                tokens = choice.endswith(("baseline_batch", "baseline_batch_mean", "whitened"))
                assert tokens or np.all(got[0] == 0), (choice, reward, K)
                assert K > 1 or np.all(got == 0), choice


@check_of("prompt_advantage")
def equal_tokens_give_exact_zeros(module: ModuleType) -> None:
    """Whatever the batch: all rewards equal, one valid token, none."""
    call = compiled(module)
    masks = np.zeros((3, 2, 3, 3))
    masks[0] = 1
    masks[1, 0, 1, 2] = 1
    for mask in masks:
        equal = np.all(mask == 1)
        for choice in (name for name in OF_TOKENS if name in module.AXIS):
            for ddof in (0, 1):
                got = call(
                    choice,
                    rewards=np.full((2, 3), 0.9) if equal else np.arange(6.0).reshape(2, 3),
                    token_kl=np.zeros_like(mask) if equal else np.ones_like(mask),
                    mask=mask,
                    kl_coefficient=0.1,
                    ddof=ddof,
                )
                assert np.all(got == 0), (choice, ddof)


@check_of("prompt_advantage")
def advantages_and_gradients_are_finite(module: ModuleType) -> None:
    """By rewards and by KL, in every corner that a where hides."""

    @jax.jit
    def gradients(index: Any, rewards: Any, token_kl: Any, mask: Any) -> Any:
        def total(rewards: Any, token_kl: Any) -> Any:
            got = module.AXIS.apply(
                index, rewards=rewards, token_kl=token_kl, mask=mask, kl_coefficient=0.1
            )
            return jnp.sum(jnp.square(got))

        return jax.value_and_grad(total, (0, 1))(rewards, token_kl)

    for P, K in ((2, 2), (2, 1)):
        one, rewards = np.zeros((P, K, 3)), rollout(0, P, K, 3)["rewards"]
        one[1, 0, 1] = 1
        for mask in (np.zeros_like(one), one, np.ones_like(one)):
            mask = jnp.asarray(mask, jnp.float32)
            for index, choice in enumerate(module.AXIS):
                for numbers in (rewards, 0 * rewards):
                    found = gradients(jnp.int32(index), numbers, jnp.ones_like(mask), mask)
                    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(found)), choice


@check_of("prompt_advantage")
def whitening_undoes_the_scale_of_rewards(module: ModuleType) -> None:
    """It is per_prompt_baseline_batch with ddof 1 but for ε, in whatever unit rewards are."""
    case = rollout(3) | {"kl_coefficient": 0.0}
    case["token_kl"] = jnp.zeros_like(case["mask"])
    arrays = {n: np.asarray(x, np.float64) for n, x in case.items()}
    wanted = loop_advantages("per_prompt_baseline_batch", **arrays, ddof=1)
    for unit in (1.0, 100.0):
        inputs = case | {"rewards": unit * case["rewards"], "advantage_clip": 1e6}
        got = module.AXIS.apply("per_prompt_mean_batch_std_whitened", **inputs)
        close(got, wanted, rtol=1e-4, atol=1e-4)

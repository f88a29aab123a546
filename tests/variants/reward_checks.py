"""What variants/reward_scaling.py must satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from advantage_checks import trajectory
from oracles import check_of, close

DISCOUNT = 0.9
REWARDS = ("rewards", "termination", "truncation")


def rewards_of(seed: int, T: int = 20, N: int = 6) -> dict[str, Any]:
    """Rewards and episode ends, [T, N]."""
    steps = trajectory(seed, T=T, N=N)
    return {n: steps[n] for n in REWARDS}


def scaled(
    module: ModuleType, choice: str, batches: list[dict[str, Any]], **coefficients: Any
) -> tuple[Any, np.ndarray]:
    """The rewards of batches that follow one another, scaled, and the state after the last."""
    state = module.init(num_envs=batches[0]["rewards"].shape[1])
    out = []
    for batch in batches:
        state, rewards = module.AXIS.apply(
            choice, state, **batch, **({"discount": DISCOUNT} | coefficients)
        )
        out.append(np.asarray(rewards))
    return state, np.concatenate(out)


def loop_vec_normalize(batches: list[dict[str, Any]], bound: float) -> np.ndarray:
    """As VecNormalize documents it: all returns so far are kept, and their variance taken anew.

    Its statistics begin with the weight of 1e-4 samples of mean 0 and variance 1.
    """
    N = batches[0]["rewards"].shape[1]
    running, seen, out = np.zeros(N), [], []
    for batch in batches:
        rewards, termination, truncation = (np.asarray(batch[n], np.float64) for n in REWARDS)
        for reward, d, z in zip(rewards, termination, truncation, strict=True):
            running = DISCOUNT * running + reward
            seen.extend(running)
            samples, weights = np.asarray([0.0, *seen]), np.asarray([1e-4, *np.ones(len(seen))])
            mean = np.average(samples, weights=weights)
            squares = np.sum(weights * np.square(samples - mean)) + 1e-4
            std = np.sqrt(squares / weights.sum() + 1e-8)
            out.append(np.clip(reward / std, -bound, bound))
            running = np.where((d > 0) | (z > 0), 0.0, running)
    return np.asarray(out)


@check_of("reward_scaling")
def running_std_equals_vec_normalize(module: ModuleType) -> None:
    batches = [rewards_of(seed) for seed in (0, 1, 2)]
    assert all(np.any(batch["truncation"]) for batch in batches)
    for bound in (10.0, 0.5):
        _, got = scaled(module, "running_return_std", batches, reward_clip=bound)
        expected = loop_vec_normalize(batches, bound)
        assert (np.abs(expected) == bound).any() == (bound < 1)
        close(got, expected, rtol=1e-4)


@check_of("reward_scaling")
def constant_is_a_factor(module: ModuleType) -> None:
    batches = [rewards_of(seed) for seed in (3, 4)]
    rewards = np.concatenate([batch["rewards"] for batch in batches])
    state, got = scaled(module, "constant", batches, reward_scale=3.0, reward_clip=0.1)
    np.testing.assert_array_equal(got, 3 * rewards)
    jax.tree.map(np.testing.assert_array_equal, state, module.init(num_envs=6))
    _, got = scaled(module, "constant", batches)
    np.testing.assert_array_equal(got, rewards)


@check_of("reward_scaling")
def constant_rewards_stay_finite(module: ModuleType) -> None:
    for reward in (0.0, 1.0, -5.0):
        batch = rewards_of(8) | {"rewards": jnp.full((20, 6), reward)}
        batch |= {"termination": jnp.ones((20, 6))}
        _, got = scaled(module, "running_return_std", [batch])
        assert np.all(np.isfinite(got))
        assert np.all(np.sign(got) == np.sign(reward))
        assert np.all(np.abs(got) <= 10)

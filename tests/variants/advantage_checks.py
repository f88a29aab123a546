"""What variants/advantage.py must satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from oracles import check_of, close

CHOICES = ("standard", "done_cut", "masked_truncation", "brax", "timeout_bonus")
CUT_WHERE_DONE = ("done_cut", "timeout_bonus")


def trajectory(
    seed: int, *, terminations: bool = True, truncations: bool = True, T: int = 12, N: int = 6
) -> dict[str, Any]:
    """Random steps. next_values[t] is values[t+1], except where an episode ends at t."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(T + 1, N))
    termination = (rng.random((T, N)) < 0.2) & terminations
    truncation = (rng.random((T, N)) < 0.2) & truncations
    done = termination | truncation
    steps = {
        "rewards": rng.normal(size=(T, N)),
        "values": values[:-1],
        "next_values": np.where(done, rng.normal(size=(T, N)), values[1:]),
        "termination": termination,
        "truncation": truncation,
    }
    return {n: jnp.asarray(x, jnp.float32) for n, x in steps.items()}


def loop_advantage(
    choice: str, steps: dict[str, Any], discount: float, gae_lambda: float
) -> tuple[np.ndarray, np.ndarray]:
    """The recursions, one environment and one step at a time."""
    r, v, v_next = (np.asarray(steps[n], np.float64) for n in ("rewards", "values", "next_values"))
    terminated, truncated = (np.asarray(steps[n]) > 0.5 for n in ("termination", "truncation"))
    T, N = r.shape
    advantages, targets = np.zeros((T, N)), np.zeros((T, N))
    for n in range(N):
        trace = 0.0
        for t in reversed(range(T)):
            ended = terminated[t, n] or truncated[t, n]
            no_bootstrap = terminated[t, n] if choice not in CUT_WHERE_DONE else ended
            delta = r[t, n] + (0.0 if no_bootstrap else discount * v_next[t, n]) - v[t, n]
            if truncated[t, n] and choice == "timeout_bonus":
                delta += discount * v[t, n]
            if truncated[t, n] and choice in ("brax", "masked_truncation"):
                delta = 0.0
            trace = delta if ended else delta + discount * gae_lambda * trace
            advantages[t, n], targets[t, n] = trace, v[t, n] + trace
        if choice == "brax":
            for t in range(T):
                ahead = targets[t + 1, n] if t + 1 < T else v_next[t, n]
                hop = r[t, n] + (0.0 if terminated[t, n] else discount * ahead) - v[t, n]
                advantages[t, n] = 0.0 if truncated[t, n] else hop
    return advantages, targets


@check_of("advantage")
def advantage_equals_loop(module: ModuleType) -> None:
    for seed, discount, gae_lambda in (
        (0, 0.97, 0.9),
        (1, 0.99, 0.95),
        (2, 1.0, 0.5),
        (3, 0.9, 1.0),
    ):
        steps = trajectory(seed)
        for choice in CHOICES:
            got = module.AXIS.apply(choice, **steps, discount=discount, gae_lambda=gae_lambda)
            close(got, loop_advantage(choice, steps, discount, gae_lambda))


@check_of("advantage")
def what_follows_an_end_is_not_read(module: ModuleType) -> None:
    """A NaN there changes nothing: simulators terminate on it."""
    for choice in CHOICES:
        steps = trajectory(4)
        unread = steps["termination"] > 0
        if choice != "standard":
            unread |= steps["truncation"] > 0
        poisoned = steps | {"next_values": jnp.where(unread, jnp.nan, steps["next_values"])}
        expected = loop_advantage(choice, steps, 0.97, 0.9)
        got = module.AXIS.apply(choice, **poisoned, discount=0.97, gae_lambda=0.9)
        close(got, expected)


@check_of("advantage")
def brax_equals_compute_gae(module: ModuleType) -> None:
    from brax.training.agents.ppo.losses import compute_gae

    for seed, discount, gae_lambda in ((4, 0.97, 0.95), (5, 0.99, 0.6), (6, 0.95, 1.0)):
        steps = trajectory(seed)
        targets, advantages = compute_gae(
            truncation=steps["truncation"],
            termination=steps["termination"],
            rewards=steps["rewards"],
            values=steps["values"],
            bootstrap_value=steps["next_values"][-1],
            lambda_=gae_lambda,
            discount=discount,
        )
        got = module.AXIS.apply("brax", **steps, discount=discount, gae_lambda=gae_lambda)
        close(got[0], advantages)
        close(got[1], targets)


@check_of("advantage")
def standard_and_done_cut_equal_rlax(module: ModuleType) -> None:
    """rlax knows one kind of end, a discount of 0: terminations, for done_cut truncations too."""
    import rlax

    discount, gae_lambda = 0.98, 0.9
    estimate = jax.vmap(
        rlax.truncated_generalized_advantage_estimation, in_axes=(1, 1, None, 1), out_axes=1
    )
    for choice, truncations in (("standard", False), ("done_cut", False), ("done_cut", True)):
        steps = trajectory(7, truncations=truncations)
        ended = jnp.maximum(steps["termination"], steps["truncation"])
        # rlax multiplies the value past an end by 0, so any will do there.
        values = jnp.concatenate([steps["values"], steps["next_values"][-1:]])
        expected = estimate(steps["rewards"], discount * (1 - ended), gae_lambda, values)
        got, targets = module.AXIS.apply(choice, **steps, discount=discount, gae_lambda=gae_lambda)
        close(got, expected)
        close(targets, expected + steps["values"])

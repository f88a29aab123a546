"""What variants/advantage.py must satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from oracles import check_of, close, golden

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
def brax_equals_golden(module: ModuleType) -> None:
    for case in golden("brax_gae")["cases"]:
        steps = {
            n: jnp.asarray(case[n], jnp.float32)
            for n in ("rewards", "values", "termination", "truncation")
        }
        bootstrap = jnp.asarray(case["bootstrap_value"], jnp.float32)[None]
        advantages, targets = module.AXIS.apply(
            "brax",
            **steps,
            next_values=jnp.concatenate([steps["values"][1:], bootstrap]),
            discount=case["discount"],
            gae_lambda=case["lambda_"],
        )
        close(advantages, case["advantages"], atol=1e-6)
        close(targets, case["vs"], atol=1e-6)


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


@check_of("advantage")
def lambda_zero_is_temporal_difference(module: ModuleType) -> None:
    steps = trajectory(8)
    advantages, targets = module.AXIS.apply("standard", **steps, discount=0.9, gae_lambda=0.0)
    target = steps["rewards"] + 0.9 * (1 - steps["termination"]) * steps["next_values"]
    close(targets, target)
    close(advantages, target - steps["values"])


@check_of("advantage")
def lambda_one_is_monte_carlo(module: ModuleType) -> None:
    """The target is the discounted sum of rewards, plus the value where they are cut off."""
    steps = trajectory(9)
    _, targets = module.AXIS.apply("standard", **steps, discount=0.9, gae_lambda=1.0)
    r, v_next, d, z = (
        np.asarray(steps[n], np.float64)
        for n in ("rewards", "next_values", "termination", "truncation")
    )
    T, N = r.shape
    expected = np.zeros((T, N))
    for n in range(N):
        for start in range(T):
            for t in range(start, T):
                expected[start, n] += 0.9 ** (t - start) * r[t, n]
                if d[t, n] or z[t, n] or t == T - 1:
                    expected[start, n] += 0.9 ** (t - start + 1) * v_next[t, n] * (1 - d[t, n])
                    break
    close(targets, expected)


@check_of("advantage")
def brax_drops_lambda_on_the_first_hop_only(module: ModuleType) -> None:
    """A_brax[t] = δ[t](1-z) + γ(1-d)(1-z)·A_masked[t+1]; so λ = 1 makes both the same."""
    steps = trajectory(10)
    masked, masked_targets = module.AXIS.apply(
        "masked_truncation", **steps, discount=0.95, gae_lambda=0.8
    )
    brax, targets = module.AXIS.apply("brax", **steps, discount=0.95, gae_lambda=0.8)
    r, v, v_next, d, z = (
        np.asarray(steps[n], np.float64)
        for n in ("rewards", "values", "next_values", "termination", "truncation")
    )
    later = np.concatenate([np.asarray(masked, np.float64)[1:], np.zeros((1, r.shape[1]))])
    delta = (r + 0.95 * (1 - d) * v_next - v) * (1 - z)
    close(brax, delta + 0.95 * (1 - d) * (1 - z) * later)
    close(targets, masked_targets)
    assert np.max(np.abs(np.asarray(brax - masked))) > 0.1

    close(
        module.AXIS.apply("brax", **steps, discount=0.95, gae_lambda=1.0),
        module.AXIS.apply("masked_truncation", **steps, discount=0.95, gae_lambda=1.0),
    )


@check_of("advantage")
def bonus_on_truncation_makes_done_cut_standard(module: ModuleType) -> None:
    """Stable-Baselines3: r + γV(s_final) where truncated, then truncation taken as termination."""
    steps = trajectory(11)
    truncated = steps["truncation"] * (1 - steps["termination"])
    bonus = steps["rewards"] + 0.97 * truncated * steps["next_values"]
    got = module.AXIS.apply(
        "done_cut", **(steps | {"rewards": bonus}), discount=0.97, gae_lambda=0.9
    )
    expected = module.AXIS.apply("standard", **steps, discount=0.97, gae_lambda=0.9)
    close(got, expected)


@check_of("advantage")
def bonus_is_standard_where_nothing_moves(module: ModuleType) -> None:
    """RSL-RL pays V(s) for V(s'): the same where the last step of an episode led nowhere."""
    steps = trajectory(14)
    still = jnp.where(steps["truncation"] > 0, steps["values"], steps["next_values"])
    # A step that is both is a termination: no bonus to pay.
    steps |= {"truncation": steps["truncation"] * (1 - steps["termination"]), "next_values": still}
    got = module.AXIS.apply("timeout_bonus", **steps, discount=0.97, gae_lambda=0.9)
    expected = module.AXIS.apply("standard", **steps, discount=0.97, gae_lambda=0.9)
    close(got, expected)


@check_of("advantage")
def choices_agree_without_truncation(module: ModuleType) -> None:
    steps = trajectory(12, truncations=False)
    results = {
        choice: module.AXIS.apply(choice, **steps, discount=0.97, gae_lambda=0.9)
        for choice in CHOICES
    }
    for choice in ("done_cut", "masked_truncation", "timeout_bonus"):
        close(results[choice][0], results["standard"][0])
    for advantages, targets in results.values():
        assert np.all(np.isfinite(np.asarray(advantages)))
        close(targets, results["standard"][1])


@check_of("advantage")
def masked_steps_teach_nothing(module: ModuleType) -> None:
    steps = trajectory(13)
    truncated = np.asarray(steps["truncation"]) > 0
    assert truncated.any()
    for choice in ("masked_truncation", "brax"):
        advantages, targets = module.AXIS.apply(choice, **steps, discount=0.97, gae_lambda=0.9)
        assert np.all(np.asarray(advantages)[truncated] == 0)
        np.testing.assert_array_equal(
            np.asarray(targets)[truncated], np.asarray(steps["values"])[truncated]
        )

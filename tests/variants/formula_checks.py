"""What the module of an axis must satisfy: functions that pass for it, and fail for a mutant of it.

Oracles are independent of the code under test: plain float64 loops over single numbers, the
implementations of Brax, rlax and optax, and numbers that Brax and TorchRL produced (tests/golden).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden"

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def close(got: Any, expected: Any, **tolerance: float) -> None:
    np.testing.assert_allclose(
        np.asarray(got), np.asarray(expected, np.float64), **(TOLERANCE | tolerance)
    )


@cache
def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text())


# Advantages


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
    choice: str, steps: dict[str, Any], discount: float, lambda_: float
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
            no_bootstrap = ended if choice == "done_cut" else terminated[t, n]
            delta = r[t, n] + (0.0 if no_bootstrap else discount * v_next[t, n]) - v[t, n]
            if truncated[t, n] and choice in ("brax", "masked_truncation"):
                delta = 0.0
            trace = delta if ended else delta + discount * lambda_ * trace
            advantages[t, n], targets[t, n] = trace, v[t, n] + trace
        if choice == "brax":
            for t in range(T):
                ahead = targets[t + 1, n] if t + 1 < T else v_next[t, n]
                hop = r[t, n] + (0.0 if terminated[t, n] else discount * ahead) - v[t, n]
                advantages[t, n] = 0.0 if truncated[t, n] else hop
    return advantages, targets


def advantage_equals_loop(module: ModuleType) -> None:
    for seed, discount, lambda_ in ((0, 0.97, 0.9), (1, 0.99, 0.95), (2, 1.0, 0.5), (3, 0.9, 1.0)):
        steps = trajectory(seed)
        for choice in ("standard", "done_cut", "masked_truncation", "brax"):
            got = module.AXIS.apply(choice, **steps, discount=discount, lambda_=lambda_)
            for one, other in zip(
                got, loop_advantage(choice, steps, discount, lambda_), strict=True
            ):
                close(one, other)


def brax_equals_compute_gae(module: ModuleType) -> None:
    from brax.training.agents.ppo.losses import compute_gae

    for seed, discount, lambda_ in ((4, 0.97, 0.95), (5, 0.99, 0.6), (6, 0.95, 1.0)):
        steps = trajectory(seed)
        targets, advantages = compute_gae(
            truncation=steps["truncation"],
            termination=steps["termination"],
            rewards=steps["rewards"],
            values=steps["values"],
            bootstrap_value=steps["next_values"][-1],
            lambda_=lambda_,
            discount=discount,
        )
        got = module.AXIS.apply("brax", **steps, discount=discount, lambda_=lambda_)
        close(got[0], advantages)
        close(got[1], targets)


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
            lambda_=case["lambda_"],
        )
        close(advantages, case["advantages"], atol=1e-6)
        close(targets, case["vs"], atol=1e-6)


def standard_and_done_cut_equal_rlax(module: ModuleType) -> None:
    """rlax knows one kind of end, a discount of 0: terminations, for done_cut truncations too."""
    import rlax

    discount, lambda_ = 0.98, 0.9
    estimate = jax.vmap(
        rlax.truncated_generalized_advantage_estimation, in_axes=(1, 1, None, 1), out_axes=1
    )
    for choice, truncations in (("standard", False), ("done_cut", False), ("done_cut", True)):
        steps = trajectory(7, truncations=truncations)
        ended = jnp.maximum(steps["termination"], steps["truncation"])
        # rlax multiplies the value past an end by 0, so any will do there.
        values = jnp.concatenate([steps["values"], steps["next_values"][-1:]])
        expected = estimate(steps["rewards"], discount * (1 - ended), lambda_, values)
        got, targets = module.AXIS.apply(choice, **steps, discount=discount, lambda_=lambda_)
        close(got, expected)
        close(targets, expected + steps["values"])


def lambda_zero_is_temporal_difference(module: ModuleType) -> None:
    steps = trajectory(8)
    advantages, targets = module.AXIS.apply("standard", **steps, discount=0.9, lambda_=0.0)
    target = steps["rewards"] + 0.9 * (1 - steps["termination"]) * steps["next_values"]
    close(targets, target)
    close(advantages, target - steps["values"])


def lambda_one_is_monte_carlo(module: ModuleType) -> None:
    """The target is the discounted sum of rewards, plus the value where they are cut off."""
    steps = trajectory(9)
    _, targets = module.AXIS.apply("standard", **steps, discount=0.9, lambda_=1.0)
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


def brax_drops_lambda_on_the_first_hop_only(module: ModuleType) -> None:
    """A_brax[t] = δ[t](1-z) + γ(1-d)(1-z)·A_masked[t+1]; so λ = 1 makes both the same."""
    steps = trajectory(10)
    masked, masked_targets = module.AXIS.apply(
        "masked_truncation", **steps, discount=0.95, lambda_=0.8
    )
    brax, targets = module.AXIS.apply("brax", **steps, discount=0.95, lambda_=0.8)
    r, v, v_next, d, z = (
        np.asarray(steps[n], np.float64)
        for n in ("rewards", "values", "next_values", "termination", "truncation")
    )
    later = np.concatenate([np.asarray(masked, np.float64)[1:], np.zeros((1, r.shape[1]))])
    delta = (r + 0.95 * (1 - d) * v_next - v) * (1 - z)
    close(brax, delta + 0.95 * (1 - d) * (1 - z) * later)
    close(targets, masked_targets)
    assert np.max(np.abs(np.asarray(brax - masked))) > 0.1

    for one, other in zip(
        module.AXIS.apply("brax", **steps, discount=0.95, lambda_=1.0),
        module.AXIS.apply("masked_truncation", **steps, discount=0.95, lambda_=1.0),
        strict=True,
    ):
        close(one, other)


def bonus_on_truncation_makes_done_cut_standard(module: ModuleType) -> None:
    """Stable-Baselines3: r + γV(s_final) where truncated, then truncation taken as termination."""
    steps = trajectory(11)
    truncated = steps["truncation"] * (1 - steps["termination"])
    bonus = steps["rewards"] + 0.97 * truncated * steps["next_values"]
    got = module.AXIS.apply("done_cut", **(steps | {"rewards": bonus}), discount=0.97, lambda_=0.9)
    expected = module.AXIS.apply("standard", **steps, discount=0.97, lambda_=0.9)
    for one, other in zip(got, expected, strict=True):
        close(one, other)


def choices_agree_without_truncation(module: ModuleType) -> None:
    steps = trajectory(12, truncations=False)
    results = {
        choice: module.AXIS.apply(choice, **steps, discount=0.97, lambda_=0.9)
        for choice in ("standard", "done_cut", "masked_truncation", "brax")
    }
    for choice in ("done_cut", "masked_truncation"):
        close(results[choice][0], results["standard"][0])
    for advantages, targets in results.values():
        assert np.all(np.isfinite(np.asarray(advantages)))
        close(targets, results["standard"][1])


def masked_steps_teach_nothing(module: ModuleType) -> None:
    steps = trajectory(13)
    truncated = np.asarray(steps["truncation"]) > 0
    assert truncated.any()
    for choice in ("masked_truncation", "brax"):
        advantages, targets = module.AXIS.apply(choice, **steps, discount=0.97, lambda_=0.9)
        assert np.all(np.asarray(advantages)[truncated] == 0)
        np.testing.assert_array_equal(
            np.asarray(targets)[truncated], np.asarray(steps["values"])[truncated]
        )


ADVANTAGE = (
    advantage_equals_loop,
    brax_equals_compute_gae,
    brax_equals_golden,
    standard_and_done_cut_equal_rlax,
    lambda_zero_is_temporal_difference,
    lambda_one_is_monte_carlo,
    brax_drops_lambda_on_the_first_hop_only,
    bonus_on_truncation_makes_done_cut_standard,
    choices_agree_without_truncation,
    masked_steps_teach_nothing,
)


# Value errors

ERRORS = np.asarray([-30.0, -2.0, -1.5, -0.7, -0.01, 0.0, 0.3, 0.9, 1.0, 4.0, 1e4])


def error_equals_loop(module: ModuleType) -> None:
    targets = np.linspace(-1, 1, len(ERRORS))
    for scale in (0.3, 1.0, 2.0):
        expected = {"squared": [], "absolute": [], "huber": [], "smooth_l1": []}
        for e in (float(e) for e in ERRORS):
            expected["squared"].append(e * e)
            expected["absolute"].append(abs(e))
            near = abs(e) <= scale
            expected["huber"].append(e * e / 2 if near else scale * (abs(e) - scale / 2))
            expected["smooth_l1"].append(e * e / 2 / scale if near else abs(e) - scale / 2)
        for choice, losses in expected.items():
            got = module.AXIS.apply(
                choice,
                values=jnp.asarray(targets + ERRORS, jnp.float32),
                targets=jnp.asarray(targets, jnp.float32),
                error_scale=scale,
            )
            close(got, losses)


def huber_equals_optax(module: ModuleType) -> None:
    import optax

    values = jnp.asarray(ERRORS, jnp.float32)
    targets = jnp.zeros_like(values)
    for delta in (0.3, 1.0):
        got = module.AXIS.apply("huber", values=values, targets=targets, error_scale=delta)
        close(got, optax.losses.huber_loss(values, targets, delta=delta))
        scaled = module.AXIS.apply("smooth_l1", values=values, targets=targets, error_scale=delta)
        close(scaled * delta, got)


def smooth_l1_equals_torchrl(module: ModuleType) -> None:
    case = next(c for c in golden("torchrl_ppo")["value_clip"] if c["critic"] == "smooth_l1")
    got = module.AXIS.apply(
        "smooth_l1",
        values=jnp.asarray(case["value"], jnp.float32),
        targets=jnp.asarray(case["target"], jnp.float32),
    )
    close(got, case["unclipped_loss"], atol=1e-6)


def error_gradients_are_right(module: ModuleType) -> None:
    values = jnp.asarray(ERRORS, jnp.float32)
    scale = 0.8
    expected = {
        "squared": 2 * ERRORS,
        "absolute": np.sign(ERRORS),
        "huber": np.clip(ERRORS, -scale, scale),
        "smooth_l1": np.clip(ERRORS / scale, -1, 1),
    }
    for choice, gradient in expected.items():
        got = jax.grad(
            lambda v, choice=choice: jnp.sum(
                module.AXIS.apply(choice, values=v, targets=jnp.zeros_like(v), error_scale=scale)
            )
        )(values)
        close(got, gradient)


VALUE_ERROR = (
    error_equals_loop,
    huber_equals_optax,
    smooth_l1_equals_torchrl,
    error_gradients_are_right,
)


# Value clipping


def squared(*, values: Any, targets: Any) -> Any:
    return jnp.square(values - targets)


def smooth(*, values: Any, targets: Any) -> Any:
    distance = jnp.abs(values - targets)
    return jnp.where(distance < 1, 0.5 * distance**2, distance - 0.5)


def clip_case(seed: int, B: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    old = rng.normal(size=B)
    arrays = {
        "values": old + 0.4 * rng.normal(size=B),
        "old_values": old,
        "targets": old + rng.normal(size=B),
    }
    return {n: jnp.asarray(x, jnp.float32) for n, x in arrays.items()}


def clip_equals_loop(module: ModuleType) -> None:
    case = clip_case(0)
    expected: dict[str, list[float]] = {"none": [], "pessimistic": [], "replace": []}
    outside = 0
    for v, old, target in zip(
        *(np.asarray(case[n], np.float64) for n in ("values", "old_values", "targets")), strict=True
    ):
        moved = v - old
        outside += abs(moved) > 0.2
        clipped = old + min(max(moved, -0.2), 0.2)
        expected["none"].append((v - target) ** 2)
        expected["replace"].append((clipped - target) ** 2)
        expected["pessimistic"].append(max((v - target) ** 2, (clipped - target) ** 2))
    assert 5 < outside < 35
    for choice, losses in expected.items():
        loss, fraction = module.AXIS.apply(choice, error=squared, **case, clip_range=0.2)
        close(loss, losses)
        close(fraction, outside / 40)


def clip_equals_torchrl(module: ModuleType) -> None:
    """Losses, the gradient of their mean through the clip, and value_clip_fraction."""
    for case in golden("torchrl_ppo")["value_clip"]:
        error = squared if case["critic"] == "l2" else smooth
        value, old, target = (
            jnp.asarray(case[n], jnp.float32) for n in ("value", "old_value", "target")
        )

        def mean_loss(value, choice, *, error=error, old=old, target=target, clip=case["clip"]):
            loss, fraction = module.AXIS.apply(
                choice, error=error, values=value, targets=target, old_values=old, clip_range=clip
            )
            return jnp.mean(loss), (loss, fraction)

        gradient, (loss, fraction) = jax.grad(mean_loss, has_aux=True)(value, "pessimistic")
        close(loss, case["clipped_loss"], atol=1e-6)
        close(fraction, case["clip_fraction"], atol=1e-6)
        close(gradient, case["grad_mean_loss"], atol=1e-6)
        _, (loss, _) = mean_loss(value, "none")
        close(loss, case["unclipped_loss"], atol=1e-6)


def critic_loss_equals_clip_ppo_loss(module: ModuleType) -> None:
    """ClipPPOLoss as a whole, for a linear critic: loss_critic = coefficient · mean(loss)."""
    for case in golden("torchrl_ppo")["clip_ppo_loss"]:
        settings = case["settings"]
        observation, weight, old, target = (
            jnp.asarray(case[n], jnp.float32)
            for n in ("observation", "value_weight", "old_value", "value_target")
        )
        clip = settings["clip_value"]
        loss, fraction = module.AXIS.apply(
            "none" if clip is None else "pessimistic",
            error=squared if settings["loss_critic_type"] == "l2" else smooth,
            values=observation @ weight,
            targets=target,
            old_values=old,
            clip_range=0.2 if clip is None else clip,
        )
        close(settings["critic_coeff"] * jnp.mean(loss), case["outputs"]["loss_critic"])
        if clip is not None:
            close(fraction, case["outputs"]["value_clip_fraction"])


def endless_range_clips_nothing(module: ModuleType) -> None:
    """Bit by bit, and so it does for values that stay within a finite range."""
    case = clip_case(1)
    plain, _ = module.AXIS.apply("none", error=squared, **case, clip_range=0.2)
    for clip_range in (jnp.inf, 1e3):
        for choice in ("none", "pessimistic", "replace"):
            loss, fraction = module.AXIS.apply(choice, error=squared, **case, clip_range=clip_range)
            np.testing.assert_array_equal(np.asarray(loss), np.asarray(plain))
            assert float(fraction) == 0


def clip_bounds_the_gradient(module: ModuleType) -> None:
    """Outside the range replace has none, and pessimistic that of the unclipped error if larger."""
    case = clip_case(2)
    moved = np.asarray(case["values"] - case["old_values"])
    outside = np.abs(moved) > 0.2

    def gradient(choice):
        return np.asarray(
            jax.grad(
                lambda v: jnp.sum(
                    module.AXIS.apply(
                        choice, error=squared, **(case | {"values": v}), clip_range=0.2
                    )[0]
                )
            )(case["values"])
        )

    plain = 2 * np.asarray(case["values"] - case["targets"])
    close(gradient("none"), plain)
    close(gradient("replace"), np.where(outside, 0, plain))
    clipped = np.asarray(case["old_values"]) + np.clip(moved, -0.2, 0.2)
    leads = np.abs(plain / 2) > np.abs(clipped - np.asarray(case["targets"]))
    assert np.any(outside & leads)
    assert np.any(outside & ~leads)
    close(gradient("pessimistic"), np.where(outside & ~leads, 0, plain))


VALUE_CLIP = (
    clip_equals_loop,
    clip_equals_torchrl,
    critic_loss_equals_clip_ppo_loss,
    endless_range_clips_nothing,
    clip_bounds_the_gradient,
)


# Advantage statistics


def grouped_samples(seed: int, B: int = 48) -> tuple[Any, Any]:
    """Five groups, among them a constant one (2), a single sample (3), and an empty one (4)."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 1, 2], B // 3)
    groups[5] = 3
    advantages = rng.normal(loc=[3.0, -40.0, 0.0, 1.0], scale=[1.0, 20.0, 1.0, 1.0], size=(B, 4))
    advantages = advantages[np.arange(B), groups]
    advantages[groups == 2] = 0.9
    order = rng.permutation(B)
    return jnp.asarray(advantages[order], jnp.float32), jnp.asarray(groups[order], jnp.int32)


def statistics_equal_loop(module: ModuleType) -> None:
    advantages, groups = grouped_samples(0)
    a, g = np.asarray(advantages, np.float64), np.asarray(groups)
    for ddof, epsilon in ((0, 1e-8), (1, 1e-8), (1, 0.1)):
        expected = {"none": a, "all": (a - a.mean()) / (a.std(ddof=ddof) + epsilon)}
        grouped = []
        for sample, group in zip(a, g, strict=True):
            peers = a[g == group]
            if len(peers) <= ddof or np.all(peers == peers[0]):
                grouped.append(0.0)
            else:
                grouped.append((sample - peers.mean()) / (peers.std(ddof=ddof) + epsilon))
        expected["per_group"] = np.asarray(grouped)
        for choice, numbers in expected.items():
            got = module.AXIS.apply(
                choice,
                advantages=advantages,
                groups=groups,
                num_groups=5,
                ddof=ddof,
                epsilon=epsilon,
            )
            close(got, numbers)


def constant_sets_give_exact_zeros(module: ModuleType) -> None:
    """Their mean is off by rounding, which a tiny epsilon would blow up to large advantages."""
    for constant in (0.9, -7.3, 1e6):
        for size in (3, 7, 48):
            advantages = jnp.full((size,), constant, jnp.float32)
            for choice in ("all", "per_group"):
                for ddof in (0, 1):
                    got = module.AXIS.apply(
                        choice,
                        advantages=advantages,
                        groups=jnp.zeros((size,), jnp.int32),
                        num_groups=2,
                        ddof=ddof,
                        epsilon=1e-9,
                    )
                    assert np.all(np.asarray(got) == 0), (choice, constant, size)


def too_small_sets_give_exact_zeros(module: ModuleType) -> None:
    for choice in ("all", "per_group"):
        for ddof in (1, 2):
            sizes = range(1, ddof + 1)
            for size in sizes:
                got = module.AXIS.apply(
                    choice,
                    advantages=jnp.arange(size, dtype=jnp.float32) + 2,
                    groups=jnp.zeros((size,), jnp.int32),
                    num_groups=1,
                    ddof=ddof,
                )
                assert np.all(np.asarray(got) == 0), (choice, ddof, size)


ADVANTAGE_STATISTICS = (
    statistics_equal_loop,
    constant_sets_give_exact_zeros,
    too_small_sets_give_exact_zeros,
)


# Gradient clipping


def gradient_tree(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "kernel": jnp.asarray(rng.normal(size=(4, 3)), jnp.float32),
        "layers": [jnp.asarray(rng.normal(size=5), jnp.float32), jnp.float32(0.4)],
    }


def global_norm_equals_optax(module: ModuleType) -> None:
    import optax

    gradients = gradient_tree(0)
    for max_norm in (0.1, 0.5, 3.0, 100.0):
        clip = optax.clip_by_global_norm(max_norm)
        expected, _ = clip.update(gradients, clip.init(gradients))
        got = module.AXIS.apply("global_norm", gradients=gradients, max_norm=max_norm)
        jax.tree.map(close, got, expected)
        norm = np.sqrt(sum(np.sum(np.square(x, dtype=np.float64)) for x in jax.tree.leaves(got)))
        assert norm <= max_norm * (1 + 1e-6)


def small_gradients_keep_their_bits(module: ModuleType) -> None:
    gradients = gradient_tree(1)
    for choice, max_norm in (("none", 0.0), ("global_norm", 100.0), ("global_norm", np.inf)):
        got = module.AXIS.apply(choice, gradients=gradients, max_norm=max_norm)
        jax.tree.map(np.testing.assert_array_equal, got, gradients)
    zero = jax.tree.map(jnp.zeros_like, gradients)
    for max_norm in (0.0, 0.5):
        got = module.AXIS.apply("global_norm", gradients=zero, max_norm=max_norm)
        jax.tree.map(np.testing.assert_array_equal, got, zero)


GRADIENT_CLIP = (global_norm_equals_optax, small_gradients_keep_their_bits)

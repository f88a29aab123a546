"""What policy_loss_reduction, kl_placement and reward_transform must satisfy."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from language_golden import GOLDEN_TOLERANCE
from oracles import check_of, close, golden


def losses_of(seed: int, B: int = 5, L: int = 4) -> tuple[Any, Any]:
    """Holes, an empty sample, a full one, and NaN where masked."""
    rng = np.random.default_rng(seed)
    mask = rng.random((B, L)) < 0.6
    mask[0], mask[1] = False, True
    return jnp.asarray(np.where(mask, rng.normal(size=(B, L)), np.nan), jnp.float32), jnp.asarray(
        mask, jnp.float32
    )


# Reductions


@check_of("policy_loss_reduction")
def reductions_equal_loop(module: ModuleType) -> None:
    """In a batch of long samples, with a single token, and with samples of one and two tokens."""
    for losses, mask in (losses_of(0), losses_of(0, B=2, L=1), losses_of(4, B=3, L=2)):
        rows = [
            [float(x) for x, m in zip(row, keep, strict=True) if m]
            for row, keep in zip(np.asarray(losses), np.asarray(mask), strict=True)
        ]
        tokens = [x for row in rows for x in row]
        means = [sum(row) / len(row) for row in rows if row]
        expected = {
            "token_mean": sum(tokens) / len(tokens),
            "batch_token_mean": sum(tokens) / 8.5,
            "sequence_mean": sum(means) / len(means),
            "constant_length": sum(tokens) / (len(rows) * 7.0),
            "sequence_sum": sum(tokens) / len(means),
        }
        assert set(expected) == set(module.AXIS)
        inputs = {"losses": losses, "mask": mask, "constant_length": 7.0}
        for choice, number in expected.items():
            close(module.AXIS.apply(choice, **inputs, step_tokens=8.5), number)
        close(module.AXIS.apply("batch_token_mean", **inputs), sum(tokens) / len(tokens))


@check_of("policy_loss_reduction")
def steps_of_a_batch_share_a_divisor(module: ModuleType) -> None:
    """The mean over the steps of a batch is the token mean of the whole batch, however its tokens
    are spread; token_mean weighs the tokens of a short step more."""
    losses, mask = losses_of(2, B=6)
    mask = mask.at[:3, 1:].set(0.0)
    tokens = float(mask.sum())

    def steps(choice: str) -> float:
        found = [
            module.AXIS.apply(
                choice,
                losses=losses[part],
                mask=mask[part],
                constant_length=7.0,
                step_tokens=tokens / 2,
            )
            for part in (slice(0, 3), slice(3, 6))
        ]
        return float(sum(found)) / 2

    whole = np.where(np.asarray(mask) > 0, np.asarray(losses), 0).sum() / tokens
    close(steps("batch_token_mean"), whole)
    assert abs(steps("token_mean") - whole) > 0.01


@check_of("policy_loss_reduction")
def gradients_of_reductions_are_weights(module: ModuleType) -> None:
    """Of each token: 0 where masked, and what is left sums up as the name says."""
    losses, mask = losses_of(1)
    lengths = np.asarray(mask).sum(-1)

    def weights(choice: str, mask: Any) -> np.ndarray:
        return np.asarray(
            jax.grad(lambda x: module.AXIS.apply(choice, losses=x, mask=mask, constant_length=7.0))(
                losses
            )
        )

    for choice in module.AXIS:
        assert np.all(weights(choice, mask)[np.asarray(mask) == 0] == 0)
        empty = jnp.zeros_like(mask)
        assert np.all(weights(choice, empty) == 0)
        assert module.AXIS.apply(choice, losses=losses, mask=empty, constant_length=7.0) == 0
    close(weights("token_mean", mask).sum(-1), lengths / lengths.sum())
    close(weights("batch_token_mean", mask).sum(-1), lengths / lengths.sum())
    close(weights("sequence_mean", mask).sum(-1), [0, 0.25, 0.25, 0.25, 0.25])
    close(weights("constant_length", mask).sum(-1), lengths / 35)
    close(weights("sequence_sum", mask).sum(-1), lengths / 4)


# KL


@check_of("kl_placement")
def estimates_equal_golden(module: ModuleType) -> None:
    """OpenRLHF's compute_approx_kl."""
    case = golden("01_binary_uneven")
    price = 0.5
    seen = set()
    for output in case["outputs"]:
        if "approx_kl" not in output["function"]:
            continue
        estimator = output["settings"]["kl_estimator"]
        pairs = {
            "log_probs": jnp.asarray(case["inputs"]["new_logprobs"], jnp.float32),
            "reference_log_probs": jnp.asarray(case["inputs"]["ref_logprobs"], jnp.float32),
        }
        if estimator == "k1":
            got = module.AXIS.apply("reward_k1", **pairs, kl_coefficient=price).reward
        else:
            got = module.AXIS.apply(f"loss_{estimator}", **pairs, kl_coefficient=price).loss
        np.testing.assert_allclose(got / price, output["output"], **GOLDEN_TOLERANCE)
        seen.add(estimator)
    assert seen == {"k1", "k2", "k3"}


@check_of("kl_placement")
def only_one_side_is_charged(module: ModuleType) -> None:
    pi, reference = jnp.asarray([-1.0, -2.0, -0.1]), jnp.asarray([-1.5, -1.0, -0.1])
    for choice in module.AXIS:
        kl = module.AXIS.apply(choice, log_probs=pi, reference_log_probs=reference)
        assert np.any(kl.reward != 0) == choice.startswith("reward_")
        assert np.any(kl.loss != 0) == choice.startswith("loss_")
        assert np.any(kl.sample != 0) == (choice == "sample_k1")
        assert kl.reward[2] == 0
        assert kl.loss[2] == 0


@check_of("kl_placement")
def gradients_are_those_of_divergences(module: ModuleType) -> None:
    """Over all tokens of a small vocabulary, weighted by π: k2's is that of KL(π, π_ref), k3's
    that of KL(π_ref, π). A price in the reward has none, nor has the reference.
    """
    rng = np.random.default_rng(0)
    logits, reference = (jnp.asarray(rng.normal(size=6), jnp.float32) for _ in range(2))

    pi = jax.nn.softmax(logits)

    def mean(choice: str, side: str, weights: Any = pi) -> Any:
        def of(logits: Any, reference: Any) -> Any:
            kl = module.AXIS.apply(
                choice,
                log_probs=jax.nn.log_softmax(logits),
                reference_log_probs=jax.nn.log_softmax(reference),
                kl_coefficient=1.0,
            )
            return jnp.sum(weights * getattr(kl, side))

        return jax.grad(of, (0, 1))(logits, reference)

    def divergence(p: Any, q: Any) -> Any:
        p, q = jax.nn.log_softmax(p), jax.nn.log_softmax(q)
        return jnp.sum(jnp.exp(p) * (p - q))

    close(mean("loss_k2", "loss")[0], jax.grad(divergence)(logits, reference))
    close(mean("loss_k3", "loss")[0], jax.grad(divergence, 1)(reference, logits))
    close(mean("loss_k1", "loss")[0], np.zeros(6))
    uneven = jnp.arange(6.0)  # over π the gradient of log π is 0 by itself
    for choice in module.AXIS:
        assert np.all(mean(choice, "reward", uneven)[0] == 0)
        assert np.all(mean(choice, "sample", uneven)[0] == 0)
        assert np.all(mean(choice, "loss", uneven)[1] == 0)


@check_of("kl_placement")
def k3_does_not_cancel(module: ModuleType) -> None:
    """Near π = π_ref it is half the square, never negative."""
    x = jnp.asarray([1e-5, -1e-5, 1e-4, -3e-4, 0.0], jnp.float32)
    kl = module.AXIS.apply(
        "loss_k3", log_probs=x, reference_log_probs=jnp.zeros_like(x), kl_coefficient=1.0
    )
    assert np.all(np.asarray(kl.loss) >= 0)
    close(kl.loss, 0.5 * np.square(np.asarray(x, np.float64)), atol=2e-11, rtol=0.05)


@check_of("kl_placement")
def corrected_gradient_is_the_reverse_divergence(module: ModuleType) -> None:
    """Over samples of any π_old, on policy and off it: that of KL(π, π_ref), through the ratio."""
    rng = np.random.default_rng(1)
    logits, reference, other = (jnp.asarray(rng.normal(size=6), jnp.float32) for _ in range(3))

    def divergence(logits: Any) -> Any:
        p, q = jax.nn.log_softmax(logits), jax.nn.log_softmax(reference)
        return jnp.sum(jnp.exp(p) * (p - q))

    for old in (logits, other):
        log_old = jax.nn.log_softmax(old)

        def mean(logits: Any, choice: str, log_old: Any = log_old) -> Any:
            log_probs = jax.nn.log_softmax(logits)
            kl = module.AXIS.apply(
                choice,
                log_probs=log_probs,
                reference_log_probs=jax.nn.log_softmax(reference),
                log_ratio=log_probs - log_old,
                kl_coefficient=1.0,
            )
            return jnp.sum(jnp.exp(log_old) * kl.loss)

        wanted = jax.value_and_grad(divergence)(logits)
        got = jax.value_and_grad(mean)(logits, "loss_k3_corrected")
        close(got[0], wanted[0])
        close(got[1], wanted[1])
        assert np.abs(jax.grad(mean)(logits, "loss_k3") - wanted[1]).max() > 0.01


@check_of("kl_placement")
def estimates_are_bounded_as_in_verl_and_openrlhf(module: ModuleType) -> None:
    """One token at a time: the value and its derivative by log π, 0 where a bound acts."""
    gaps = np.array([-120.0, -25.0, -2.0, -0.1, 0.3, 2.0, 3.5, 25.0, 120.0])  # log π - log π_ref
    bound, log_bound = 10.0, 20.0
    estimates = {
        "k1": lambda x: (x, 1.0),
        "k2": lambda x: (0.5 * x * x, x),
        "k3": lambda x: (math.exp(-x) + x - 1, 1 - math.exp(-x)),
    }
    for choice in ("reward_k1", "reward_k2", "reward_k3", "loss_k1", "loss_k2", "loss_k3"):
        side, _, estimate = choice.partition("_")

        def total(log_probs: Any, choice: str = choice, side: str = side) -> Any:
            kl = module.AXIS.apply(
                choice,
                log_probs=log_probs,
                reference_log_probs=jnp.full(len(gaps), -1.0),
                kl_coefficient=2.0,
                kl_clip=bound,
                kl_log_ratio_clip=log_bound,
            )
            return jnp.sum(getattr(kl, side)), getattr(kl, side)

        log_probs = jnp.asarray(gaps - 1.0, jnp.float32)
        slopes, values = jax.grad(total, has_aux=True)(log_probs)
        for gap, value, slope in zip(gaps, values, slopes, strict=True):
            inside = min(max(gap, -log_bound), log_bound) if estimate == "k3" else gap
            number, derivative = estimates[estimate](inside)
            kept = min(max(number, -bound), bound)
            acts = kept != number or inside != gap
            close(value, 2 * kept)
            close(slope, 0.0 if acts or side == "reward" else 2 * derivative)


# Rewards


@check_of("reward_transform")
def transforms_equal_loop(module: ModuleType) -> None:
    rewards = np.asarray([[0.0, 1.0], [-3.0, 0.25], [12.0, -7.0]])
    task, scales = [2, 0, 2], [10.0, 1.0, 0.1]
    expected = {
        "raw": lambda r, t: r,
        "clipped": lambda r, t: max(-2.0, min(r, 2.0)),
        "plus_minus_one": lambda r, t: r + r - 1,
        "per_task_scale": lambda r, t: r * scales[t],
    }
    assert set(expected) == set(module.AXIS)
    for choice, function in expected.items():
        got = module.AXIS.apply(
            choice,
            rewards=jnp.asarray(rewards, jnp.float32),
            task=jnp.asarray(task),
            task_scales=jnp.asarray(scales),
            reward_clip=2.0,
        )
        close(
            got,
            [[function(float(r), t) for r in row] for row, t in zip(rewards, task, strict=True)],
        )

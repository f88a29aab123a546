"""What holds for any rewards and masks: prompt advantages, on one device and on eight."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import forked
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_checks import GROUPS, rollout

import variants

AXIS = variants.axis("prompt_advantage")
SEEDS = st.integers(0, 2**32 - 1)
MASKS = st.lists(st.booleans(), min_size=120, max_size=120)
properties = settings(max_examples=20, deadline=None, derandomize=True)

advantages = jax.jit(lambda index, inputs: AXIS.apply(index, **inputs))
gradient = jax.jit(
    jax.grad(
        lambda rewards, index, inputs: jnp.sum(advantages(index, inputs | {"rewards": rewards}))
    )
)


def advantage(choice, case, kl_coefficient=0.0):
    inputs = case | {"kl_coefficient": kl_coefficient}
    return np.asarray(advantages(jnp.int32(AXIS.index(choice)), inputs))


def rescaled(case, scale, shift):
    """One prompt's rewards in another unit."""
    rewards = case["rewards"].at[0].multiply(scale).at[0].add(shift)
    return case | {"rewards": rewards}


@properties
@given(SEEDS, st.floats(0.1, 100), st.floats(-50, 50))
def test_per_prompt_has_no_unit_of_its_own(seed, scale, shift):
    case = rollout(seed)
    case["rewards"] = case["rewards"].at[0].set(jnp.asarray([0.0, 1.0, 3.0, -2.0]))
    moved = rescaled(case, scale, shift)
    np.testing.assert_allclose(
        advantage("per_prompt", case), advantage("per_prompt", moved), rtol=1e-3, atol=1e-3
    )


@properties
@given(SEEDS, st.floats(3, 100))
def test_batch_statistics_see_the_unit_of_one_prompt(seed, scale):
    """The others' advantages shrink when one prompt's rewards grow; a shift alone moves them."""
    case = rollout(seed)
    case["mask"] = jnp.ones_like(case["mask"])
    case["token_kl"] = jnp.zeros_like(case["mask"])
    case["rewards"] = jnp.asarray(
        np.random.default_rng(seed).permuted([[0.0, 1, 0, 1]] * 5, axis=1)
    )
    for choice in ("batch", "batch_samples"):
        plain = advantage(choice, case)
        grown = advantage(choice, rescaled(case, scale, 0.0))
        assert np.ptp(grown[1:]) < 0.9 * np.ptp(plain[1:])
        shifted = advantage(choice, rescaled(case, 1.0, scale))
        assert np.max(shifted[1:]) < np.max(plain[1:])
    for choice in ("per_prompt_mean_batch_std", "per_prompt_baseline_batch"):
        plain = advantage(choice, case)
        grown = advantage(choice, rescaled(case, scale, 0.0))
        assert np.ptp(grown[1:]) < 0.9 * np.ptp(plain[1:])


@properties
@given(SEEDS, st.permutations(range(5)), st.permutations(range(4)), st.sampled_from(AXIS.names))
def test_order_does_not_matter(seed, prompts, samples, choice):
    case = rollout(seed)
    moved = {n: x[np.asarray(prompts)][:, np.asarray(samples)] for n, x in case.items()}
    np.testing.assert_allclose(
        advantage(choice, case, 0.1)[np.asarray(prompts)][:, np.asarray(samples)],
        advantage(choice, moved, 0.1),
        rtol=1e-3,
        atol=1e-4,
    )


@properties
@given(SEEDS, MASKS, st.sampled_from(AXIS.names), st.booleans())
def test_any_mask_gives_finite_numbers_and_zeros_outside(seed, mask, choice, equal):
    case = rollout(seed)
    case["mask"] = jnp.asarray(mask, jnp.float32).reshape(case["mask"].shape)
    case["token_kl"] = jnp.where(case["mask"] > 0, 0.1, jnp.nan)
    if equal:
        case["rewards"] = jnp.full_like(case["rewards"], 0.9)
    got = advantage(choice, case, 0.1)
    assert np.all(np.isfinite(got))
    assert np.all(got[np.asarray(case["mask"]) == 0] == 0)
    index = jnp.int32(AXIS.index(choice))
    slopes = gradient(case["rewards"], index, case | {"kl_coefficient": 0.1})
    assert np.all(np.isfinite(slopes))
    if equal and choice in GROUPS and not choice.startswith("per_prompt_baseline_batch"):
        assert np.all(advantage(choice, case) == 0)


@properties
@given(SEEDS, st.sampled_from([c for c in AXIS.names if c not in ("none", "greedy")]))
def test_advantages_of_full_samples_sum_to_0(seed, choice):
    """Where all are as long: over the batch for all baselines, over a prompt for its own."""
    case = rollout(seed)
    case["mask"] = jnp.ones_like(case["mask"])
    case["token_kl"] = jnp.zeros_like(case["mask"])
    got = advantage(choice, case)
    assert abs(got.sum()) < 2e-5 * np.abs(got).sum()
    if choice in GROUPS:
        np.testing.assert_allclose(got.sum((1, 2)), 0, atol=1e-5 * np.abs(got).sum())


@properties
@given(SEEDS, st.integers(1, 6))
def test_units_are_one_where_samples_are_as_long(seed, length):
    case = rollout(seed)
    case["mask"] = jnp.zeros_like(case["mask"]).at[..., :length].set(1.0)
    case["token_kl"] = jnp.zeros_like(case["mask"])
    for tokens, samples in (
        ("batch", "batch_samples"),
        ("per_prompt_baseline_batch", "per_prompt_baseline_batch_samples"),
    ):
        np.testing.assert_allclose(
            advantage(tokens, case), advantage(samples, case), rtol=1e-3, atol=1e-4
        )


def test_lengths_weigh_in_token_statistics_alone():
    """An all-right prompt beside a longer wrong answer: REINFORCE++-baseline pushes it all the
    same, sample statistics do not.
    """
    case = {
        "rewards": jnp.asarray([[1.0, 1.0], [1.0, 0.0]]),
        "token_kl": jnp.zeros((2, 2, 4)),
        "mask": jnp.ones((2, 2, 4)).at[1, 0, 1:].set(0),
    }
    assert np.all(advantage("per_prompt_baseline_batch", case)[0] > 0.1)
    assert np.all(advantage("per_prompt_baseline_batch_samples", case)[0] == 0)


def test_statistics_are_global_over_eight_devices():
    """Prompts sharded over 8 devices give the numbers of one."""
    program = textwrap.dedent("""
        import jax, jax.numpy as jnp, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        import variants

        assert len(jax.devices()) == 8
        axis = variants.axis("prompt_advantage")
        rng = np.random.default_rng(0)
        mask = rng.random((16, 4, 5)) < 0.7
        inputs = {
            "rewards": rng.normal(size=(16, 4)).astype(np.float32),
            "token_kl": np.where(mask, rng.normal(size=mask.shape), 0).astype(np.float32),
            "mask": mask.astype(np.float32),
        }
        inputs["rewards"][3] = 0.9
        over_prompts = NamedSharding(Mesh(np.asarray(jax.devices()), "d"), PartitionSpec("d"))
        sharded = {n: jax.device_put(x, over_prompts) for n, x in inputs.items()}
        run = jax.jit(lambda index, inputs: axis.apply(index, **inputs, kl_coefficient=0.1))
        for index, choice in enumerate(axis):
            one = run(jnp.int32(index), {n: jnp.asarray(x) for n, x in inputs.items()})
            many = run(jnp.int32(index), sharded)
            assert len(many.sharding.device_set) == 8, choice
            np.testing.assert_allclose(one, many, rtol=1e-5, atol=1e-5, err_msg=choice)
        print("compared", len(axis))
    """)
    flags = "--xla_force_host_platform_device_count=8"
    done = forked.run(
        ["python", "-c", program],
        Path(__file__).parent,
        dict(os.environ) | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["compared", str(len(AXIS))]

"""What holds for any rewards and masks: prompt advantages, on one device and on eight."""

from __future__ import annotations

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

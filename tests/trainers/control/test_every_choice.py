"""Every choice of every axis trains, in one program, and is heard by it."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import compiled, same_bits, train, variant

import variants
from ablations.trainers.control.settings import AXES

UPDATES, CHUNKS = 14, 7
STRUCTURE = {"num_envs": 32, "unroll_length": 16, "num_minibatches": 4, "epochs": 2}
STEPS = UPDATES * CHUNKS * 32 * 16

CHOICES = [(axis, choice) for axis in AXES for choice in variants.axis(axis)]
# Numbers at which a choice has something to do on this task.
SETS: dict[str, dict[str, Any]] = {
    "dual_clip": {"dual_clip": 1.01, "learning_rate": 3e-3},
    "global_norm": {"max_gradient_norm": 0.1},
    "element_wise": {"max_gradient_norm": 0.01},
    "huber": {"error_scale": 0.5},
    "pessimistic": {"value_clip_range": 0.02},
    "replace": {"value_clip_range": 0.02},
}


@cache
def default_parameters() -> Any:
    return train(variant(), updates=UPDATES, chunks=CHUNKS, **STRUCTURE)[0].parameters


@pytest.mark.parametrize(("axis", "choice"), CHOICES, ids=lambda name: name)
def test_every_choice_trains(axis: str, choice: str) -> None:
    """50,000 steps without a NaN, all in one compiled program; and not those of the default. What
    does not clip has no clip fraction.
    """
    assert STEPS > 50_000
    one = variant(**{axis: choice, **SETS.get(choice, {})})._replace(
        iterations=np.float32(UPDATES * CHUNKS)
    )
    init, chunk = compiled(updates=UPDATES, **STRUCTURE)
    state = init(jax.random.key(0), one)
    chosen = {**AXES, axis: choice}
    silent = {
        "policy/clip_fraction": chosen["policy_loss"] in ("none", "kl_penalty"),
        "value/clip_fraction": chosen["value_clip"] == "none",
    }
    for _ in range(CHUNKS):
        state, metrics = chunk(state, one)
        for name, value in metrics.items():
            assert np.isfinite(value) != silent.get(name, False), f"{name} = {value}"
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.parameters))
    assert chunk._cache_size() == 1
    assert same_bits(state.parameters, default_parameters()) == (choice == AXES[axis])

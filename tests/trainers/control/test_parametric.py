"""Distributions that a choice of action_distribution brings, as the trainer uses them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone

from ablations.environments import Box
from ablations.tasks import task
from ablations.trainers.control.distribution import Parametric, distribution_of
from ablations.trainers.control.ppo import SPEC

BETA = {"action_distribution": "beta"}
OF_NORMALS = {"entropy_estimate", "mean_perturbation", "policy_std"}


def test_noise_is_drawn_ahead_and_says_all() -> None:
    """One action at a time, or all at once; nothing else is random."""
    made = distribution_of(Box(3), SPEC.axes | BETA)
    assert isinstance(made, Parametric)
    variant = alone(**BETA)
    raw = jax.random.normal(jax.random.key(1), (2, 4, made.outputs.layer))
    noise = made.noise(jax.random.key(0), (2, 4))
    x, action, log_prob = made.sample(raw, noise, variant)
    assert x.shape == action.shape == (2, 4, 3)
    np.testing.assert_allclose(log_prob, made.log_prob(raw, x, variant), rtol=1e-6)
    for index in np.ndindex(2, 4):
        one = made.sample(raw[index], noise[index], variant)
        np.testing.assert_allclose(one.x, x[index], rtol=1e-6)
    assert len(np.unique(x)) == x.size
    assert float(jnp.max(jnp.abs(action))) < 1.0
    assert made.mode(raw, variant).shape == (2, 4, 3)
    assert made.entropy(raw, jax.random.key(2), variant).shape == (8,)
    assert float(made.kl(raw, raw, variant)) == pytest.approx(0.0, abs=1e-5)
    assert float(made.kl(raw, raw + 1.0, variant)) > 0.01


def test_what_belongs_to_normals_is_not_read() -> None:
    """Nothing of it is in a configuration, and to set it changes nothing."""
    config = SPEC.resolve(task("fast"), BETA)
    usual = SPEC.resolve(task("fast"), {})
    assert OF_NORMALS - config["choices"].keys() == OF_NORMALS
    left = usual["choices"].keys() - config["choices"].keys()
    assert left == OF_NORMALS - {"mean_perturbation"}, "which is neutral"
    assert SPEC.resolve(task("fast"), BETA | {"policy_std": "exp_parameter"}) == config
    found = SPEC.inert(config, sorted(OF_NORMALS))
    assert set(found) == OF_NORMALS
    assert SPEC.completed(config)["choices"].keys() & OF_NORMALS == set()

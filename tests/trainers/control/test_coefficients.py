"""Coefficients that follow a measurement, from batch to batch; and means that are displaced."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone, compiled, only, program, variant
from test_estimates import steps

import variants
from ablations.trainers.control.ppo import ppo_loss
from ablations.trainers.losses import scheduled
from ablations.trainers.spec import trainer

CHOICES = {
    "policy_loss": "kl_penalty",
    "penalty_schedule": "adaptive_kl",
    "entropy_schedule": "target",
}
PROGRAM = {"fixed": (*only(*CHOICES), *CHOICES.items())}
INITIAL = {"penalty_coefficient": 2.0, "entropy_coefficient": 0.02}


@pytest.mark.parametrize(("penalty_kl", "factor"), [(1e-8, 2.0), (1e3, 0.5)])
def test_coefficients_are_carried_and_used(penalty_kl: float, factor: float) -> None:
    one = variant(penalty_kl=penalty_kl, entropy_target=0.5, entropy_rate=0.3, **INITIAL)
    init, chunk = compiled(**PROGRAM)
    state, expected = init(jax.random.key(0), one), dict(INITIAL)
    for _ in range(3):
        assert {n: float(x) for n, x in state.own.coefficients.items()} == pytest.approx(expected)
        state, metrics = chunk(state, one)
        for name, number in expected.items():
            assert float(metrics[f"loss/{name}"]) == pytest.approx(number)
        entropy = float(metrics["policy/entropy"])
        used = expected["entropy_coefficient"]
        assert float(metrics["loss/entropy"]) == pytest.approx(-used * entropy, rel=1e-4)
        expected["entropy_coefficient"] *= math.exp(0.3 * (0.5 - entropy))
        expected["penalty_coefficient"] *= factor


def test_where_nothing_changes_nothing_is_carried() -> None:
    fixed = {"entropy_schedule": "constant", "penalty_schedule": "constant"}
    assert scheduled(fixed, variant()) == {}
    assert list(scheduled(fixed | {"entropy_schedule": "linear"}, variant())) == [
        "entropy_coefficient"
    ]


def test_a_displaced_mean_is_what_actions_are_scored_by() -> None:
    """As in CleanRL: the ratio has the displaced mean, the closed form of the divergence not."""
    _, batch, parameters = steps()
    ppo, key, width = program(), jax.random.key(5), 0.7
    sets = {"perturbation_width": width, "entropy_estimate": "closed_form"}

    def loss(name: str) -> dict[str, jax.Array]:
        one = alone(mean_perturbation=name, **sets)
        return ppo_loss(parameters, ppo.networks, ppo.distribution, batch, key, one, 1)[1]

    plain, moved = loss("none"), loss("uniform")
    raw = ppo.networks.policy(parameters, batch.observation)
    z = ppo.distribution.perturbed(raw, key, alone(mean_perturbation="uniform", **sets)) - raw
    A = batch.x.shape[-1]
    assert not np.any(z[..., A:])
    assert 0.5 * width < float(jnp.max(jnp.abs(z))) <= width
    assert float(jnp.min(z)) < 0
    assert not np.array_equal(
        z,
        ppo.distribution.perturbed(
            raw, jax.random.key(6), alone(mean_perturbation="uniform", **sets)
        )
        - raw,
    )
    mean, spread = np.split(np.asarray(raw, np.float64), 2, axis=-1)
    std = np.log1p(np.exp(spread)) + 0.001
    score = (np.asarray(batch.x) - mean - np.asarray(z)[..., :A]) / std
    density = (-0.5 * score**2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(-1)
    log_ratio = density - np.asarray(batch.log_prob)
    assert float(moved["policy/kl_k1"]) == pytest.approx(-log_ratio.mean(), rel=1e-4)
    assert float(moved["policy/kl_k1"]) != pytest.approx(float(plain["policy/kl_k1"]), rel=1e-2)
    for name in ("policy/exact_kl", "policy/entropy", "loss/value"):
        assert float(moved[name]) == float(plain[name])


def test_rules_about_coefficients() -> None:
    ppo = dict(trainer("ppo").axes)
    (complaint,) = variants.conflicts(
        ppo | {"entropy_schedule": "target", "entropy_coefficient": 0.0}
    )
    assert "set it above 0" in complaint
    adaptive = {"penalty_schedule": "adaptive_kl"}
    assert "penalty_kl" in variants.inert_settings({"policy_loss": "clip", **adaptive})
    assert not variants.inert_settings({"policy_loss": "kl_penalty", **adaptive})
    one_step = {"epochs": 1, "num_minibatches": 1}
    assert "penalty_kl" in variants.inert_settings(adaptive | one_step)
    moved = {"mean_perturbation": "uniform", "policy_loss": "clip", "kl_stop": "epoch"}
    assert not variants.inert_settings(adaptive | one_step | {"mean_perturbation": "uniform"})
    assert not variants.inert_settings(moved | one_step)
    for schedule in ("adaptive_kl", "adaptive_exact_kl"):
        found = variants.inert_settings(one_step | {**moved, "learning_rate_schedule": schedule})
        assert ("desired_kl" in found) == (schedule == "adaptive_exact_kl")

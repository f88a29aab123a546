"""What the critic stands for, statistics that forget, Brax's divergence: against plain loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone
from jax import tree

import variants
from ablations.trainers.control import critic as critics
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.critic import Critic
from ablations.trainers.control.distribution import exact_kl
from ablations.trainers.control.networks import make_networks

BATCHES = [np.random.default_rng(i).normal(3 * i, 1 + i, (4, 5)) for i in range(3)]


def first(choice: str) -> tuple[Critic, dict]:
    networks = make_networks(3, 1, (4,), (4, 4))
    return Critic(networks.value, choice, critics.start(choice)), networks.init(jax.random.key(0))


def close(one, other, tolerance=1e-5) -> None:
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("choice", ["running", "popart"])
def test_targets_seen_are_those_of_all_batches(choice: str) -> None:
    critic, parameters = first(choice)
    for i, targets in enumerate(BATCHES):
        critic, parameters = critic.after(jnp.asarray(targets, jnp.float32), parameters)
        seen = np.concatenate([x.ravel() for x in BATCHES[: i + 1]])
        close(critic.output(jnp.float32(7.0)), (7.0 - seen.mean()) / seen.std(), 1e-4)


def test_popart_changes_no_value_and_running_no_parameter() -> None:
    observation = jax.random.normal(jax.random.key(1), (6, 3))
    for choice in ("running", "popart"):
        critic, parameters = first(choice)
        for targets in BATCHES:
            before = critic.value(parameters, observation)
            after, moved = critic.after(jnp.asarray(targets, jnp.float32), parameters)
            same = bool(np.allclose(before, after.value(moved, observation), rtol=1e-4, atol=1e-4))
            assert same == (choice == "popart")
            kept = tree.all(tree.map(np.array_equal, parameters, moved))
            assert kept == (choice == "running")
            assert tree.all(tree.map(np.array_equal, parameters["policy"], moved["policy"]))
            critic, parameters = after, moved


@pytest.mark.parametrize("choice", ["none", "symlog"])
def test_without_statistics_nothing_is_carried(choice: str) -> None:
    critic, parameters = first(choice)
    assert critic.seen is None
    after, same = critic.after(jnp.ones((4, 5)), parameters)
    assert after is critic
    assert same is parameters
    assert set(variants.axis("value_normalization")) == {"running", "popart", "none", "symlog"}


# Statistics that forget


def test_forgetting_equals_a_loop() -> None:
    """VecNormV2's, in double precision: moving averages of o and o², corrected for their start."""
    rng = np.random.default_rng(0)
    forgetting, N = 0.01, 3
    start = rng.normal(2, 3, (N, 2))
    state = statistics.start("per_step_forgetting", jnp.asarray(start), forgetting)
    first_moment, second_moment, count = np.zeros(2), np.zeros(2), 0

    def take_in(observations):
        nonlocal first_moment, second_moment, count
        k = len(observations)
        if k:
            weight = 1 - (1 - forgetting) ** k
            first_moment += weight * (observations.mean(0) - first_moment)
            second_moment += weight * ((observations**2).mean(0) - second_moment)
        count += k

    def expected():
        correction = 1 - (1 - forgetting) ** count
        return first_moment / correction, (second_moment - first_moment**2) / correction

    step = jax.jit(statistics.step, static_argnums=0)
    take_in(start)
    for t in range(40):
        close(state.mean, expected()[0], 1e-4)
        close(state.variance, expected()[1], 1e-3)
        final, reset = rng.normal(2, 3, (N, 2)), rng.normal(-4, 1, (N, 2))
        done = rng.random(N) < (0.3 if t else 0.0)
        following = np.where(done[:, None], reset, final)
        before, state = step(
            "per_step_forgetting",
            state,
            jnp.asarray(final),
            jnp.asarray(following),
            jnp.asarray(done),
            forgetting,
        )
        take_in(final)
        close(before.mean, expected()[0], 1e-4)
        take_in(reset[done])
    assert int(state.batches) == count


def test_forgetting_is_precise_at_torchrl_s_decay() -> None:
    """1 - 0.99999 has three digits in single precision; the number is the forgetting itself."""
    observation = jnp.asarray([[1.0], [2.0]])
    state = statistics.start("per_step_forgetting", observation, jnp.float32(1e-5))
    close(state.mean, [1.5])
    close(state.variance, [2.5 - 1.5**2 * 2e-5], 1e-4)


# Brax's divergence


def test_offset_divergence_is_brax_s() -> None:
    from brax.training.distribution import _NormalDistribution

    one = alone(action_distribution="tanh_normal", policy_std="softplus_head")
    old, new = jax.random.normal(jax.random.key(2), (2, 7, 6))

    def theirs(raw):
        mean, std = jnp.split(raw, 2, axis=-1)
        return _NormalDistribution(mean, jax.nn.softplus(std) + 0.001)

    expected = jnp.mean(theirs(new).kl_divergence(theirs(old)))
    close(exact_kl(old, new, one, 1e-5), expected)
    same = float(exact_kl(old, old, one, 1e-5))
    assert same == pytest.approx(3e-5, rel=0.05)
    assert float(exact_kl(old, old, one)) == pytest.approx(0.0, abs=1e-6)

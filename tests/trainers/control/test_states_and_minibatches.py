"""What is carried from step to step, and how a batch is cut: schedules, reward scaling, units."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone, compiled, only, program, same_bits, train, variant

import variants
from ablations import make_trainer
from ablations.tasks import task
from ablations.trainers import trainer
from ablations.trainers.revisions import compose

ONE_MINIBATCH = {"num_minibatches": 1, "epochs": 1, "fixed": only("minibatch_unit")}
STATEFUL = {
    "learning_rate_schedule": "adaptive_kl",
    "reward_scaling": "running_return_std",
    "minibatch_unit": "transitions",
}
LOOP = {"fixed": only(*STATEFUL)}


def rates(iterations: float, **sets: Any) -> list[float]:
    """The mean learning rate of each of four iterations."""
    one = variant(learning_rate=1e-3, **sets)._replace(iterations=np.float32(iterations))
    init, chunk = compiled(**LOOP)
    state, seen = init(jax.random.key(0), one), []
    for _ in range(4):
        state, metrics = chunk(state, one)
        seen.append(float(metrics["training/learning_rate"]))
    return seen


def test_linear_falls_by_the_iteration() -> None:
    """CleanRL's: the first iteration has the whole rate, the last one a share of 1/iterations."""
    linear = {"learning_rate_schedule": "linear"}
    np.testing.assert_allclose(rates(4, **linear), [1e-3, 0.75e-3, 0.5e-3, 0.25e-3], rtol=1e-6)
    np.testing.assert_allclose(rates(np.inf, **linear), 1e-3, rtol=1e-6)
    np.testing.assert_allclose(rates(4), 1e-3, rtol=1e-6)


def test_adaptive_rate_follows_the_divergence() -> None:
    adaptive = {"learning_rate_schedule": "adaptive_kl"}
    # Four gradient steps in an iteration: the metric is their mean.
    growth = np.mean(1.5 ** np.arange(1, 5))
    far = rates(4, **adaptive, desired_kl=100.0)
    assert far[0] == pytest.approx(1e-3 * growth)
    assert far[-1] == pytest.approx(1e-2)
    near = rates(4, **adaptive, desired_kl=1e-8)
    assert near[0] > near[1] > near[2] > near[3]


def test_engine_says_how_long_a_run_is() -> None:
    one, definition = task("fast"), trainer("ppo")
    config = definition.resolve(one, dict(one.hyperparameters["ppo"]))
    config["run"] = {"updates_per_chunk": 3, "points": 7, "evaluation_envs": 1}
    _, as_data = compose(config)
    assert as_data(config).iterations == 21
    assert as_data(config).iterations.dtype == np.float32
    _, alone = make_trainer("fast")
    assert alone.iterations == np.inf


def test_states_go_on_from_chunk_to_chunk() -> None:
    """As does everything else: three chunks of one update are one chunk of three."""
    one, _ = train(variant(**STATEFUL), chunks=3, **LOOP)
    three, _ = train(variant(**STATEFUL), updates=3, **LOOP)
    assert same_bits(one, three)
    assert int(one.reward_scaling.steps) == 3 * program().settings.unroll_length
    assert float(one.learner.schedule.current) != pytest.approx(3e-4)


def test_the_learner_sees_scaled_rewards_and_the_metrics_do_not() -> None:
    ppo = program()
    state = compiled(**LOOP)[0](jax.random.key(0), variant())
    *_, rollout = jax.jit(lambda state, key: ppo.rollout(state, key, alone()))(
        state, jax.random.key(1)
    )
    scaling = variants.axis("reward_scaling")
    expected, reward = scaling.apply(
        "running_return_std",
        scaling.init(num_envs=8),
        rewards=rollout.outcome.reward,
        termination=rollout.outcome.termination,
        truncation=rollout.outcome.truncation,
        discount=0.9,
        reward_scale=2.0,
        reward_clip=1.0,
    )
    assert float(jnp.max(jnp.abs(reward))) == 2.0
    from ablations.trainers.control.rollouts import scaled_rewards

    sets = {"discount": 0.9, "reward_scale": 2.0, "reward_clip": 1.0}
    got, scaled = scaled_rewards(
        state.reward_scaling, rollout.outcome, variant(reward_scaling="running_return_std", **sets)
    )
    np.testing.assert_allclose(scaled, reward, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, expected)
    experience, _ = ppo.prepare(state, rollout, scaled, state.normalizer, alone())
    np.testing.assert_array_equal(experience.reward, scaled)
    raw, unscaled = (
        train(variant(reward_scaling=choice), **LOOP)[1]
        for choice in ("constant", "running_return_std")
    )
    assert raw["training/reward_per_step"] == unscaled["training/reward_per_step"]
    assert raw["loss/value"] != unscaled["loss/value"]


def test_every_place_is_in_one_minibatch() -> None:
    ppo = program()
    T, N = ppo.settings.unroll_length, ppo.environments.num_envs
    for unit in ("segments", "transitions"):
        got, again, other = (
            np.asarray(ppo.draws(jax.random.key(seed), alone(minibatch_unit=unit)).order[0])
            for seed in (0, 0, 1)
        )
        assert got.shape == (ppo.settings.num_minibatches, T, N // ppo.settings.num_minibatches)
        np.testing.assert_array_equal(np.sort(got, axis=None), np.arange(T * N))
        np.testing.assert_array_equal(got, again)
        assert (got != other).any()
        whole = np.all(got % N == got[:, :1] % N) and np.all(got // N == np.arange(T)[:, None])
        assert whole == (unit == "segments")


def test_units_agree_when_there_is_one_minibatch() -> None:
    """The same samples in another order."""
    segments, transitions = (
        train(variant(minibatch_unit=unit), **ONE_MINIBATCH)[0].parameters
        for unit in ("segments", "transitions")
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), segments, transitions
    )
    assert not same_bits(segments, transitions)

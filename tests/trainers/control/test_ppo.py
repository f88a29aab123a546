"""The loop around the loss: timings, seeds, choices as data, the value coefficient, and that it
learns.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composed import alone, compiled, only, program, same_bits, train, variant
from loss_checks import KEY, SETS, brax_loss, rolled_out

from ablations.trainers.control.ppo import SPEC

LOOP = only(
    "advantage", "advantage_scope", "advantage_timing", "observation_normalization", "value_clip"
)
SWITCHED = {
    "fixed": only(
        "advantage",
        "advantage_scope",
        "advantage_statistics",
        "advantage_timing",
        "gradient_clip",
        "observation_normalization",
        "value_clip",
    )
}
ONE_STEP = {"num_minibatches": 1, "epochs": 1, "fixed": LOOP}
TWO_MINIBATCHES = ONE_STEP | {"num_minibatches": 2}
TWO_EPOCHS = ONE_STEP | {"epochs": 2}
COUPLED = {"updates": 3, "fixed": only("gradient_clip")}


def close(one: Any, other: Any, tolerance: float = 1e-6) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in leaves)


# Timings


@pytest.mark.parametrize(
    ("steps", "advantage", "alike"),
    [
        (ONE_STEP, "standard", (True, True)),
        (ONE_STEP, "brax", (True, True)),
        (TWO_MINIBATCHES, "standard", (True, False)),
        (TWO_EPOCHS, "standard", (False, True)),
    ],
    ids=["one step", "one step of brax", "two minibatches", "two epochs"],
)
def test_which_timings_agree(
    steps: dict[str, Any], advantage: str, alike: tuple[bool, bool]
) -> None:
    """Iteration and epoch; epoch and minibatch."""
    iteration, epoch, minibatch = (
        train(variant(advantage_timing=timing, advantage=advantage), **steps)[0].parameters
        for timing in ("iteration", "epoch", "minibatch")
    )
    assert (close(iteration, epoch), close(epoch, minibatch)) == alike


def test_values_and_densities_are_those_of_the_rollout() -> None:
    """On the first step nothing has moved; with a second epoch it has, or a clip would do
    nothing.
    """
    sets = {"value_clip": "pessimistic", "value_clip_range": 1e-4, "learning_rate": 1e-2}
    _, first = train(variant(**sets), **ONE_STEP)
    _, both = train(variant(**sets), **TWO_EPOCHS)
    assert first["value/clip_fraction"] == 0.0
    assert first["policy/approximate_kl"] == pytest.approx(0.0, abs=1e-6)
    assert both["value/clip_fraction"] > 0.4
    assert both["policy/approximate_kl"] > 1e-5


def test_statistics_updated_before_the_gradient_steps_part_the_first_ratio_from_one() -> None:
    kl = {
        choice: train(variant(observation_normalization=choice), **ONE_STEP)
        for choice in ("none", "before", "after")
    }
    assert kl["after"][1]["policy/approximate_kl"] == pytest.approx(0.0, abs=1e-6)
    assert kl["before"][1]["policy/approximate_kl"] > 1e-4
    assert int(kl["none"][0].normalizer.batches) == 0
    assert same_bits(kl["before"][0].normalizer, kl["after"][0].normalizer)
    assert int(kl["after"][0].normalizer.batches) == 1


def test_scopes_agree_when_there_is_one_minibatch() -> None:
    minibatch, batch = (
        train(variant(advantage_scope=scope), **ONE_STEP)[0].parameters
        for scope in ("minibatch", "batch")
    )
    assert close(minibatch, batch)
    parted = [
        train(variant(advantage_scope=scope), **TWO_MINIBATCHES)[0].parameters
        for scope in ("minibatch", "batch")
    ]
    assert not close(*parted)


def test_one_gradient_step_is_adam_on_the_gradient_of_brax() -> None:
    ppo, learner, _, experience, batch = rolled_out()
    one = alone(**SETS, learning_rate=1e-2, adam_epsilon=1e-5)

    @jax.jit
    def step(learner: Any, batch: Any, experience: Any) -> Any:
        critic = ppo.critic(None)
        return ppo.gradient_step(
            learner, lambda: experience, batch, KEY, jnp.float32(0.5), critic, one
        )[0]

    after = step(learner, batch, experience)
    adam = optax.adam(1e-2, eps=1e-5)
    updates, _ = jax.jit(adam.update)(brax_loss(None)[2], adam.init(learner.parameters))
    assert close(after.parameters, optax.apply_updates(learner.parameters, updates), 1e-5)


# What is random comes from the seed


def test_variants_of_a_seed_start_alike_and_see_the_same_first_rollout() -> None:
    variants_of_a_seed = (
        variant(),
        variant(advantage="brax", advantage_timing="minibatch", value_coefficient=4.0),
        variant(advantage_statistics="per_group", gradient_clip="global_norm", learning_rate=0.1),
    )
    init, _ = compiled(**SWITCHED)
    starts = [init(jax.random.key(3), one) for one in variants_of_a_seed]
    trained = [train(one, seed=3, **SWITCHED) for one in variants_of_a_seed]
    for start, (state, metrics) in zip(starts[1:], trained[1:], strict=True):
        # The schedule starts from the variant's own learning rate.
        learners = [one.learner._replace(schedule=None) for one in (start, starts[0])]
        assert same_bits(*learners)
        assert same_bits(start._replace(learner=None), starts[0]._replace(learner=None))
        assert same_bits(state.episodes, trained[0][0].episodes)
        assert same_bits(state.normalizer, trained[0][0].normalizer)
        assert metrics["training/reward_per_step"] == trained[0][1]["training/reward_per_step"]
        assert not same_bits(state.parameters, trained[0][0].parameters)
    assert not same_bits(init(jax.random.key(4), variant()).episodes, starts[0].episodes)


def test_a_shared_torso_sees_the_same_resets() -> None:
    separate, shared = (
        compiled(torso=torso, **COUPLED)[0](jax.random.key(3), variant())
        for torso in ("separate", "shared")
    )
    assert same_bits(separate.episodes, shared.episodes)


def test_evaluation_is_of_whole_episodes_and_repeats_itself() -> None:
    ppo = program(**SWITCHED)
    state, _ = train(variant(), **SWITCHED)
    evaluate = jax.jit(ppo.evaluate)
    one, again, other = (evaluate(state, variant(), jax.random.key(k)) for k in (0, 0, 1))
    assert same_bits(one, again)
    assert one["evaluation/return"] != other["evaluation/return"]
    assert 1 <= one["evaluation/length"] <= 12
    # The policy's mode, played by hand in one environment after the other
    env = ppo.environments.env
    begin = ppo.evaluation_environments.reset(jax.random.key(0))
    returns = []
    for i in range(3):
        now, total = jax.tree.map(lambda x, i=i: x[i], begin.state), 0.0
        for _ in range(12):
            seen = ppo.normalized(state.normalizer, now.observation, {})
            raw = ppo.networks.policy(state.parameters, seen)
            now, given = env.step(now, jnp.tanh(raw[:1]))
            total += float(given.reward)
            if given.termination:
                break
        returns.append(total)
    assert float(one["evaluation/return"]) == pytest.approx(np.mean(returns), rel=1e-4)
    assert float(one["evaluation/return_std"]) == pytest.approx(np.std(returns), rel=1e-2, abs=1e-3)


def test_no_finished_episode_is_nan_not_zero() -> None:
    """In a rollout of 8 steps of episodes of 12 that begin."""
    init, chunk = compiled(**SWITCHED)
    state = init(jax.random.key(0), variant())
    state = state._replace(episodes=state.episodes._replace(elapsed=jnp.zeros(8, jnp.int32)))
    _, metrics = chunk(state, variant())
    assert metrics["training/episodes"] == 0
    assert np.isnan(metrics["training/return"])
    assert np.isnan(metrics["training/length"])


# Choices as data


@pytest.mark.parametrize(
    "choices",
    [
        {
            "advantage": "brax",
            "advantage_timing": "minibatch",
            "observation_normalization": "before",
        },
        {
            "advantage": "done_cut",
            "value_clip": "pessimistic",
            "advantage_statistics": "per_group",
            "advantage_scope": "batch",
            "gradient_clip": "global_norm",
        },
    ],
    ids=lambda choices: choices["advantage"],
)
def test_switched_and_specialised_programs_give_the_same_bits(choices: dict[str, str]) -> None:
    one = variant(**choices)
    switched, seen = train(one, chunks=2, **SWITCHED)
    defaults = variant().choices
    assert one.choices != defaults
    names = tuple(sorted({**SPEC.axes, **choices}.items()))
    # The fixed choices win over those of the data, which say something else here.
    specialised, seen_too = train(variant(), chunks=2, fixed=names)
    assert same_bits(switched, specialised)
    np.testing.assert_equal(seen, seen_too)  # NaN to NaN


# The value coefficient: a scale of the critic's loss, which Adam does not see


def test_value_coefficient_is_nothing_to_adam_without_epsilon() -> None:
    states = [
        train(variant(value_coefficient=c, adam_epsilon=0.0), chunks=2, **COUPLED)[0]
        for c in (0.25, 0.5, 4.0)
    ]
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(states[0].parameters))
    assert same_bits(states[0].parameters, states[1].parameters)
    assert same_bits(states[0].parameters, states[2].parameters)


@pytest.mark.parametrize(
    ("sets", "structure"),
    [({}, {"torso": "shared"}), ({"gradient_clip": "global_norm", "max_gradient_norm": 0.01}, {})],
    ids=["shared torso", "global-norm clip"],
)
def test_value_coefficient_matters_where_policy_and_critic_are_coupled(
    sets: dict[str, Any], structure: dict[str, Any]
) -> None:
    small, large = (
        train(variant(value_coefficient=c, adam_epsilon=1e-5, **sets), **COUPLED, **structure)[0]
        for c in (0.25, 4.0)
    )
    assert not close(small.parameters["policy"], large.parameters["policy"], 1e-4)


def test_learns() -> None:
    """Every seed ends near the best possible return of 50, far above a random policy's 18."""
    size = {"num_envs": 32, "unroll_length": 16, "num_minibatches": 4, "epochs": 4}
    first, last = [], []
    for seed in (0, 1, 2):
        for chunks, returns in ((1, first), (8, last)):
            state, metrics = train(
                variant(learning_rate=1e-3),
                seed,
                chunks,
                updates=8,
                episode_length=50,
                fixed=only(),
                **size,
            )
            returns.append(metrics["training/return"])
        assert int(state.iteration) == 64
    assert np.mean(first) < 30
    assert min(last) > 42

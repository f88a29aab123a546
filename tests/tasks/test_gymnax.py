"""Environments of Gymnax as tasks: against plain loops over its own functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.environments import Box, Discrete, Environment, adapted
from ablations.errors import UserError
from ablations.tasks import task
from ablations.trainers.control.environment import Environments, Episodes, Outcome
from ablations.trainers.untrained import make

CLASSIC = {"cartpole": (4, 2), "acrobot": (6, 3), "mountain_car": (2, 3)}
IMAGES = {
    "breakout": ((10, 10, 4), 3),
    "asterix": ((10, 10, 4), 5),
    "freeway": ((10, 10, 7), 3),
    "space_invaders": ((10, 10, 6), 4),
}
N, LENGTH, STEPS = 4, 12, 40


def environment(name: str) -> Environment:
    return adapted(task(name).make(task(name).settings), task(name))


@pytest.mark.parametrize("name", [*CLASSIC, *IMAGES])
def test_a_task_has_the_form_of_its_environment(name: str) -> None:
    env = environment(name)
    shape, choices = CLASSIC.get(name) or IMAGES[name]
    assert env.actions == Discrete(choices)
    assert env.observations.size == np.prod(shape)
    assert env.observations.image == (shape if name in IMAGES else None)
    environments = Environments(env, N, LENGTH)
    episodes = jax.eval_shape(environments.reset, jax.random.key(0))
    after, outcome = jax.eval_shape(
        environments.step, episodes, jax.ShapeDtypeStruct((N,), jnp.int32)
    )
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, episodes)
    assert outcome.next_observation.shape == (N, np.prod(shape))
    assert (outcome.reward.dtype, outcome.termination.dtype) == (jnp.float32, jnp.bool_)


def play(name: str, actions: Any) -> tuple[Episodes, Any, Outcome]:
    """(episodes at the start, observations that the policy sees, outcomes), of actions [T, N]."""
    environments = Environments(environment(name), N, LENGTH)
    begin = jax.jit(environments.reset)(jax.random.key(3))

    def step(episodes: Episodes, action: Any) -> Any:
        seen = episodes.observation
        episodes, outcome = environments.step(episodes, action)
        return episodes, (seen, outcome)

    _, (seen, outcome) = jax.jit(lambda e, a: jax.lax.scan(step, e, a))(begin, actions)
    return begin, np.asarray(seen), jax.tree.map(np.asarray, outcome)


@pytest.mark.parametrize("name", ["cartpole", "asterix"])
def test_episodes_are_a_plain_loop_over_gymnax_s_own_functions(name: str) -> None:
    """Every episode starts from a reset of its own; the last observation is the true one; the clock
    truncates; steps are random by keys of their own, which resets do not touch."""
    env, params = gymnax.make({"cartpole": "CartPole-v1", "asterix": "Asterix-MinAtar"}[name])
    reset, step = jax.jit(env.reset_env), jax.jit(env.step_env)
    rng = np.random.default_rng(0)
    choices = environment(name).actions.choices
    # Half of the carts are pushed one way and fall, the others are pushed at random.
    actions = rng.integers(0, choices, (STEPS, N)).astype(np.int32)
    actions[:, ::2] = 1
    _, seen, outcome = play(name, actions)
    ends = {"termination": 0, "truncation": 0}
    for n, key in enumerate(jax.random.split(jax.random.split(jax.random.key(3))[0], N)):
        of_resets, of_steps = jax.random.split(key)
        observation, state = reset(of_resets, params)
        elapsed, total, episode = 0, 0.0, 0
        starts = [np.ravel(observation)]
        for t in range(STEPS):
            np.testing.assert_allclose(seen[t, n], np.ravel(observation), rtol=1e-5, atol=1e-6)
            observation, state, reward, terminated, _ = step(
                jax.random.fold_in(of_steps, t), state, actions[t, n], params
            )
            elapsed, total = elapsed + 1, total + float(reward)
            truncated = elapsed == LENGTH and not terminated
            np.testing.assert_allclose(
                outcome.next_observation[t, n], np.ravel(observation), rtol=1e-5, atol=1e-6
            )
            assert outcome.reward[t, n] == reward
            assert outcome.termination[t, n] == bool(terminated)
            assert outcome.truncation[t, n] == truncated
            assert (outcome.length[t, n], outcome.reward_sum[t, n]) == (elapsed, total)
            if terminated or truncated:
                ends["termination" if terminated else "truncation"] += 1
                elapsed, total, episode = 0, 0.0, episode + 1
                fresh = jax.random.split(jax.random.fold_in(key, episode))[0]
                observation, state = reset(fresh, params)
                starts.append(np.ravel(observation))
        assert len(starts) > 2
        if name == "cartpole":  # whose resets are numbers
            assert len(np.unique(np.stack(starts), axis=0)) == len(starts)
    assert ends["truncation"] > 0
    assert ends["termination"] > 0 or name == "asterix"


def test_a_seed_gives_every_policy_the_same_episodes() -> None:
    """Resets are by the number of the episode, and what is random in a step by that of the step."""
    left, right = (np.full((STEPS, N), action, np.int32) for action in (0, 1))
    starts = []
    for actions in (left, right):
        begin, seen, outcome = play("cartpole", actions)
        done = outcome.termination | outcome.truncation
        first = np.concatenate([np.ones((1, N), bool), done[:-1]])
        starts.append([seen[first[:, n], n] for n in range(N)])
    assert not np.array_equal(begin.observation[0], begin.observation[1])
    for ours, others in zip(*starts, strict=True):
        shared = min(len(ours), len(others))
        assert shared >= 3
        np.testing.assert_array_equal(ours[:shared], others[:shared])


def test_the_limit_of_time_is_the_task_s() -> None:
    env = environment("cartpole")
    state = env.reset(jax.random.key(0))
    late = state._replace(physics=state.physics.replace(time=jnp.int32(10_000)))
    _, given = env.step(late, jnp.int32(0))
    assert not given.termination


def test_actions_in_bounds_are_stretched_to_the_environment_s() -> None:
    env, params = gymnax.make("Pendulum-v1")  # torques of -2 to 2
    ours = adapted(env)
    assert ours.actions == Box(1)
    state = ours.reset(jax.random.key(0))
    for action, torque in ((1.0, 2.0), (-0.5, -1.0)):
        after, _ = ours.step(state, jnp.array([action]))
        theirs, *_ = env.step_env(jax.random.key(1), state.physics, jnp.array([torque]), params)
        np.testing.assert_allclose(after.observation, theirs, rtol=1e-6)


@pytest.mark.parametrize(("name", "says"), [("discrete", True), ("image", False), ("fresh", True)])
def test_a_task_that_says_what_its_environment_is_not_is_refused(name: str, says: bool) -> None:
    env = task("cartpole").make({})
    wrong = replace(task("cartpole"), **{name: not says})
    line = f"{name}={not says}, but its environment has {name}={says}"
    with pytest.raises(UserError, match=line):
        adapted(env, wrong)


def test_policies_that_learn_nothing_act_by_whole_numbers() -> None:
    """Always 0 is what a plain loop makes of it; uniform draws every action alike."""
    one = task("cartpole")

    def composed(policy: str, count: int) -> Any:
        return make(
            task=one,
            settings=one.settings,
            structure={"policy": policy},
            updates_per_chunk=1,
            evaluation_envs=count,
            choices={},
        )

    zero, uniform = composed("zero", 3), composed("uniform", 500)
    env, params = gymnax.make("CartPole-v1")
    step, lengths = jax.jit(env.step_env), []
    for key in jax.random.split(jax.random.split(jax.random.key(7))[0], 3):
        _, state = env.reset_env(jax.random.split(key)[0], params)
        length, ended = 0, False
        while not ended:
            _, state, _, ended, _ = step(key, state, 0, params)
            length += 1
        lengths.append(length)
    found = jax.jit(zero.evaluate)(jnp.float32(0), None, jax.random.key(7))
    assert float(found["evaluation/return"]) == pytest.approx(np.mean(lengths))
    observation = jnp.zeros((10_000, 4))
    drawn = uniform.act({"scale": jnp.float32(1)}, observation, jax.random.key(0))
    assert set(np.unique(drawn)) == {0, 1}
    assert abs(int(drawn.sum()) - 5_000) < 5 * 50
    found = jax.jit(uniform.evaluate)(jnp.float32(1), None, jax.random.key(7))
    # Gymnasium's CartPole under random pushes: 22 steps on average, std 12 of an episode
    assert 20 < float(found["evaluation/return"]) < 25

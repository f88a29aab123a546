"""What must hold of `ablations.trainers.environment`, as functions of the module, for its
mutants too.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from ablations.environments import adapted
from ablations.tasks import task

NUM_ENVS, STEPS, EPISODE_LENGTH = 6, 60, 12


def check_against_a_loop(module: Any, pool: int = 1) -> None:
    """Every outcome equals that of a plain loop over environments that are stepped one by one."""
    env = adapted(task("fast").make(task("fast").settings))
    environments = module.Environments(
        env, NUM_ENVS, EPISODE_LENGTH, random_elapsed_steps=True, reset_pool=pool
    )
    # Half of the environments are pushed hard enough to leave the track, the others keep still.
    push = np.where(np.arange(NUM_ENVS) % 2, 0.1, 1.0)[None, :, None]
    noise = np.random.default_rng(0).uniform(-0.2, 1.0, (STEPS, NUM_ENVS, 1))
    actions = jnp.asarray(push * noise, jnp.float32)

    begin = jax.jit(environments.reset)(jax.random.key(3))

    @jax.jit
    def play(episodes: Any) -> Any:
        def step(episodes: Any, action: Any) -> Any:
            seen = episodes.observation
            episodes, outcome = environments.step(episodes, action)
            return episodes, (seen, outcome)

        return jax.lax.scan(step, episodes, actions)

    end, (seen, outcome) = jax.tree.map(np.asarray, play(begin))
    one_step = jax.jit(env.step)
    terminations = truncations = partial = 0
    for i in range(NUM_ENVS):
        first = state = jax.tree.map(lambda x, i=i: x[i], begin.state)
        resets = [
            first._replace(physics=at, observation=obs) for at, obs in _resets(begin, i, pool)
        ]
        np.testing.assert_array_equal(resets[0].observation, first.observation)
        elapsed, length, total, episode = int(begin.elapsed[i]), 0, 0.0, 0
        whole = elapsed == 0
        for t in range(STEPS):
            np.testing.assert_allclose(seen[t, i], state.observation, rtol=1e-5, atol=1e-6)
            state, given = one_step(state, actions[t, i])
            elapsed, length, total = elapsed + 1, length + 1, total + float(given.reward)
            terminated = bool(given.termination)
            truncated = elapsed >= EPISODE_LENGTH and not terminated
            ended = terminated or truncated
            np.testing.assert_allclose(
                outcome.next_observation[t, i], state.observation, rtol=1e-5, atol=1e-6
            )
            np.testing.assert_allclose(outcome.reward[t, i], given.reward, rtol=1e-5)
            np.testing.assert_allclose(outcome.reward_sum[t, i], total, rtol=1e-4, atol=1e-5)
            assert outcome.length[t, i] == length
            assert outcome.termination[t, i] == terminated
            assert outcome.truncation[t, i] == truncated
            assert outcome.finished[t, i] == (ended and whole)
            terminations += terminated
            truncations += truncated
            partial += ended and not whole
            if ended:
                episode += 1
                state, elapsed, length, total, whole = resets[episode % pool], 0, 0, 0.0, True
        assert end.elapsed[i] == elapsed
    assert terminations > 5
    assert truncations > 5
    assert partial > 2


def _resets(begin: Any, i: int, pool: int) -> list[Any]:
    """Physics and observation of each of an environment's resets."""
    if pool == 1:
        return [jax.tree.map(lambda x: x[i], begin.first)]
    return [jax.tree.map(lambda x, k=k: x[i, k], begin.first) for k in range(pool)]


def check_a_pool_against_a_loop(module: Any) -> None:
    check_against_a_loop(module, pool=3)


def check_a_pool_of_resets(module: Any) -> None:
    """Groups share a pool, every reset of which is another; a smaller pool is the beginning of a
    larger one, and leaves the rest of the start alone."""
    env = adapted(task("fast").make(task("fast").settings))
    one, three, five = (
        module.Environments(env, 6, 12, 3, True, pool).reset(jax.random.key(0))
        for pool in (1, 3, 5)
    )
    for ours, other in zip(jax.tree.leaves(one.first), jax.tree.leaves(three.first), strict=True):
        assert np.array_equal(ours, other[:, 0])
    for ours, other in zip(jax.tree.leaves(three.first), jax.tree.leaves(five.first), strict=True):
        assert np.array_equal(ours, other[:, :3])
    assert jax.tree.all(jax.tree.map(np.array_equal, one.state, five.state))
    assert np.array_equal(one.elapsed, five.elapsed)
    observations = np.asarray(five.first[1])
    assert (observations[:3] == observations[0]).all()
    assert len(np.unique(observations[..., 0])) == 2 * 5
    assert one.place is None
    # What is observed is the physics beside it.
    physics, _ = five.first
    assert np.array_equal(physics["position"], observations[..., 0])


@struct.dataclass
class _State:
    data: Any
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any


class _Clock:
    """An environment in Playground's manner (`data`) that ends itself at its third step."""

    observation_size = 1
    action_size = 1

    def reset(self, key: Any) -> _State:
        zero = jnp.zeros(())
        return _State(zero, zero[None], zero, zero, {}, {})

    def step(self, state: _State, action: Any) -> _State:
        count = state.data + 1.0
        done = (count >= 3.0).astype(jnp.float32)
        return state.replace(data=count, obs=count[None], done=done)  # type: ignore[attr-defined]


def check_termination_wins(module: Any) -> None:
    """An episode that ends in itself when its clock runs out is terminated, not truncated."""
    environments = module.Environments(adapted(_Clock()), 2, 3)
    episodes = environments.reset(jax.random.key(0))
    for count in (1, 2, 3, 1):
        episodes, outcome = environments.step(episodes, jnp.zeros((2, 1)))
        assert outcome.next_observation[0, 0] == count
        assert bool(outcome.termination.all()) == (count == 3)
        assert not bool(outcome.truncation.any())
        assert episodes.observation[0, 0] == count % 3
        assert episodes.elapsed[0] == count % 3


def check_groups_share_a_reset(module: Any) -> None:
    """Neighbours in a group start alike, and no two groups do."""
    env = adapted(task("fast").make(task("fast").settings))
    environments = module.Environments(env, 6, 12, reset_group_size=3)
    first = np.asarray(environments.reset(jax.random.key(0)).observation)
    assert np.array_equal(np.asarray(environments.groups), [0, 0, 0, 1, 1, 1])
    assert (first[:3] == first[0]).all()
    assert (first[3:] == first[3]).all()
    assert (first[0] != first[3]).any()


def check_clocks(module: Any) -> None:
    """Random clocks cover [0, episode_length) and leave the resets alone; others start at 0."""
    env = adapted(task("fast").make(task("fast").settings))
    resets = {
        random: module.Environments(env, 300, 12, random_elapsed_steps=random).reset(
            jax.random.key(5)
        )
        for random in (True, False)
    }
    assert set(np.asarray(resets[True].elapsed).tolist()) == set(range(12))
    assert not np.asarray(resets[False].elapsed).any()
    assert np.array_equal(resets[True].observation, resets[False].observation)
    assert np.array_equal(resets[True].whole, np.asarray(resets[True].elapsed) == 0)


# The quick ones first: a mutant is done for at the first that fails.
CHECKS = (
    check_termination_wins,
    check_groups_share_a_reset,
    check_clocks,
    check_against_a_loop,
    check_a_pool_against_a_loop,
    check_a_pool_of_resets,
)

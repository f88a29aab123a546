"""MuJoCo Playground's tasks, and environments in its manner: named parts, physics that breaks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from ablations.environments import Observations, adapted
from ablations.episode import page
from ablations.episode.rollout import episodes
from ablations.episode.scene import mujoco_model, scene
from ablations.errors import UserError
from ablations.tasks import Task, task
from ablations.trainers.control.ppo import SPEC, compose

GO1 = "go1_joystick_flat_terrain"


@struct.dataclass
class State:
    data: Any
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any


@struct.dataclass
class Data:
    x: Any
    v: Any
    xpos: Any
    xquat: Any


class Kite:
    """A point in wind, which only its critic sees. Its physics breaks beyond 1, where it is NaN."""

    action_size = 1

    def _data(self, x: Any, v: Any) -> Data:
        place, unturned = jnp.zeros((2, 3)).at[1, 0].set(x), jnp.zeros((2, 4)).at[:, 0].set(1.0)
        return Data(x, v, place, unturned)

    def _observed(self, data: Data, info: Any) -> Any:
        state = jnp.stack([data.x, data.v])
        return {"privileged_state": jnp.append(state, info["wind"]), "state": state}

    def reset(self, key: jax.Array) -> State:
        key, key_wind = jax.random.split(key)
        info = {"key": key, "wind": jax.random.normal(key_wind), "steps": 0}
        zero = jnp.zeros(())
        data = self._data(zero, zero)
        return State(data, self._observed(data, info), zero, zero, {"speed": zero}, info)

    def step(self, state: State, action: jax.Array) -> State:
        state.info["key"], key = jax.random.split(state.info["key"])
        v = state.data.v + 0.5 * (action[0] + state.info["wind"])
        x = state.data.x + 0.1 * v
        broken = jnp.where(jnp.abs(x) > 1.0, jnp.nan, 0.0)
        data = self._data(x + broken, v)
        # As the environments of Playground do, it writes into the dicts of the state
        state.info["wind"] += 0.1 * jax.random.normal(key) + broken
        state.info["steps"] += 1
        state.metrics["speed"] = jnp.abs(v) + broken
        obs = self._observed(data, state.info)
        return state.replace(data=data, obs=obs, reward=1.0 - data.x**2, done=jnp.zeros(()))


KITE = Task("kite", "a point in wind", lambda settings: Kite(), {"episode_length": 40})
STATE, PRIVILEGED = slice(0, 2), slice(2, 5)


@cache
def trained() -> Any:
    """PPO with statistics that take final observations in, and those of value targets; the state
    after some iterations, and the metrics of the last."""
    statistics = {
        "observation_statistics": "per_step_forgetting",
        "observation_scaling": "floored_std_clipped",
        "value_normalization": "running",
    }
    structure = {name: option.default for name, option in SPEC.structure.items()}
    small = {"num_envs": 16, "policy_layers": [8], "value_layers": [8], "num_minibatches": 2}
    ppo = compose(
        task=KITE,
        settings={"episode_length": 40, "random_elapsed_steps": False},
        structure=structure | small,
        updates_per_chunk=4,
        choices=SPEC.axes | statistics,
    )
    variant = SPEC.data(SPEC.resolve(task("fast"), {}))
    state, metrics = jax.jit(lambda key: ppo.chunk(ppo.init(key, variant), variant))(
        jax.random.key(0)
    )
    return ppo, state, metrics


def test_a_step_whose_physics_breaks_ends_the_episode_and_pays_nothing() -> None:
    env = adapted(Kite(), KITE)
    assert env.observations == Observations(5, policy=(0, 2), value=(2, 5))
    state, step = env.reset(jax.random.key(0)), jax.jit(env.step)
    given = step(state, jnp.ones(1))[1]
    assert not given.termination
    for _ in range(40):
        before = state
        state, given = step(before, jnp.ones(1))
        if given.termination:
            break
    assert bool(given.termination)
    assert float(given.reward) == 0.0
    assert not np.isfinite(state.observation).all(), "the true one"
    assert float(state.carried.info["wind"]) == float(before.carried.info["wind"])
    assert int(state.carried.info["steps"]) == int(before.carried.info["steps"]) + 1
    assert all(np.isfinite(x) for x in jax.tree.leaves(state.carried.metrics))


def test_nan_terminal_steps_leave_parameters_finite() -> None:
    _, state, metrics = trained()
    assert metrics["training/episodes"] > 0, "the clock has not run out yet for most"
    assert 0 < metrics["training/length"] < 40
    kept = (state.learner, state.normalizer, state.own.value_targets, state.episodes.reward_sum)
    leaves = jax.tree.leaves((kept, state.episodes.state.carried.info["wind"]))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in leaves)
    assert {n for n, x in metrics.items() if not np.isfinite(x)} == {"value/clip_fraction"}


def test_the_critic_sees_more_than_the_policy() -> None:
    ppo, state, _ = trained()
    networks, parameters = ppo.networks, state.parameters
    x = jax.random.normal(jax.random.key(1), (7, 5))
    other = x.at[:, PRIVILEGED].add(1.0)

    def log_probs(parameters: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(networks.policy(parameters, x) ** 2)

    np.testing.assert_array_equal(
        networks.policy(parameters, x), networks.policy(parameters, other)
    )
    one, two = (jax.grad(log_probs)(parameters, seen)["policy"] for seen in (x, other))
    jax.tree.map(np.testing.assert_array_equal, one, two)
    slopes = jax.grad(lambda x: jnp.sum(networks.value(parameters, x)))(x)
    assert (slopes[:, STATE] == 0).all()
    assert (slopes[:, PRIVILEGED] != 0).all()


def test_statistics_cover_both_parts() -> None:
    _, state, _ = trained()
    mean, std = np.asarray(state.normalizer.mean), np.sqrt(state.normalizer.spread)
    np.testing.assert_allclose(mean[:2], mean[2:4], rtol=1e-5)
    np.testing.assert_allclose(std[:2], std[2:4], rtol=1e-5)
    assert 0.3 < std[4] < 3.0, "of the wind, which is drawn from a standard normal"


def test_one_observation_for_both_is_refused_where_they_differ() -> None:
    structure = {n: option.default for n, option in SPEC.structure.items()} | {"torso": "shared"}
    with pytest.raises(UserError, match="use torso=separate"):
        compose(task=KITE, settings=KITE.settings, structure=structure, updates_per_chunk=1)


def test_an_episode_of_parts_can_be_watched() -> None:
    """The policy is given what it was trained on, one vector."""
    seen = []

    def policy(observation: jax.Array, key: Any = None) -> jax.Array:
        seen.append(observation.shape)
        return jnp.zeros(1)

    (episode,) = episodes(Kite(), [policy], seed=0, length=3)
    assert len(episode.rewards) == 3
    assert set(seen) == {(5,)}


@pytest.mark.inputs("ablations/episode", "ablations/environments", "ablations/tasks")
def test_cartpole_balance_can_be_watched(tmp_path: Path) -> None:
    """Its bodies are where MuJoCo puts them, from the reset to the end, on a page."""
    import mujoco

    one = task("cartpole_balance")
    env = one.make(one.settings)
    (episode,) = episodes(env, [lambda observation, key=None: jnp.ones(1)], seed=0, length=5)
    assert (episode.end, len(episode.rewards)) == ("length", 5)
    model = mujoco_model(env)
    data = mujoco.MjData(model)
    data.qpos[:] = jax.jit(env.reset)(jax.random.key(0)).data.qpos
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(episode.positions[0], data.xpos[1:], atol=1e-5)
    np.testing.assert_allclose(episode.rotations[0], data.xquat[1:], atol=1e-5)
    about = {"variant": "one", "snapshot": "best", "step": 5, "scene": scene(env, one.name)}
    run = page.Run(**vars(episode), **about)
    page.write(tmp_path / "episode.html", "study", one.name, 0, [run])
    assert "cartpole_balance" in (tmp_path / "episode.html").read_text()


def test_models_that_are_not_there_are_named_and_not_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from mujoco_playground._src import mjx_env

    def clone(*_: Any) -> None:
        raise AssertionError("a download that nobody asked for")

    monkeypatch.setattr(mjx_env, "_clone_with_progress", clone)
    monkeypatch.setattr(mjx_env, "MENAGERIE_PATH", tmp_path / "none")
    with pytest.raises(UserError, match="needs a clone of https") as refused:
        task(GO1).made(task(GO1).settings)
    assert "\n" not in str(refused.value)
    assert str(tmp_path / "none") in str(refused.value)
    assert not (tmp_path / "none").exists()

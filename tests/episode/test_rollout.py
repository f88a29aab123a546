"""Episodes of a policy, and where they put the bodies, against MuJoCo's own kinematics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.episode.rollout import episodes
from ablations.episode.scene import mujoco_model, poses, scene
from ablations.errors import UserError
from ablations.tasks import task


class Pose(NamedTuple):
    pos: jax.Array
    rot: jax.Array


class State(NamedTuple):
    pipeline_state: Any
    obs: jax.Array
    reward: jax.Array
    done: jax.Array


class Counter:
    """One body that goes as far along x as the actions say; ends beyond 5."""

    traced = 0

    def _state(self, x: jax.Array, reward: jax.Array) -> State:
        pose = Pose(jnp.array([[1.0, 0.0, 0.0]]) * x, jnp.array([[1.0, 0.0, 0.0, 0.0]]))
        return State(Physics(pose), x[None], reward, (x > 5).astype(jnp.float32))

    def reset(self, key: jax.Array) -> State:
        return self._state(jax.random.uniform(key), jnp.zeros(()))

    def step(self, state: State, action: jax.Array) -> State:
        Counter.traced += 1
        return self._state(state.obs[0] + action[0], action[0])


class Physics(NamedTuple):
    x: Pose


def by(amount: float) -> Any:
    return lambda observation, key=None: jnp.full(1, amount)


def test_an_episode_is_what_the_environment_gives() -> None:
    one, two, short = episodes(Counter(), [by(1.0), by(0.25), by(1.0)], seed=3, length=12)
    start = float(jax.random.uniform(jax.random.key(3)))
    np.testing.assert_allclose(one.positions[:, 0, 0], start + np.arange(len(one.rewards) + 1))
    assert one.end == "terminated"
    assert one.positions[-1, 0, 0] > 5 >= one.positions[-2, 0, 0]
    assert (two.end, len(two.rewards)) == ("length", 12)
    assert two.positions[0] == pytest.approx(one.positions[0]), "the same reset"
    assert one.rotations.shape == (len(one.rewards) + 1, 1, 4)
    np.testing.assert_array_equal(one.positions, short.positions)


def test_the_environment_is_compiled_once_for_all_policies() -> None:
    Counter.traced = 0
    list(episodes(Counter(), [by(0.1), by(0.2), by(0.3)], seed=0, length=3))
    assert Counter.traced == 1


def test_broken_physics_end_an_episode_and_are_not_drawn() -> None:
    def breaks(observation: jax.Array, key: Any = None) -> jax.Array:
        return jnp.where(observation > 2, jnp.nan, 1.0)

    (one,) = episodes(Counter(), [breaks], seed=0, length=12)
    assert one.end == "not finite"
    assert np.isfinite(one.positions).all()
    with pytest.raises(UserError, match="first step"):
        list(episodes(Counter(), [by(float("nan"))], seed=0, length=12))


@pytest.mark.parametrize("name", ["hopper", "reacher"])
def test_bodies_are_where_mujoco_says(name: str) -> None:
    import mujoco

    one = task(name)
    env = one.make({**one.settings, "backend": "generalized"})
    seen = scene(env, name)
    state = jax.jit(env.reset)(jax.random.key(0))
    model = mujoco_model(env)
    data = mujoco.MjData(model)
    data.qpos[:] = state.pipeline_state.q
    mujoco.mj_kinematics(model, data)
    positions, rotations = poses(state)
    assert len(seen.geoms) == model.ngeom
    for index, geom in enumerate(seen.geoms):
        if geom.body < 0:
            place, rotation = np.array(geom.position), np.array(geom.rotation)
        else:
            body = np.asarray(rotations[geom.body], np.float64)
            turned, rotation = np.zeros(3), np.zeros(4)
            mujoco.mju_rotVecQuat(turned, np.array(geom.position), body)
            mujoco.mju_mulQuat(rotation, body, np.array(geom.rotation))
            place = turned + np.asarray(positions[geom.body])
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, rotation)
        np.testing.assert_allclose(place, data.geom_xpos[index], atol=1e-4)
        np.testing.assert_allclose(matrix, data.geom_xmat[index], atol=1e-3)


def test_what_a_model_says_of_its_shapes() -> None:
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        """<mujoco><asset><material name="red" rgba="1 0 0 1"/>
        <mesh name="tent" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody>
        <geom type="plane" size="1 1 1"/>
        <body name="one"><freejoint/><geom size=".2" material="red"/>
          <geom type="mesh" mesh="tent" rgba="0 1 0 .5"/><geom size="9" group="3"/>
          <body><joint/><geom type="capsule" size=".1 .3"/></body></body>
        <body name="two"><freejoint/><geom size=".3" rgba="0 0 0 0"/>
          <geom type="box" size=".1 .2 .3"/></body>
        </worldbody></mujoco>"""
    )
    seen = scene(SimpleNamespace(mj_model=model, dt=0.02), "toy")
    assert seen.trees == (0, 0, 1)
    assert [geom.kind for geom in seen.geoms] == ["plane", "sphere", "mesh", "capsule", "box"]
    assert [geom.body for geom in seen.geoms] == [-1, 0, 0, 1, 2]
    colors = [geom.color for geom in seen.geoms]
    assert colors == [None, (1, 0, 0, 1), (0, 1, 0, 0.5), None, None]
    tent = seen.geoms[2]
    assert tent.vertices is not None
    assert tent.faces is not None
    assert tent.vertices.shape == (4, 3)
    assert tent.faces.shape == (4, 3)

"""Episodes of Gymnax's environments, and their pictures, against Gymnax's own steps."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.environments import adapted
from ablations.environments.gymnax import GymnaxEnvironment
from ablations.episode.gymnax import pictures, timestep
from ablations.episode.render import SIZE, Stage, _stage
from ablations.episode.rollout import Episode, episodes
from ablations.errors import UserError
from ablations.tasks import task


def played(name: str, length: int, action: int = 1) -> tuple[GymnaxEnvironment, Episode]:
    """An episode of one action again and again, from the reset of seed 3."""
    env = adapted(task(name).made(task(name).settings))
    assert isinstance(env, GymnaxEnvironment)
    (episode,) = episodes(env, [lambda seen, key=None: jnp.int32(action)], seed=3, length=length)
    return env, episode


def test_an_episode_is_gymnax_s_own() -> None:
    env, episode = played("cartpole", 50)
    assert episode.end == "terminated", "pushed to one side the pole falls"
    key_reset, key_steps = jax.random.split(jax.random.key(3))
    _, state = env.env.reset_env(key_reset, env.params)
    angles = [float(state.theta)]
    for k in range(len(episode.rewards)):
        key = jax.random.fold_in(key_steps, jnp.uint32(k))
        _, state, _, ended, _ = env.env.step_env(key, state, 1, env.params)
        angles.append(float(state.theta))
        assert bool(ended) == (k + 1 == len(episode.rewards))
    np.testing.assert_allclose(episode.frames.theta, angles, rtol=1e-4, atol=1e-6)
    assert (episode.rewards == 1).all()


@pytest.mark.parametrize("name", ["cartpole", "breakout"])
def test_pictures_show_what_changes(name: str) -> None:
    env, episode = played(name, 6)
    same, last, again = pictures(env, episode.frames, [0, 6, 0], (400, 300))
    assert same.shape == (300, 400, 3)
    assert same.dtype == np.uint8
    np.testing.assert_array_equal(same, again)
    assert (same != last).any()
    assert timestep(env) > 0


def test_a_game_on_a_grid_has_a_square_for_each_cell() -> None:
    env, episode = played("breakout", 1)
    (picture,) = pictures(env, episode.frames, [0], (300, 300))
    observed = np.asarray(env.reset(jax.random.key(3)).observation).reshape(10, 10, -1)
    filled = observed.any(axis=-1)
    drawn = picture.reshape(10, 30, 10, 30, 3)
    assert (drawn == drawn[:, :1, :, :1]).all(), "one colour a cell"
    np.testing.assert_array_equal(drawn[:, 0, :, 0].any(axis=-1), filled)


def test_what_gymnax_does_not_draw_is_refused() -> None:
    env, episode = played("cartpole", 1)
    other = replace(env, env=SimpleNamespace(name="Mine-v0"))
    with pytest.raises(UserError, match="draws classic control and MinAtar, but not 'Mine-v0'"):
        list(pictures(other, episode.frames, [0], SIZE))
    made = task("cartpole").made(task("cartpole").settings)
    with pytest.raises(UserError, match="'cartpole' has none: try --format gif"):
        _stage(made, "cartpole", bodies=True)
    assert isinstance(_stage(made, "cartpole", bodies=False), Stage)

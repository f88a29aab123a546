"""Every task has the interface that trainers rest on, and refuses what it cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations import cli
from ablations.environments import Box, Observations, adapted
from ablations.errors import UserError
from ablations.tasks import Task, task, tasks
from ablations.tasks.control import BACKENDS
from ablations.trainers import trainer
from ablations.trainers.control.environment import Environments
from ablations.trainers.control.ppo import SPEC, compose
from ablations.trainers.control.rollouts import whole_episodes

PLAYGROUND = (
    "cartpole_balance",
    "cartpole_swingup",
    "cheetah_run",
    "hopper_hop",
    "reacher_easy",
    "walker_walk",
)
NAMES = (
    *PLAYGROUND,
    "ant",
    "fast",
    "halfcheetah",
    "hopper",
    "humanoid",
    "inverted_double_pendulum",
    "inverted_pendulum",
    "pusher",
    "reacher",
    "swimmer",
    "walker2d",
)


@pytest.mark.inputs(
    *("ablations/environments", "ablations/tasks", "ablations/trainers/control/batching.py"),
    "ablations/trainers/control/environment.py",
)
@pytest.mark.parametrize(
    "name",
    [
        # Tracing MuJoCo's physics takes half a minute: one task is enough of the inner loop.
        pytest.param(name, marks=pytest.mark.long) if name in PLAYGROUND[1:] else name
        for name in NAMES
    ],
)
def test_a_step_keeps_shapes_and_gives_what_a_trainer_reads(name: str) -> None:
    one = task(name)
    env = adapted(one.make(one.settings), one)
    environments = Environments(env, 4, one.settings["episode_length"], 2, True)
    episodes = jax.eval_shape(environments.reset, jax.random.key(0))
    action = jax.ShapeDtypeStruct((4, env.actions.size), jnp.float32)
    after, outcome = jax.eval_shape(environments.step, episodes, action)
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, episodes)
    assert outcome.next_observation.shape == episodes.observation.shape
    assert (outcome.reward.dtype, outcome.termination.dtype) == (jnp.float32, jnp.bool_)


@pytest.mark.parametrize("name", [name for name, one in tasks().items() if one.hyperparameters])
def test_defaults_are_read_by_the_trainers_that_are_told_them(name: str) -> None:
    one = task(name)
    assert one.check(one.settings) == []
    for of, sets in one.hyperparameters.items():
        spec = trainer(of)
        config = spec.completed(spec.resolve(one, sets))
        structure, numbers = config["structure"], config["numbers"]
        assert sets.keys() <= config["choices"].keys() | numbers.keys() | structure.keys()
        known = spec.known_numbers()
        assert all(known[n].low <= number <= known[n].high for n, number in numbers.items())
        assert spec.check(structure=structure, settings=one.settings) == []


def test_settings_that_make_no_sense_are_named() -> None:
    hopper = task("hopper")
    assert hopper.check({**hopper.settings, "backend": "sprng"}) == [
        f"backend=sprng is not one of {', '.join(BACKENDS)}"
    ]
    for name in ("hopper", "fast"):
        wrong = {**task(name).settings, "episode_length": 0, "reset_group_size": -1}
        assert task(name).check(wrong) == [
            "episode_length=0 is too small: at least 1",
            "reset_group_size=-1 is too small: at least 1",
        ]


@pytest.mark.parametrize(
    ("name", "usual"), [("hopper", 1.0), ("walker2d", 1.0), ("ant", 1.0), ("humanoid", 5.0)]
)
def test_what_being_healthy_pays_joined_later(name: str, usual: float) -> None:
    """At Brax's own value a configuration has no word of it; elsewhere every step pays less."""
    import inspect

    import brax.envs

    one = task(name)
    brax_s = inspect.signature(brax.envs._envs[name].__init__).parameters["healthy_reward"].default
    assert one.settings["healthy_reward"] == brax_s == usual
    at, away = (SPEC.resolve(one, {"healthy_reward": x}) for x in (usual, usual - 1.0))
    assert at == SPEC.resolve(one, {})
    assert "healthy_reward" not in at["task"]["settings"]
    assert SPEC.completed(at)["task"]["settings"] == one.settings
    assert away["task"]["settings"]["healthy_reward"] == usual - 1.0
    assert one.program(away["task"]["settings"]) != one.program(at["task"]["settings"])
    # Without the setting, as records of before have it, the environment is Brax's.
    for settings, paid in ((at, usual), (away, usual - 1.0)):
        env = one.make(settings["task"]["settings"])
        assert env._healthy_reward == paid
        assert one.unpaid(settings["task"]["settings"]) == usual - paid


def test_the_usual_return_stands_beside_the_one_that_is_paid() -> None:
    """Of the same episodes, by an environment that pays it."""

    class Paying:
        def __init__(self, bonus: float) -> None:
            self.cart, self.bonus = task("fast").make({}), bonus
            self.reset, self.action_size = self.cart.reset, self.cart.action_size

        def step(self, state: Any, action: Any) -> Any:
            after = self.cart.step(state, action)
            return after.replace(reward=after.reward + self.bonus)

    def played(bonus: float, unpaid: float) -> dict[str, float]:
        environments = Environments(adapted(Paying(bonus)), 7, 9, unpaid=unpaid)

        def act(observation: jax.Array) -> jax.Array:
            return jnp.sin(9 * observation[:, :1])

        episodes = jax.jit(lambda key: whole_episodes(environments, act, key))
        return {name: float(x) for name, x in episodes(jax.random.key(3)).items()}

    usual, less = played(2.5, 0.0), played(0.0, 2.5)
    assert "evaluation/usual_return" not in usual
    assert less["evaluation/usual_return"] == pytest.approx(usual["evaluation/return"], rel=1e-5)
    assert less["evaluation/return"] < usual["evaluation/return"]


def test_fast_moves_as_it_says() -> None:
    env = task("fast").make(task("fast").settings)
    state = env.reset(jax.random.key(0))
    position, velocity, way = map(float, state.obs)
    for action in (0.5, -3.0, 1.0):
        state = env.step(state, jnp.array([action]))
        velocity += 0.1 * (4.0 * np.clip(action, -1, 1) - 0.5 * velocity)
        way -= 0.1 * velocity
        position += 0.1 * velocity
        np.testing.assert_allclose(state.obs, [position, velocity, way], rtol=1e-5, atol=1e-6)
        assert float(state.reward) == pytest.approx(1 - abs(way), abs=1e-5)
        assert bool(state.done) == (abs(position) > 1)
    for _ in range(20):
        state = env.step(state, jnp.ones(1))
    assert bool(state.done)


def test_observations_of_several_parts_are_refused() -> None:
    observation = {"state": jnp.zeros(3), "pixels": jnp.zeros((8, 8, 3))}
    fields = dict.fromkeys(("reward", "done", "metrics", "info", "data", "replace"))
    state = SimpleNamespace(obs=observation, **fields)
    env = SimpleNamespace(reset=lambda key: state, step=None, action_size=1)
    parts = Task("parts", "two observations", lambda settings: env, {"episode_length": 5})
    structure = {n: option.default for n, option in SPEC.structure.items()}
    with pytest.raises(UserError, match="vectors state and privileged_state"):
        compose(task=parts, settings=parts.settings, structure=structure, updates_per_chunk=1)


def test_an_environment_that_lacks_something_is_named() -> None:
    with pytest.raises(UserError, match="but lacks fresh, trailing, step"):
        adapted(SimpleNamespace(actions=Box(1), observations=Observations(2), reset=None))
    with pytest.raises(UserError, match="SimpleNamespace is not an environment"):
        adapted(SimpleNamespace(reset=None, step=None))


@pytest.mark.parametrize("name", ["halfcheetah", "cheetah_run"])
def test_physics_is_made_in_silence(name: str, tmp_path: Path) -> None:
    """halfcheetah is the one whose model MuJoCo warns of, in the terminal and in a log file."""
    code = f"from ablations.tasks import task; t = task('{name}'); t.make(t.settings)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "extra", "name"),
    [
        ("brax", "train", "hopper"),
        ("gymnax", "gymnax", "breakout"),
        ("mujoco_playground", "playground", "cartpole_balance"),
    ],
)
def test_a_task_whose_library_is_missing_is_refused_before_anything_runs(
    module: str,
    extra: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    selection = ["gae", "--tasks", name, "--profile", "smoke", "--seeds", "1"]
    for cluster in ("local", "debug"):
        assert cli.main(["run", *selection, "--cluster", cluster]) == 2
        line = f"task '{name}' needs {module}: pip install 'rl-ablations[{extra}]'"
        assert line in capsys.readouterr().err
    assert not list(tmp_path.glob("results/cells/*"))
    with pytest.raises(UserError, match="pip install"):
        task(name).made(task(name).settings)

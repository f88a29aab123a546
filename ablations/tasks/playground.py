"""MuJoCo Playground's tasks. Playground is imported when an environment is made."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.errors import lacking
from ablations.tasks.control import quiet
from ablations.tasks.task import Environment, Task, check_episodes, register

if TYPE_CHECKING:
    from ablations.core.plan import Settings

MENAGERIE = "https://github.com/google-deepmind/mujoco_menagerie"


def _lacks(menagerie: str | None) -> str | None:
    """Return what is missing; `menagerie` is the folder of models that an environment needs."""
    if (need := lacking("mujoco_playground")) or menagerie is None:
        return need
    # Playground is imported only for the commit's name, as it would start to clone the models.
    spec = importlib.util.find_spec("mujoco_playground")
    for package in (spec and spec.submodule_search_locations) or ():
        if (Path(package) / "external_deps" / "mujoco_menagerie" / menagerie).is_dir():
            return None
    with quiet():
        from mujoco_playground._src import mjx_env
    commit, models = mjx_env.MENAGERIE_COMMIT_SHA[:12], mjx_env.MENAGERIE_PATH
    return f"a clone of {MENAGERIE}, commit {commit}, as {models}"


def _make(name: str, settings: Settings) -> Environment:
    with quiet():
        from mujoco_playground import registry

        config = registry.get_default_config(name)
        config.impl = "jax"  # their default, Warp, needs an NVIDIA GPU
        return registry.load(name, config=config)


# Their reward_scale of 10 fits a critic of five layers of 256 units; a small critic learns less.
_OWN = "; networks, batches and reward_scale are the trainer's, for short runs on one core"
_SUITE = f"MuJoCo Playground (config/dm_control_suite_params.py, brax_ppo_config){_OWN}"
_LOCOMOTION = f"MuJoCo Playground (config/locomotion_params.py, brax_ppo_config){_OWN}"


def _register(
    theirs: str,
    summary: str,
    speed: float,
    *,
    steps: int = 60_000_000,
    source: str = _SUITE,
    ppo: tuple[float, float, int] = (1e-3, 0.995, 30),
    menagerie: str | None = None,
    most: Callable[..., float | None] = lambda settings: float(settings["episode_length"]),
) -> None:
    """Register a task, by default of the DM Control Suite.

    ppo: the learning rate, the discount and the length of a rollout.
    """
    learning_rate, discount, unroll_length = ppo
    hyperparameters = {
        "learning_rate": learning_rate,
        "discount": discount,
        "entropy_coefficient": 1e-2,
        "unroll_length": unroll_length,
    }
    register(
        Task(
            name=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", theirs).lower(),
            summary=f"MuJoCo Playground's {theirs}: {summary}",
            make=partial(_make, theirs),
            lacks=partial(_lacks, menagerie),
            # All have an action_repeat of 1
            settings={"episode_length": 1000, "reset_group_size": 1, "random_elapsed_steps": True},
            hyperparameters={"ppo": hyperparameters},
            steps=steps,
            source=source,
            check=check_episodes,
            speed=speed,
            most=most,
        )
    )


for _theirs, _summary, _speed in (
    ("CartpoleBalance", "keep a pole upright on a cart in the middle", 90_000),
    ("CartpoleSwingup", "swing a pole up on a cart", 90_000),
    ("CheetahRun", "run forward on two legs, at 10 m/s or more", 15_000),
    ("WalkerWalk", "walk upright on two legs, at 1 m/s or more", 2_000),
    ("HopperHop", "hop forward on one leg, at 2 m/s or more", 2_000),
    ("ReacherEasy", "bring the tip of an arm to a large target", 80_000),
):
    _register(_theirs, f"{_summary}; never terminates", _speed)
_register(
    "Go1JoystickFlatTerrain",
    "a quadruped follows commanded velocities; its critic sees more than its policy",
    300,
    steps=200_000_000,
    source=_LOCOMOTION,
    ppo=(3e-4, 0.97, 20),
    menagerie="unitree_go1",
    most=lambda settings: None,
)

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


def _register(
    theirs: str,
    summary: str,
    *,
    steps: int,
    speed: float,
    source: str,
    hyperparameters: Settings,
    menagerie: str | None = None,
    most: Callable[..., float | None] = lambda settings: None,
) -> None:
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


# Their reward_scale of 10 fits a critic of five layers of 256 units; a small critic learns less.
_OWN = "; networks, batches and reward_scale are the trainer's, for short runs on one core"
_SUITE = f"MuJoCo Playground (config/dm_control_suite_params.py, brax_ppo_config){_OWN}"
_LOCOMOTION = f"MuJoCo Playground (config/locomotion_params.py, brax_ppo_config){_OWN}"


def _register_suite(theirs: str, summary: str, speed: float) -> None:
    _register(
        theirs,
        f"{summary}; never terminates",
        steps=60_000_000,
        speed=speed,
        source=_SUITE,
        hyperparameters={
            "learning_rate": 1e-3,
            "discount": 0.995,
            "entropy_coefficient": 1e-2,
            "unroll_length": 30,
        },
        most=lambda settings: float(settings["episode_length"]),
    )


_register_suite("CartpoleBalance", "keep a pole upright on a cart in the middle", 90_000)
_register_suite("CartpoleSwingup", "swing a pole up on a cart", 90_000)
_register_suite("CheetahRun", "run forward on two legs, at 10 m/s or more", 15_000)
_register_suite("WalkerWalk", "walk upright on two legs, at 1 m/s or more", 2_000)
_register_suite("HopperHop", "hop forward on one leg, at 2 m/s or more", 2_000)
_register_suite("ReacherEasy", "bring the tip of an arm to a large target", 80_000)
_register(
    "Go1JoystickFlatTerrain",
    "a quadruped follows commanded velocities; its critic sees more than its policy",
    steps=200_000_000,
    speed=300,
    source=_LOCOMOTION,
    hyperparameters={
        "learning_rate": 3e-4,
        "discount": 0.97,
        "entropy_coefficient": 1e-2,
        "unroll_length": 20,
    },
    menagerie="unitree_go1",
)

"""Revisions of choices, trainers and tasks, and the composition of a configuration's program.

A revision is raised when the meaning of a choice, a trainer or a task changes. Commands that only
read results do not start JAX: if the registry is not imported, they read `RAISED`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from ablations.core.record import Configuration
from ablations.errors import UserError
from ablations.tasks import task, tasks
from ablations.trainers.spec import choice_named, trainer, trainers
from ablations.trainers.trainer import TracedConfig, Trainer

PARTS: Final = ("trainer", "task")
# The revisions of trainers and choices above 1. A test compares them with the registry.
RAISED = {
    "trainer 'ppo'": 2,
    "trainer 'language'": 3,
    "trainer 'command'": 3,
    "kl_placement=reward_k1": 2,
    "kl_placement=loss_k2": 2,
    "kl_placement=loss_k3": 2,
    "learning_rate_schedule=adaptive_kl": 2,
    "observation_statistics=per_step_forgetting": 2,
}


def stated(config: Configuration) -> dict[str, int]:
    """Return the revisions in a configuration by name; {} for an imported run without revisions."""
    try:
        parts = {f"{part} '{config[part]['name']}'": config[part]["revision"] for part in PARTS}
        choices = config["choices"].items()
        return parts | {f"{axis}={one['name']}": one["revision"] for axis, one in choices}
    except (KeyError, TypeError, AttributeError):
        return {}


def differences(config: Configuration, now: Mapping[str, int]) -> list[str]:
    """Describe the revisions in a configuration that differ from `now`.

    Names missing in `now`, for example of a plugin that is not loaded, are ignored.
    """
    return [
        f"{what} is of revision {then}, now {now[what]}"
        for what, then in stated(config).items()
        if now.get(what, then) != then
    ]


def current() -> dict[str, int]:
    """Return the revisions of this code and of loaded plugins, by name; 1 may be left out."""
    found = {f"task '{name}'": one.revision for name, one in tasks().items()}
    if (registry := sys.modules.get("variants")) is None:
        return {**found, **RAISED}
    found |= {f"trainer '{name}'": one.revision for name, one in trainers().items()}
    return found | {
        f"{axis}={choice.name}": choice.revision
        for axis, of in registry.axes().items()
        for choice in of.values()
    }


def require_current(config: Configuration) -> None:
    """Raise UserError for a configuration of other revisions, which this code cannot run."""
    spec = trainer(config["trainer"]["name"])
    task(config["task"]["name"])
    for axis, one in config["choices"].items():
        choice_named(axis, one["name"])
    found = differences(spec.completed(config), current())
    if found:
        raise UserError(
            f"this is of another version of the code ({'; '.join(found)}): run it again for what "
            f"today's gives"
        )


def compose(
    config: Configuration, fixed: Sequence[str] = ()
) -> tuple[Trainer, Callable[[Configuration], TracedConfig]]:
    """Return the trainer of a configuration, and a function from configurations to their data.

    fixed: axes whose choice is compiled in. Raises UserError for other revisions of the code.
    """
    require_current(config)
    spec = trainer(config["trainer"]["name"])
    config = spec.completed(config)
    composed = spec.make(
        task=task(config["task"]["name"]),
        settings=config["task"]["settings"],
        structure=config["structure"],
        updates_per_chunk=config["run"]["updates_per_chunk"],
        evaluation_envs=config["run"]["evaluation_envs"],
        choices={name: config["choices"][name]["name"] for name in fixed},
    )

    def as_data(config: Configuration) -> TracedConfig:
        run = config["run"]
        iterations = run.get("points", np.inf) * run["updates_per_chunk"]
        return spec.data(config)._replace(iterations=np.float32(iterations))

    return composed, as_data

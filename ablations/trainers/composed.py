"""From a resolved configuration to its composed program and its data. Starts JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ablations.core.record import Configuration
from ablations.errors import UserError
from ablations.tasks import task
from ablations.trainers.revisions import current, differences
from ablations.trainers.spec import choice_named, trainer
from ablations.trainers.trainer import TracedConfig, Trainer


def require_current(config: Configuration) -> None:
    """Raise UserError for a configuration that code of other revisions resolved.

    What it stands for cannot be computed by this code, nor under its name.
    """
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
    """Compose the trainer of a configuration, and the function from such to their data.

    fixed: axes whose choice is compiled in. Raises UserError for one of other revisions.
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

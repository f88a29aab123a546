"""Saved policies in Brax's own checkpoint format, for `brax.training.agents.ppo.checkpoint`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ablations.errors import UserError
from ablations.tasks.control import quiet
from ablations.trainers.control.settings import DEFINITION

EXPRESSED = {
    "action_distribution": "tanh_normal",
    "policy_std": "softplus_head",
    "observation_scaling": "bounded_std",
}


def write(state: Mapping[str, Any], config: Mapping[str, Any], step: int, folder: Path) -> Path:
    """Writes what `PPO.policy` keeps as Brax does; returns the folder that Brax's `load_policy`
    takes, named by the step.

    Brax's networks are two separate perceptrons over normalised observations, and a tanh-normal
    distribution with std = softplus(·) + 0.001: as ours, unless they share a torso. Raises
    UserError for what they cannot express.
    """
    if config["trainer"]["name"] != "ppo":
        raise UserError(
            f"Brax's checkpoints hold PPO's networks: a policy of the trainer "
            f"'{config['trainer']['name']}' has none"
        )
    config = DEFINITION.completed(config)
    structure = config["structure"]
    if structure["torso"] != "separate":
        raise UserError(
            f"Brax's PPO networks cannot express torso={structure['torso']}: only policies with "
            f"torso=separate can be exported"
        )
    for axis, choice in EXPRESSED.items():
        chosen = config["choices"].get(axis, {"name": choice})["name"]
        if chosen != choice:
            raise UserError(
                f"Brax's PPO networks cannot express {axis}={chosen}: only policies with "
                f"{axis}={choice} can be exported"
            )
    with quiet():
        from brax.training.acme import running_statistics
        from brax.training.agents.ppo import checkpoint, networks
    from ablations.trainers.control.networks import ACTIVATIONS

    normalizer, parameters = state["normalizer"], state["parameters"]
    layers = parameters["policy"]["params"]
    last = layers[f"hidden_{len(layers) - 1}"]
    described = checkpoint.network_config(
        observation_size=int(np.shape(normalizer.mean)[-1]),
        action_size=int(np.shape(last["bias"])[0]) // 2,
        normalize_observations=True,  # where nothing was normalised, the statistics are 0 and 1
        network_factory=partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=tuple(structure["policy_layers"]),
            value_hidden_layer_sizes=tuple(structure["value_layers"]),
            activation=ACTIVATIONS[structure["activation"]],
        ),
    )
    # Brax 0.14.2 writes the default of this one, None, and then cannot read it.
    del described.network_factory_kwargs["mean_kernel_init_fn"]
    samples = np.float32(normalizer.batches) * np.float32(config["run"]["iteration_steps"])
    statistics = running_statistics.RunningStatisticsState(
        mean=np.asarray(normalizer.mean),
        std=np.asarray(normalizer.std),
        count=samples,
        summed_variance=np.asarray(normalizer.variance) * samples,
    )
    params = (statistics, parameters["policy"], parameters["value"])
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{step:012d}"
    with tempfile.TemporaryDirectory(prefix=".saving-", dir=folder) as temporary:
        _ask_for_room(Path(temporary), sum(np.asarray(x).nbytes for x in jax.tree.leaves(params)))
        checkpoint.save(Path(temporary).resolve(), step, params, described)
        shutil.rmtree(final, ignore_errors=True)
        os.rename(Path(temporary) / final.name, final)
    return final


def _ask_for_room(folder: Path, size: int) -> None:
    """Raises OSError where `size` bytes cannot be written; orbax would print its threads' errors
    too, whenever they come.
    """
    with tempfile.NamedTemporaryFile(dir=folder) as trial:
        trial.write(bytes(size))
        trial.flush()
        os.fsync(trial.fileno())

"""Policies in Brax's own checkpoint format (`brax.training.agents.ppo.checkpoint`), both ways.

FOLDER/<step>/ppo_network_config.json     and orbax's files beside it
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypedDict

import jax
import numpy as np

from ablations.core.decode import Json, decode
from ablations.core.files import Foreign, read_json
from ablations.core.plan import Settings
from ablations.core.record import Configuration
from ablations.errors import UserError
from ablations.tasks.control import quiet
from ablations.tasks.task import Task
from ablations.trainers.control.brax_checkpoints import DESCRIPTION
from ablations.trainers.control.networks import ACTIVATIONS
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.control.settings import DEFINITION, Structure
from ablations.trainers.control.state import Policy
from ablations.trainers.leaves import to_arrays
from ablations.trainers.values import count

EXPRESSED = {
    "action_distribution": "tanh_normal",
    "policy_std": "softplus_head",
    "observation_scaling": "bounded_std",
    "value_normalization": "none",
    "network_normalization": "none",
    "critic_head": "scalar",
}
# Arguments of Brax's make_ppo_networks, by its defaults, that decide how a policy acts.
NETWORKS = {
    "distribution_type": "tanh_normal",
    "use_distributional_critic": False,
    "mean_clip_scale": None,
    "policy_obs_key": "state",
    "value_obs_key": "state",
}
OTHER_NAMES = {"silu": "swish"}  # two names of one


class Described(TypedDict):
    """Brax's description of a checkpoint."""

    network_factory_kwargs: Mapping[str, Json]
    normalize_observations: bool


def write(state: Policy, config: Configuration, step: int, folder: Path) -> Path:
    """Write what `PPO.policy` keeps as Brax does.

    Returns the folder that Brax's `load_policy` takes, named by the step.

    Brax's networks are two separate perceptrons over normalised observations, and a tanh-normal
    distribution with std = softplus(·) + 0.001: as ours, unless they share a torso. Raises
    UserError for what they cannot express.
    """
    if config["trainer"]["name"] != "ppo":
        raise UserError(
            f"Brax's checkpoints hold PPO's networks: a policy of the trainer "
            f"'{config['trainer']['name']}' has none"
        )
    _require_vectors(DEFINITION.task(config["task"]["name"]))
    config = DEFINITION.completed(config)
    if (torso := config["structure"]["torso"]) != "separate":
        raise UserError(
            f"Brax's PPO networks cannot express torso={torso}: only policies with "
            f"torso=separate can be exported"
        )
    if filters := config["structure"].get("filters", 0):
        raise UserError(
            f"Brax's PPO networks cannot express filters={filters}: only policies with filters=0 "
            f"can be exported"
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
        from brax.training.types import UInt64

    structure = decode(Structure, config["structure"])
    normalizer, parameters = state["normalizer"], state["parameters"]
    layers = parameters["policy"]["params"]
    if np.shape(layers["hidden_0"]["kernel"])[0] != np.shape(normalizer.mean)[-1]:
        raise UserError(
            "a policy that sees less than its critic cannot be exported: checkpoints have one "
            "observation for both"
        )
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
    samples = _samples(normalizer, config)
    statistics = running_statistics.RunningStatisticsState(
        mean=np.asarray(normalizer.mean),
        std=np.asarray(normalizer.std),
        count=UInt64(*(np.uint32(part) for part in divmod(samples, 2**32))),
        summed_variance=np.asarray(normalizer.variance) * np.float32(samples),
    )
    params = (statistics, parameters["policy"], parameters["value"])
    folder = folder.absolute()  # which Brax's loader wants
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{step:012d}"
    with tempfile.TemporaryDirectory(prefix=".saving-", dir=folder) as temporary:
        _ask_for_room(Path(temporary), sum(np.asarray(x).nbytes for x in jax.tree.leaves(params)))
        checkpoint.save(Path(temporary).resolve(), step, params, described)
        shutil.rmtree(final, ignore_errors=True)
        os.rename(Path(temporary) / final.name, final)
    return final


def _require_vectors(task: Task) -> None:
    if task.discrete:
        raise UserError(
            f"policies of Brax's PPO act by vectors of numbers, and actions of '{task.name}' are "
            f"whole numbers"
        )


def _samples(normalizer: Normalizer, config: Configuration) -> int:
    """Return how many observations the statistics hold."""
    kind = config["choices"].get("observation_statistics", {"name": "per_batch"})["name"]
    batch = config["run"]["iteration_steps"] if kind == "per_batch" else 1
    # Pooled statistics of environments of their own count the steps of one.
    if kind not in ("per_batch", "per_step_forgetting"):
        batch = count("num_envs", config["structure"]["num_envs"], 1)
    return round(float(normalizer.batches) * batch)


def read(
    folder: Path, task: Task, settings: Settings
) -> tuple[Configuration, dict[str, np.ndarray]]:
    """Read a checkpoint of Brax's PPO: its configuration, and its arrays as a policy of ours.

    folder: one of `checkpoints`. task: what it was trained on; settings: of the task. Raises
    UserError for what our networks cannot express.
    """
    _require_vectors(task)
    described = _described(folder)
    given = described["network_factory_kwargs"]
    for name, known in NETWORKS.items():
        if given.get(name, known) != known:
            raise UserError(
                f"'{folder}' has {name}={given[name]}: only policies of Brax's PPO with "
                f"{name}={known} can be read"
            )
    activation = str(given.get("activation", "swish"))
    values = {
        **EXPRESSED,
        "torso": "separate",
        "policy_layers": given.get("policy_hidden_layer_sizes", [32] * 4),
        "value_layers": given.get("value_hidden_layer_sizes", [256] * 5),
        "activation": OTHER_NAMES.get(activation, activation),
        "observation_normalization": "before" if described["normalize_observations"] else "none",
    }
    config = DEFINITION.resolve(task, {**values, **settings})
    # A batch of statistics is then one observation, as Brax counts them.
    config["seed"] = 0
    config["run"] = {"updates_per_chunk": 1, "evaluation_envs": 16, "iteration_steps": 1}
    return config, _arrays(folder, described["normalize_observations"])


def _described(folder: Path) -> Described:
    try:
        return read_json(folder / DESCRIPTION, Described)
    except (OSError, Foreign):
        raise UserError(f"'{folder / DESCRIPTION}' is not what Brax's PPO writes") from None


def _arrays(folder: Path, normalized: bool) -> dict[str, np.ndarray]:
    with quiet():
        from brax.training.agents.ppo import checkpoint
    try:
        statistics, policy, value = checkpoint.load(folder.absolute())
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"'{folder}' is not a whole checkpoint of Brax's: {reason}") from None
    mean, std = statistics.mean, statistics.std
    if isinstance(mean, Mapping):
        raise UserError(f"'{folder}' has observations of several parts, not one vector")
    count = statistics.count
    samples = int(count.hi) * 2**32 + int(count.lo) if hasattr(count, "hi") else int(count)
    # Brax counts observations that it does not normalise too.
    seen = {
        "mean": np.asarray(mean, np.float32) * np.float32(normalized),
        "variance": np.square(np.asarray(std, np.float32)) * np.float32(normalized),
        "batches": np.uint32(min(samples, 2**32 - 1) * normalized),
    }
    return to_arrays({"parameters": {"policy": policy, "value": value}, "normalizer": seen})


def _ask_for_room(folder: Path, size: int) -> None:
    """Raise OSError where `size` bytes cannot be written.

    Orbax would print its threads' errors too, whenever they come.
    """
    with tempfile.NamedTemporaryFile(dir=folder) as trial:
        trial.write(bytes(size))
        trial.flush()
        os.fsync(trial.fileno())

"""Helpers for presets: translate a library's arguments, and refuse values without a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ablations.errors import UserError
from ablations.presets.definition import Argument, Arguments, Read

if TYPE_CHECKING:
    from ablations.core.decode import Json

Key = TypeVar("Key")
UNBOUNDED = 1e30  # bound of a clip that a library does not have
# Settings that only policies over vectors have
OF_VECTORS = ("action_distribution", "entropy_estimate", "policy_std", "initial_log_std", "std_low")


def setting(arguments: Arguments, name: str, settings: Mapping[Key, str]) -> str:
    """Return the setting for the value of an argument. Raises UserError if there is none."""
    value = arguments[name]
    if value not in settings:
        raise refused(f"{name}={value}", f"use {', '.join(map(str, settings))}")
    return settings[value]


def steps(total: int, size: int, names: str) -> int:
    """Return the number of gradient steps per batch. Raises UserError unless it is whole."""
    if total % size:
        raise refused(f"a batch of {total} in steps of {size} ({names})", "make it a multiple")
    return total // size


def refused(value: str, advice: str) -> UserError:
    """Return the error for an argument's value that our settings cannot express."""
    return UserError(f"{value} has no setting here: {advice}")


def of_whole_actions(
    read: Mapping[str, Read], files: Mapping[str, str] | None = None
) -> dict[str, Read]:
    """Return settings of PPO for vectors without those that discrete actions do not have.

    `files` maps files to the files of the library's discrete variant with the same values.
    """
    renamed = files or {}
    return {
        name: (value, renamed.get(file, file))
        for name, (value, file) in read.items()
        if name not in OF_VECTORS
    }


def redefined(arguments: Arguments, defaults: Arguments, file: str | None = None) -> dict[str, Any]:
    """Return arguments with some other defaults, those that are settings read in another file."""
    return {
        name: of._replace(default=defaults.get(name, of.default), file=file or of.file)
        if isinstance(of, Argument)
        else defaults.get(name, of)
        for name, of in arguments.items()
    }


def usual_ppo(file: str, networks: str) -> dict[str, Read]:
    """Return settings that most libraries have; networks: the file of the networks."""
    of_update: dict[str, Json] = {
        "minibatch_unit": "transitions",
        "minibatch_order": "redrawn",
        "advantage_timing": "iteration",
        "advantage_scope": "minibatch",
        "policy_loss": "clip",
        "value_error": "squared",
        "kl_stop": "none",
        "value_normalization": "none",
        "advantage_scaling": "none",
    }
    of_networks: dict[str, Json] = {
        "torso": "separate",
        "bias_init": "zeros",
        "value_init_scale": 1.0,
    }
    return {
        **{name: (value, file) for name, value in of_update.items()},
        **{name: (value, networks) for name, value in of_networks.items()},
    }


def unscaled(file: str) -> dict[str, Read]:
    """Return settings for raw observations and rewards, and flattened images."""
    return {
        "observation_normalization": ("none", file),
        "observation_statistics": ("per_batch", file),
        "reward_scaling": ("constant", file),
        "reward_scale": (1.0, file),
        "filters": (0, file),
    }

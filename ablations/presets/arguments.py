"""Helpers for presets: translate a library's arguments, and refuse values without a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ablations.errors import UserError
from ablations.presets.definition import Arguments, Read

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


def unscaled(file: str) -> dict[str, Read]:
    """Return settings for raw observations and rewards, and flattened images."""
    return {
        "observation_normalization": ("none", file),
        "observation_statistics": ("per_batch", file),
        "reward_scaling": ("constant", file),
        "reward_scale": (1.0, file),
        "filters": (0, file),
    }

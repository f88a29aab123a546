"""Arguments of a library that stand for a setting here only at some of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ablations.errors import UserError
from ablations.presets.definition import Arguments, Read

Key = TypeVar("Key")
UNBOUNDED = 1e30  # of a clip that a library does not have
# Settings of a policy over vectors, which one over whole actions has not.
OF_VECTORS = (
    "action_distribution",
    "entropy_estimate",
    "policy_std",
    "initial_log_std",
    "std_low",
)


def setting(arguments: Arguments, name: str, settings: Mapping[Key, str]) -> str:
    """Return the setting that the value of an argument stands for.

    Raises UserError with the values that have one.
    """
    value = arguments[name]
    if value not in settings:
        possible = ", ".join(map(str, settings))
        raise UserError(f"{name}={value} has no setting here: possible are {possible}")
    return settings[value]


def require_defaults(
    arguments: Arguments, defaults: Arguments, meanings: Mapping[str, str]
) -> None:
    """Raise UserError for an argument that no setting expresses, unless it is at its default.

    meanings: such an argument -> what it does, in words.
    """
    for name, meaning in meanings.items():
        if arguments[name] != defaults[name]:
            raise refused(f"{name}={arguments[name]} ({meaning})", f"leave it at {defaults[name]}")


def steps(total: int, size: int, names: str) -> int:
    """Return how many steps of so many completions or prompts a batch is.

    Raises UserError where that is no whole number.
    """
    if total % size:
        raise refused(f"a batch of {total} in steps of {size} ({names})", "make it a multiple")
    return total // size


def refused(what: str, possible: str) -> UserError:
    """Return the error for what no setting expresses, and what would be possible."""
    return UserError(f"{what} has no setting here: {possible}")


def of_whole_actions(
    read: Mapping[str, Read], files: Mapping[str, str] | None = None
) -> dict[str, Read]:
    """Return settings of PPO on vectors as those of its twin on whole actions.

    files: a file in which they were read -> the twin's file that says the same.
    """
    twins = files or {}
    return {
        name: (value, twins.get(file, file))
        for name, (value, file) in read.items()
        if name not in OF_VECTORS
    }


def unscaled(file: str) -> dict[str, Read]:
    """Return settings of observations and rewards that stay as they are, and images flattened."""
    return {
        "observation_normalization": ("none", file),
        "observation_statistics": ("per_batch", file),
        "reward_scaling": ("constant", file),
        "reward_scale": (1.0, file),
        "filters": (0, file),
    }

"""What the config of a planned cell says. Plain data, so that whoever asks starts no JAX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ablations.records import digest


def steps_of(config: Mapping[str, Any]) -> int:
    """Environment steps of a whole run."""
    run = config["run"]
    return run["points"] * run["updates_per_chunk"] * run["iteration_steps"]


def program_of(config: Mapping[str, Any], fixed: Iterable[str] = ()) -> str:
    """The name of the compiled program that a cell runs in: all that is not data.

    fixed: axes whose choice is compiled in (those declared `specialise`, on an accelerator).
    """
    return digest(
        {
            "trainer": config["trainer"],
            "task": config["task"],
            "structure": config["structure"],
            "updates_per_chunk": config["run"]["updates_per_chunk"],
            "evaluation_envs": config["run"]["evaluation_envs"],
            "fixed": {name: config["choices"][name] for name in fixed},
        }
    )

"""Folders in which Brax's PPO keeps its checkpoints. Starts no JAX."""

from __future__ import annotations

from pathlib import Path

DESCRIPTION = "ppo_network_config.json"


def brax_checkpoints(path: str | Path) -> dict[int, Path]:
    """Return step -> folder of a checkpoint that Brax's PPO saved in that folder, or that it is.

    Ascending; {} where there is none.
    """
    folder = Path(path)
    if not folder.is_dir() or folder.parent.name == "cells":
        return {}
    found = [folder] if (folder / DESCRIPTION).exists() else []
    found = found or [path.parent for path in folder.glob(f"*/{DESCRIPTION}")]
    steps = {int(path.name) if path.name.isdecimal() else 0: path for path in found}
    return dict(sorted(steps.items()))

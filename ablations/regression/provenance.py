"""Where a baseline comes from: versions, processor and commit; no host, no path, no time of day."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ablations.git import git

# Of these, what the process has loaded.
LIBRARIES = (
    "brax",
    "gymnasium",
    "jax",
    "numpy",
    "optax",
    "ray",
    "stable_baselines3",
    "tianshou",
    "torch",
    "torchrl",
)


def of_process(root: Path) -> dict[str, Any]:
    """Of this process, whose code is in the checkout at `root`."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        if name in sys.modules:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                continue
    return {"versions": versions, "machine": platform.machine(), **_commit(root)}


def _commit(root: Path) -> dict[str, str]:
    try:
        return {"commit": git(root, "rev-parse", "HEAD").decode().strip()}
    except (OSError, subprocess.SubprocessError):
        return {}

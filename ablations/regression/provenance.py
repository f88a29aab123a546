"""Describe the origin of a baseline: versions, processor, commit; no host, path or time of day."""

from __future__ import annotations

import contextlib
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ablations.git import git
from ablations.regression.baselines import Origin

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


def of_process(root: Path) -> Origin:
    """Return the origin of this process, whose code is in the checkout at `root`."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        if name in sys.modules:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                continue
    origin = Origin(versions=versions, machine=platform.machine())
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        origin["commit"] = git(root, "rev-parse", "HEAD").decode().strip()
    return origin

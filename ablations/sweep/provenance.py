"""Where a record comes from: versions, commit, machine. Kept beside a result, never part of it."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "rl-ablations",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "brax",
    "mujoco",
    "mujoco-mjx",
    "numpy",
)
ENVIRONMENT = ("XLA_FLAGS", "NPROC", "JAX_PLATFORMS", "SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID")


def of_checkout() -> dict[str, Any]:
    """The commit of the code that runs, and whether it was changed since; {} outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = bool(_git(root, "status", "--porcelain", "--", "ablations", "variants"))
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": commit, "changed": changed}


def of_process() -> dict[str, Any]:
    return {
        "versions": versions(),
        "host": socket.gethostname(),
        "processor": _processor(),
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

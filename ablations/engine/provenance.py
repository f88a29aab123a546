"""Describe the origin of records: versions, commit, machine. It is not part of results."""

from __future__ import annotations

import functools
import os
import platform
import socket
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

from ablations import plugins
from ablations.core.record import Checkout, Provenance
from ablations.engine.machine import arithmetic, processor
from ablations.git import PLAIN, git
from ablations.records import digest, write_atomically

PACKAGES = (
    *("rl-ablations", "jax", "jaxlib", "flax", "optax", "brax", "mujoco", "mujoco-mjx", "numpy"),
)
OUR_ROOT = Path(__file__).resolve().parents[2]
OURS = ("ablations", "variants")
ENVIRONMENT = (
    *("XLA_FLAGS", "NPROC", "JAX_PLATFORMS", "SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID"),
    *("SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_PARTITION"),
)


def of_checkout(
    root: Path = OUR_ROOT, paths: Sequence[str] = OURS, results: Path | None = None
) -> Checkout:
    """Return the commit of a repository, and the digest of uncommitted changes in some paths.

    The changes are kept as results/differences/<digest>.patch. Returns {} outside a checkout.
    """
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = bool(_git(root, "status", "--porcelain", "--", *paths))
    except (OSError, subprocess.SubprocessError):
        return {}
    if not changed:
        return {"commit": commit, "changed": False}
    patch = difference(root, paths)
    name = digest(patch)
    if results and not (path := results / "differences" / f"{name}.patch").exists():
        write_atomically(path, patch + "\n")
    return {"commit": commit, "changed": True, "difference": name}


def difference(root: Path = OUR_ROOT, paths: Sequence[str] = OURS) -> str:
    """Return the uncommitted changes of a checkout as a patch with new files, or ""."""
    try:
        text = _git(root, "diff", *PLAIN, "--binary", "HEAD", "--", *paths)
        new = _git(root, "ls-files", "--others", "--exclude-standard", "--", *paths).splitlines()
        # `git diff --no-index` exits with 1 for different files.
        added = [
            _git(root, "diff", *PLAIN, "--binary", "--no-index", "/dev/null", file, code=1)
            for file in new
        ]
    except (OSError, subprocess.SubprocessError):
        return ""
    return "\n".join(filter(None, [text, *added]))


def of_command(repository: Checkout, *, accelerator: bool) -> Provenance:
    """Return the provenance of a command, whose packages are unknown."""
    return {
        **_of_machine(),
        "versions": {name: v for name, v in versions().items() if name == "rl-ablations"},
        "device": "accelerator" if accelerator else "cpu",
        "repository": repository,
    }


def of_process() -> Provenance:
    """Return the provenance of a worker."""
    return {
        **_of_machine(),
        "versions": {**versions(), "arithmetic": arithmetic()},
        "c_library": " ".join(platform.libc_ver()).strip(),
        "plugins": plugins.digests(),
    }


def _of_machine() -> Provenance:
    return {
        "host": socket.gethostname(),
        "processor": processor(),
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
    }


@functools.cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return MappingProxyType(found)


def _git(root: Path, *arguments: str, code: int = 0) -> str:
    if not (root / ".git").exists():
        raise FileNotFoundError(root / ".git")
    return git(root, *arguments, codes=(code,)).decode(errors="replace").strip()

"""This machine: its cores and accelerators, the environment of a worker, the compilation cache.

Importing this starts no JAX.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path


def worker_environment(*, accelerator: bool) -> dict[str, str]:
    """One core and one XLA device per worker: faster over all cells, and a cell's bits then depend
    on neither the cores nor the neighbours. On an accelerator, and for commands, as it is."""
    environment = dict(os.environ)
    if not accelerator:
        environment |= {"NPROC": "1", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    return environment


def cores() -> int:
    """Cores that this process may use: its affinity, cut to the container's quota where there is
    one.
    """
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        available = min(available, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return available


def has_accelerator() -> bool:
    """Whether JAX would find a GPU or TPU. Asks a process of its own, and only if a plugin is
    installed.
    """
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms:
        return platforms.split(",")[0] != "cpu"
    if not (importlib.util.find_spec("jax_plugins") or importlib.util.find_spec("libtpu")):
        return False
    probe = "import jax; print(jax.default_backend())"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )
    return done.returncode == 0 and done.stdout.split()[-1:] not in (["cpu"], [])


def use_cache(folder: str | Path) -> None:
    """Keeps compiled programs there for the other workers and for the next run, or where
    JAX_COMPILATION_CACHE_DIR says.
    """
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", str(Path(folder).resolve()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

"""This machine: its cores and accelerators, the environment of a worker, the compilation cache.

Importing this starts no JAX.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from ablations.errors import UserError


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


def accelerators() -> int:
    """How many GPUs or TPUs JAX finds here; 0: it runs on the CPU. Asks a process of its own, and
    only where there may be one. Raises UserError where JAX_PLATFORMS names what is not there."""
    platforms = list(filter(None, os.environ.get("JAX_PLATFORMS", "").split(",")))
    installed = importlib.util.find_spec("jax_plugins") or importlib.util.find_spec("libtpu")
    if platforms[:1] == ["cpu"] or not (platforms or installed):
        return 0
    probe = "import jax; print(jax.device_count() if jax.default_backend() != 'cpu' else 0)"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )
    found = int(done.stdout.split()[-1]) if done.returncode == 0 else 0
    if platforms and not found and "cpu" not in platforms:
        raise UserError(
            f"JAX_PLATFORMS={','.join(platforms)}, and JAX finds no such device: unset it, or set "
            f"it to cpu"
        )
    return found


def even_lanes(lanes: int, devices: int) -> int:
    """So many lanes, or a few more: a block is dealt evenly to the devices, or not at all."""
    return -(-lanes // max(devices, 1)) * max(devices, 1)


def use_cache(folder: str | Path) -> None:
    """Keeps compiled programs there for the other workers and for the next run, or where
    JAX_COMPILATION_CACHE_DIR says.
    """
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", str(Path(folder).resolve()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

"""Describe this machine: cores, accelerators, the environment of workers, the program cache.

This module does not import JAX.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ablations.errors import UserError
from ablations.private import private_folder

# With these flags, every x86 processor with AVX2 computes the same bits: they fix the instruction
# set, and exclude libraries that choose code by the machine (YNNPACK, oneDNN in Eigen) and
# approximate instructions (inverse square roots). The tiles of a product only change its speed. The
# disabled pass removes barriers (ablations/trainers/products.py). See docs/architecture.md.
PORTABLE_JAXLIB = "0.10."
PORTABLE = " ".join(
    [
        "--xla_cpu_max_isa=AVX2",
        "--xla_cpu_prefer_vector_width=256",
        "--xla_cpu_experimental_ynn_fusion_type=",
        "--xla_cpu_enable_platform_dependent_math=false",
        "--xla_cpu_multi_thread_eigen=false",
        "--xla_backend_extra_options=xla_force_enable_experimental_llvm_ir_gemm,"
        "xla_llvm_ir_gemm_tile_size=6:8:2*vectwidth",
        "--xla_disable_hlo_passes=cse_barrier_expander",
    ]
)
# Variables of JAX and Flax that workers inherit: devices, caches, messages. They change no number,
# except for the last one, which `arithmetic` records.
INHERITED = frozenset(
    {
        *("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_PJRT_CLIENT_CREATE_OPTIONS"),
        *("JAX_CUDA_VISIBLE_DEVICES", "JAX_ROCM_VISIBLE_DEVICES", "JAX_ONEAPI_VISIBLE_DEVICES"),
        *("JAX_ENABLE_COMPILATION_CACHE", "JAX_COMPILATION_CACHE_DIR"),
        *("JAX_COMPILATION_CACHE_MAX_SIZE", "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"),
        *(
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES",
        ),
        *("JAX_DUMP_IR_TO", "JAX_DUMP_IR_MODES", "JAX_DUMP_JAXPR_TO"),
        *("JAX_INCLUDE_DEBUG_INFO_IN_DUMPS", "JAX_TRACEBACK_FILTERING"),
        "JAX_DISABLE_MOST_OPTIMIZATIONS",
    }
)
_OF_LIBRARIES = ("JAX_", "JAX2TF_", "FLAX_", "NNX_")
_OF_JAX_TOO = ("CHECK_VMA", "EAGER_CONSTANT_FOLDING", "MOCK_NUM_GPU_PROCESSES")
ORDER = 4  # raise it if the rounding of all trainers changes (products, flags)


def worker_environment(*, accelerator: bool) -> dict[str, str]:
    """Return the environment of a worker, without variables that would change its numbers.

    On a CPU, a worker has one core and one XLA device: this is faster over all runs, and bits do
    not depend on the number of cores or workers.
    """
    left_out = left_out_of_workers()
    environment = {name: one for name, one in os.environ.items() if name not in left_out}
    if not accelerator:
        environment.pop("JAX_PLATFORM_NAME", None)
        environment |= {"NPROC": "1", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        if _portable():
            # Later flags replace earlier ones, so the user's flags win.
            given = environment.get("XLA_FLAGS", "").removeprefix(PORTABLE).strip()
            environment["XLA_FLAGS"] = f"{PORTABLE} {given}".strip()
    return environment


def share_of_gpus(index: int, workers: int) -> dict[str, str]:
    """Return the variable by which a worker sees its share of the GPUs of this process."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(gpu) for gpu in range(workers)]
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus[index::workers])} if len(gpus) >= workers else {}


def left_out_of_workers() -> tuple[str, ...]:
    """Return the variables of JAX and Flax that workers do not inherit."""
    return tuple(
        name
        for name in sorted(os.environ)
        if name.startswith(_OF_LIBRARIES) or name in _OF_JAX_TOO
        if name not in INHERITED
    )


def _portable() -> bool:
    """Return whether PORTABLE may be set: XLA aborts on unknown flags."""
    try:
        known = version("jaxlib").startswith(PORTABLE_JAXLIB)
    except PackageNotFoundError:
        return False
    return known and {"avx2", "fma"} <= {*_cpuinfo("flags").split()}


def arithmetic() -> str:
    """Name the arithmetic of this process, which decides the last bits of its numbers.

    Workers with the same arithmetic compute the same bits, except with Brax's generalized backend
    and MJX, which also call the C library and LAPACK.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    on_cpu = os.environ.get("JAX_PLATFORMS") == "cpu"
    added = flags.removeprefix(PORTABLE).split()
    given = [flag for flag in added if not flag.startswith("--xla_dump_")]
    names = (*left_out_of_workers(), "JAX_DISABLE_MOST_OPTIMIZATIONS")
    given += [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    if flags == PORTABLE and on_cpu and not given:
        return f"x86-64 with AVX2, no approximations, order {ORDER}"
    device = processor() if on_cpu else _device()
    return ", ".join([device, *([" ".join(given)] if given else []), f"order {ORDER}"])


def _device() -> str:
    """Return the name of the accelerator that JAX uses, or of the processor."""
    import jax

    device = jax.devices()[0]
    return processor() if device.platform == "cpu" else str(device.device_kind)


def processor() -> str:
    """Return the name of the processor."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


@functools.cache
def _cpuinfo(name: str) -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return ""


def cores() -> int:
    """Return the number of cores that this process may use, by affinity and container quota."""
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
    """Return the number of GPUs that JAX finds, in a separate process; 1 for TPUs.

    Raises UserError: JAX_PLATFORMS names missing devices.
    """
    platforms = list(filter(None, os.environ.get("JAX_PLATFORMS", "").split(",")))
    installed = importlib.util.find_spec("jax_plugins") or importlib.util.find_spec("libtpu")
    if platforms[:1] == ["cpu"] or not (platforms or installed):
        return 0
    probe = (
        "import jax; found = jax.default_backend(); "
        "print(jax.device_count() if found == 'gpu' else int(found != 'cpu'))"
    )
    done = subprocess.run(  # -P: nothing from the current folder
        [sys.executable, "-P", "-c", probe], capture_output=True, text=True, check=False
    )
    found = int(done.stdout.split()[-1]) if done.returncode == 0 else 0
    if platforms and not found and "cpu" not in platforms:
        raise UserError(
            f"JAX finds no device for JAX_PLATFORMS={','.join(platforms)}: unset the variable, or "
            f"set it to cpu"
        )
    return found


def slurm_job() -> str | None:
    """Return Slurm's id of the job or array task that this process is in."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return (
        f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ.get("SLURM_JOB_ID")
    )


def notices(*, shell: bool) -> Iterator[str]:
    """Yield lines for the user of workers. shell: also about variables of this process."""
    if shell and (left := left_out_of_workers()):
        yield f"workers ignore these variables of your shell: {', '.join(left)}"
    if programs_folder() is None:
        yield (
            "compiled programs are not cached: ~/.cache/rl-ablations/programs (or the one in "
            "XDG_CACHE_HOME) must belong to you and must not be writable for your group; set "
            "JAX_COMPILATION_CACHE_DIR to use another folder"
        )


def programs_folder() -> Path | None:
    """Return the folder of compiled programs: private, as they are code; None if impossible."""
    asked = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    return Path(asked) if asked else private_folder("programs")


def use_cache() -> None:
    """Turn on JAX's cache of compiled programs."""
    import jax

    folder = programs_folder()
    jax.config.update("jax_compilation_cache_dir", folder and str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

"""Compute runs by JAX programs: one per static settings and task, with parallel runs (vmap).

program.py       a compiled program, and the runs that train in it
executables.py   compiled programs on disk
"""

# ruff: noqa: D102  # `Backend` documents the methods

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from ablations import tasks
from ablations.core.record import Configuration, Provenance
from ablations.engine import machine, provenance
from ablations.engine.backends import Backend, Prepared, Speed
from ablations.engine.job import Cell, JobSpec
from ablations.errors import UserError, lacking
from ablations.records import digest
from ablations.trainers import trainer

# Assumed without records; the rate is an accelerator's, over all parallel runs.
ASSUMED_BLOCK_RATE = 1_000_000.0
ASSUMED_COMPILE_SECONDS = 30.0
ASSUMED_MEGABYTES = 2500
_LAYERS = ("policy_layers", "value_layers")


class CompiledBackend(Backend):
    """JAX programs: one worker per core of a CPU, or per GPU."""

    compiles = True

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> str:
        definition = trainer(config["trainer"]["name"])
        return digest(definition.program(config, varied))

    def environment(self, job: JobSpec, index: int) -> dict[str, str]:
        gpus = machine.share_of_gpus(index, job.workers) if job.accelerator else {}
        return machine.worker_environment(accelerator=job.accelerator) | gpus

    def require_installed(self, cells: Sequence[Cell]) -> None:
        if need := lacking("jax"):
            raise UserError(f"training needs {need}")
        for name in dict.fromkeys(cell.config["task"]["name"] for cell in cells):
            tasks.task(name).require_installed()

    def require_device(self, job: JobSpec) -> None:
        if not job.accelerator:
            return
        import jax

        if jax.default_backend() == "cpu":
            raise UserError(
                f"JAX finds no accelerator on {socket.gethostname()}, and the job needs one: check "
                f"the driver and jax[cuda], or omit gpus"
            )

    def prepare(self, cell: Cell, job: JobSpec, sharing: int) -> Prepared:
        from ablations.engine.backends.compiled.program import Program, Training

        lanes = min(job.lanes, sharing) if job.accelerator else job.lanes
        name = cell.program
        locks = Path(job.results) / "work" / "programs" / f"{name}-{lanes}"
        locks.mkdir(parents=True, exist_ok=True)
        machine.use_cache()
        program = Program(cell, lanes=lanes, accelerator=job.accelerator, locks=locks)
        training = partial(Training, program, checkpoints=job.checkpoints)
        return Prepared(training, program.lanes, program.compile_seconds)

    def provenance(self, cell: Cell, job: JobSpec) -> Provenance:
        import jax

        device = jax.devices()[0]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes; bytes on macOS
        return {
            **provenance.of_process(),
            "device": device.device_kind,
            "devices": len(jax.devices()),
            "peak_megabytes": round(peak / (1024**2 if sys.platform == "darwin" else 1024)),
        }

    def kind(self, config: Configuration) -> tuple[str, ...]:
        layers = (str(config["structure"].get(name, "")) for name in _LAYERS)
        return config["task"]["name"], config["trainer"]["name"], *layers

    def assumed_speed(self, cell: Cell, *, accelerator: bool) -> Speed:
        rate = ASSUMED_BLOCK_RATE if accelerator else tasks.tasks().get(cell.task, tasks.Task).speed
        return Speed(rate, ASSUMED_COMPILE_SECONDS, ASSUMED_MEGABYTES, measured=False)


BACKEND = CompiledBackend()

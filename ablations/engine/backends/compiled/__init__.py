"""Compute runs by programs of JAX: one per structure and task, its runs in parallel lanes.

program.py       a compiled program, and the runs that train in it
executables.py   compiled programs kept on disk
"""

from __future__ import annotations

import operator
import resource
import socket
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from ablations import tasks
from ablations.core.decode import decode
from ablations.core.record import Configuration, Provenance
from ablations.engine import machine, provenance
from ablations.engine.backends import Backend, Prepared, Speed
from ablations.engine.job import Cell, JobSpec
from ablations.engine.machine import even_lanes
from ablations.errors import UserError, count, lacking
from ablations.records import digest
from ablations.trainers import trainer

LANES_PER_DEVICE = 16
# Where nothing was measured yet: an accelerator's block of lanes; a core has its task's speed, with
# networks of [64, 64] and so much more time per step for each weight between larger layers.
SECONDS_PER_WEIGHT = 4e-10
ASSUMED_BLOCK_RATE = 1_000_000.0
ASSUMED_COMPILE_SECONDS = 30.0
ASSUMED_MEGABYTES = 2500
_LAYERS = ("policy_layers", "value_layers")


class CompiledBackend(Backend):
    """See `Backend`."""

    compiles = True
    title = "program {}"

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> str:
        """Return the digest of all of a configuration that is not data."""
        definition = trainer(config["trainer"]["name"])
        return digest(definition.program(config, varied))

    def accelerators(self) -> int:
        """Return the number of accelerators of this machine."""
        return machine.accelerators()

    def shape(self, cells: int, workers: int, devices: int, lanes: int | None) -> tuple[int, int]:
        """Return one worker for all accelerators, with lanes that are dealt evenly to them.

        On a CPU all workers, of one lane if not asked.
        """
        default = min(cells, LANES_PER_DEVICE * devices) if devices else 1
        return 1 if devices else workers, even_lanes(lanes or default, devices)

    def notices(self, *, shell: bool) -> list[str]:
        """Return lines on variables that workers do not inherit, and on a missing cache."""
        lines = []
        if shell and (left := machine.left_out_of_workers()):
            lines.append(f"of this shell's settings workers have no {', '.join(left)}")
        if machine.programs_folder() is None:
            lines.append(machine.NO_PROGRAMS)
        return lines

    def environment(self, job: JobSpec, index: int) -> dict[str, str]:
        """Return an environment under which numbers are the same in every shell."""
        return machine.worker_environment(accelerator=job.accelerator)

    def require_installed(self, cells: Sequence[Cell]) -> None:
        """Refuse a light install, which plans and reads, and tasks whose library is missing."""
        if need := lacking("jax"):
            raise UserError(f"training needs {need}")
        for name in dict.fromkeys(cell.config["task"]["name"] for cell in cells):
            tasks.task(name).require_installed()

    def require_device(self, job: JobSpec) -> None:
        """Raise UserError where JAX fell back to a CPU and the job needs an accelerator."""
        if not job.accelerator:
            return
        import jax

        if jax.default_backend() == "cpu":
            raise UserError(
                f"there is no accelerator for JAX on {socket.gethostname()}, and these runs were "
                f"asked of one: see that its driver and jax[cuda] are there, or leave --gpus out"
            )

    def prepare(self, cell: Cell, job: JobSpec, sharing: int) -> Prepared:
        """Compile the program of a run; workers who need the same one take turns.

        On an accelerator with no more lanes than there are runs of it.
        """
        import jax

        from ablations.engine.backends.compiled.program import Program

        lanes = job.lanes
        if job.accelerator:
            lanes = min(lanes, even_lanes(sharing, len(jax.devices())))
        name = cell.program()
        locks = Path(job.results) / "work" / "programs" / f"{name}-{lanes}"
        locks.mkdir(parents=True, exist_ok=True)
        machine.use_cache()
        return Program(cell, lanes=lanes, accelerator=job.accelerator, locks=locks)

    def provenance(self, cell: Cell, job: JobSpec) -> Provenance:
        """Return the versions, arithmetic and device of this process."""
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
        """Return the task, the trainer and the networks, which decide more than physics does."""
        layers = (str(config["structure"].get(name, "")) for name in _LAYERS)
        return config["task"]["name"], config["trainer"]["name"], *layers

    def speed(self, cell: Cell, made: Sequence[Provenance], *, accelerator: bool) -> Speed:
        """Return the median rate, the largest process and the longest compilation.

        Of the compilations four in five count, as others found their machine at work.
        """
        timed = [provenance for provenance in made if provenance.get("steps_per_second")]
        rates = sorted(filter(None, (provenance.get("steps_per_second") for provenance in timed)))
        compiled = sorted(filter(None, (provenance.get("compile_seconds") for provenance in timed)))
        sizes = filter(None, (provenance.get("peak_megabytes") for provenance in timed))
        at = (4 * len(compiled) - 1) // 5
        return Speed(
            rate=rates[len(rates) // 2] if rates else assumed_rate(cell.config, accelerator),
            compile_seconds=compiled[at] if compiled else ASSUMED_COMPILE_SECONDS,
            megabytes=round(max(sizes, default=ASSUMED_MEGABYTES)),
            measured=bool(rates),
        )

    def unsaved(self, cell: Cell, speed: Speed, lanes: int) -> tuple[float, str]:
        """Return the length of a chunk: a job that never ends one has nothing to save."""
        seconds = cell.steps * lanes / cell.points / speed.rate
        return seconds, (
            f"one chunk of {cell.variant} on {cell.task}, which takes about {seconds / 60:.0f} "
            f"minutes at {speed.rate:,.0f} steps/s ({'measured' if speed.measured else 'assumed'}):"
            f" raise --time, or cut the run in more with --set points=N"
        )

    def crew(self, workers: int, lanes: int) -> str:
        """Return the workers with their lanes."""
        return f"{count(workers, 'worker')} of {count(lanes, 'lane')}"

    def pace(self, cell: Cell, speed: Speed) -> str:
        """Return the steps per second."""
        return f"{speed.rate:,.0f} steps/s per worker"


def assumed_rate(config: Configuration, accelerator: bool) -> float:
    """Return the steps per second of runs that nothing was measured for.

    Those of the task, less what larger networks take.
    """
    if accelerator:
        return ASSUMED_BLOCK_RATE
    known = tasks.tasks().get(config["task"]["name"])
    speed = known.speed if known else tasks.Task.speed
    layers = [decode(list[int], config["structure"].get(name) or []) for name in _LAYERS]
    weights = [sum(map(operator.mul, sizes, sizes[1:])) - 64 * 64 for sizes in layers if sizes]
    return float(1 / (1 / speed + SECONDS_PER_WEIGHT * max(0, sum(weights))))


BACKEND = CompiledBackend()

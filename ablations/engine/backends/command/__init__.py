"""Compute runs by a user's command: one process per run, without a shell.

study_file.py   a study of commands, from TOML or Python
code.py         the files that a command uses: their digest, commit and copies
training.py     a run from its start to its end
process.py      one process, killed with everything that it started
"""

# ruff: noqa: D102  # `Backend` documents the methods

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from ablations.core.record import Configuration, Provenance
from ablations.engine import provenance
from ablations.engine.backends import Backend, Prepared, Speed
from ablations.engine.backends.command.code import noted
from ablations.engine.backends.command.training import Run, find_finished, forget_finished
from ablations.engine.job import Cell, JobSpec
from ablations.records import digest

ASSUMED_SECONDS = 600.0
ASSUMED_MEGABYTES = 2500


class CommandBackend(Backend):
    """Commands: a worker runs one after the other."""

    compiles = False
    advice = (
        "no other run was started. Correct curve, step or metric in the study file: the same "
        "command then reads the output again and does not run the command again"
    )

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> str:
        line = {"trainer": config["trainer"], "task": config["task"]}
        return digest({**line, "command": config["command"]})

    def shape(self, cells: int, workers: int, devices: int, lanes: int | None) -> tuple[int, int]:
        return min(workers, devices) if devices else workers, 1

    def ready(self, cells: Sequence[Cell], results: Path) -> tuple[Cell, ...]:
        return noted(cells, results)

    def has_run(self, cell: Cell, results: Path) -> bool:
        return find_finished(results, cell.config) is not None

    def forget(self, cell: Cell, results: Path) -> None:
        forget_finished(results, cell.config)

    def environment(self, job: JobSpec, index: int) -> dict[str, str]:
        environment = dict(os.environ)
        gpus = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if job.accelerator and len(gpus) >= job.workers:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[index :: job.workers])
        return environment

    def prepare(self, cell: Cell, job: JobSpec, sharing: int) -> Prepared:
        return Prepared(partial(Run, job=job))

    def provenance(self, cell: Cell, job: JobSpec) -> Provenance:
        return provenance.of_command(cell.place, accelerator=job.accelerator)

    def kind(self, config: Configuration) -> tuple[str, ...]:
        return config["task"]["name"], config["trainer"]["name"], *config["command"]["run"]

    def assumed_speed(self, cell: Cell, *, accelerator: bool) -> Speed:
        return Speed((cell.steps or 1) / ASSUMED_SECONDS, 0.0, ASSUMED_MEGABYTES, measured=False)


BACKEND = CommandBackend()

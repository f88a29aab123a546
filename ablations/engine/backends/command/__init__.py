"""Compute runs by a user's command: a process each, without a shell, whose log is read.

study_file.py   a study of commands, from TOML or Python
code.py         the files that a command rests on: their digest, commit and copies
training.py     a run from its start to its end
process.py      one process, ended with all that it has started
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from ablations.core.record import Configuration, Provenance
from ablations.engine import provenance
from ablations.engine.backends import Backend, Prepared, Speed
from ablations.engine.backends.command.code import noted
from ablations.engine.backends.command.training import Commands, find_finished, forget_finished
from ablations.engine.job import Cell, JobSpec
from ablations.errors import count, duration
from ablations.records import digest

ASSUMED_SECONDS = 600.0
ASSUMED_MEGABYTES = 2500


class CommandBackend(Backend):
    """See `Backend`."""

    compiles = False
    title = "commands"  # a digest of a line tells nobody anything
    mending = (
        "no other run was begun. Mend curve, step or metric in the study file: what ran is then "
        "read again, and not run again"
    )

    def program(self, config: Configuration, varied: Collection[str] | None = None) -> str:
        """Return a digest of the line and the task, whose commands take about equally long."""
        line = {"trainer": config["trainer"], "task": config["task"]}
        return digest({**line, "command": config["command"]})

    def shape(self, cells: int, workers: int, devices: int, lanes: int | None) -> tuple[int, int]:
        """Return at most a worker per accelerator; each runs one command at a time."""
        return min(workers, devices) if devices else workers, 1

    def ready(self, cells: Sequence[Cell], results: Path) -> tuple[Cell, ...]:
        """Return the runs with the commit of their repository."""
        return noted(cells, results)

    def has_run(self, cell: Cell, results: Path) -> bool:
        """Return whether its command ended well, for this reading of its curve or another."""
        return find_finished(results, cell.config) is not None

    def forget(self, cell: Cell, results: Path) -> None:
        """Have its command run again."""
        forget_finished(results, cell.config)

    def environment(self, job: JobSpec, index: int) -> dict[str, str]:
        """Return the environment of this process; commands side by side share out the GPUs."""
        environment = dict(os.environ)
        gpus = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if job.accelerator and len(gpus) >= job.workers:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[index :: job.workers])
        return environment

    def prepare(self, cell: Cell, job: JobSpec, sharing: int) -> Prepared:
        """Return a runner of the commands of a line, one after the other."""
        return Commands(job)

    def provenance(self, cell: Cell, job: JobSpec) -> Provenance:
        """Return the machine and the commit; versions of a command are not known here."""
        return provenance.of_command(cell.place, accelerator=job.accelerator)

    def kind(self, config: Configuration) -> tuple[str, ...]:
        """Return the task and the line."""
        return config["task"]["name"], config["trainer"]["name"], *config["command"]["run"]

    def speed(self, cell: Cell, made: Sequence[Provenance], *, accelerator: bool) -> Speed:
        """Return the speed by the median of the seconds."""
        seconds = sorted(filter(None, (provenance.get("seconds") for provenance in made)))
        sizes = filter(None, (provenance.get("peak_megabytes") for provenance in made))
        takes = seconds[len(seconds) // 2] if seconds else ASSUMED_SECONDS
        megabytes = round(max(sizes, default=ASSUMED_MEGABYTES))
        return Speed((cell.steps or 1) / max(takes, 1e-3), 0.0, megabytes, measured=bool(seconds))

    def unsaved(self, cell: Cell, speed: Speed, lanes: int) -> tuple[float, str]:
        """Return the length of a whole command that cannot resume; 0 where it was not measured."""
        resumes = cell.config["command"]["resume"] or not speed.measured
        seconds = 0.0 if resumes else (cell.steps or 1) / speed.rate
        return seconds, (
            f"{cell.variant} on {cell.task}, whose command takes about {seconds / 60:.0f} minutes "
            f"and cannot resume: raise --time, or say how it resumes"
        )

    def crew(self, workers: int, lanes: int) -> str:
        """Return the number of workers."""
        return count(workers, "worker")

    def pace(self, cell: Cell, speed: Speed) -> str:
        """Return how long one takes."""
        return f"{duration((cell.steps or 1) / speed.rate)} for one"


BACKEND = CommandBackend()

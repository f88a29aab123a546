"""Read the settings of Slurm jobs from words such as partition=cpu and from a TOML file.

partition = "cpu"
time = "2:00:00"
cpus = 16
memory = "32G"
setup = ["module load python/3.11"]

[sbatch]                 # any other option of sbatch, by its long name
exclude = "node[7-9]"
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import field
from msgspec.structs import replace

from ablations.core.decode import Count, Json, Matches, Part, Positive, required
from ablations.core.files import read_toml
from ablations.engine.estimate import Resources
from ablations.errors import UserError, unknown

Gpus = Annotated[str, Matches(r"([\w.-]+:)?\d+", "N or TYPE:N, such as a100:2")]
Text = Annotated[str, Matches("[^\n]+", "on one line")]
_MEMORY = {"": 1024, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


class Cluster(Part, frozen=True):
    """The settings of each job.

    time: limit in minutes; None: twice job_minutes, and 15. gpus: their number, or TYPE:N. memory:
    megabytes; None: the measured or assumed need; 0: no request. at_once: jobs of an array that run
    at the same time. job_minutes: how long a job should take. lanes: parallel runs on accelerators.
    threads: threads of each command. setup: shell lines before the job. srun, sbatch: further
    arguments; the value false removes an option of sbatch.
    """

    partition: Text | None = None
    time: int | None = None
    cpus: Positive = 4
    gpus: Count | Gpus = 0
    memory: int | None = None
    account: Text | None = None
    qos: Text | None = None
    constraint: Text | None = None
    at_once: Positive = 256
    job_minutes: Count = 30
    lanes: Positive | None = None
    threads: Positive | None = None
    setup: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()
    sbatch: Mapping[str, Json] = field(default_factory=dict)

    @property
    def time_limit(self) -> int:
        """Return the time limit in minutes."""
        return self.time or 2 * self.job_minutes + 15

    @property
    def signal_seconds(self) -> int:
        """Return how many seconds before the limit Slurm signals the job."""
        return min(300, max(30, 60 * self.time_limit // 10))

    @property
    def devices(self) -> int:
        """Return the number of GPUs."""
        return int(str(self.gpus).rpartition(":")[2])

    @property
    def resources(self) -> Resources:
        """Return the resources of each job."""
        return Resources(
            cores=self.cpus,
            gpus=self.devices,
            lanes=self.lanes if self.devices else None,
            threads=self.threads,
            memory=self.memory,
            minutes=self.job_minutes,
        )


def read_cluster(path: Path | None, more: Mapping[str, Json]) -> Cluster:
    """Return the settings of a file; those in `more` that are not None replace them.

    Raises UserError.
    """
    values = {} if path is None else _tables(path)
    values |= {name: value for name, value in more.items() if value is not None}
    for name in ("partition", "account", "qos", "constraint"):
        if isinstance(values.get(name), int):
            values[name] = str(values[name])
    where = f"setting of the cluster file '{path}'" if path else "cluster setting"
    for name in values:
        if name not in Cluster.__struct_fields__:
            raise unknown(where, name, Cluster.__struct_fields__)
    for name, read in (("time", minutes), ("memory", megabytes)):
        if name in values:
            values[name] = read(values[name])
    for name in ("setup", "srun"):
        if isinstance(line := values.get(name), str):
            values[name] = (line,)
    cluster = required(Cluster, values, f"cluster file '{path}':" if path else "cluster:")
    return replace(
        cluster, sbatch={name.lstrip("-"): value for name, value in cluster.sbatch.items()}
    )


def _tables(path: Path) -> dict[str, Json]:
    try:
        return read_toml(path)
    except FileNotFoundError:
        raise UserError(
            f"--cluster must be local, debug, slurm or a TOML file; '{path}' does not exist"
        ) from None


def minutes(text: Json) -> int:
    """Read a time limit of Slurm in minutes, rounded up: 90, 90:00, 1:30:00, 1-12, 1-12:30:00."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", str(text).strip())
    if not match:
        raise UserError(
            f"a time limit must be minutes, hours:minutes:seconds or days-hours, not '{text}'"
        )
    days, *parts = match.groups()
    numbers = [int(part) for part in parts if part]
    if days is None and len(numbers) < 3:  # minutes[:seconds]
        numbers.insert(0, 0)
    hours, minute, second = [*numbers, 0, 0][:3]
    seconds = ((int(days or 0) * 24 + hours) * 60 + minute) * 60 + second
    if not seconds:
        raise UserError(f"the time limit must be longer than '{text}'")
    return math.ceil(seconds / 60)


def megabytes(text: Json) -> int:
    """Read a size such as 16G, 500M, 1.5T in megabytes; a bare number is in gigabytes; none: 0."""
    if str(text).strip().lower() == "none":
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", str(text).strip(), re.IGNORECASE)
    size = float(match[1]) * _MEMORY[match[2].upper()] if match else 0
    if size < 1:
        raise UserError(f"memory must be a number with M, G or T, such as 16G, not '{text}'")
    return math.ceil(size)

"""Read the settings of a cluster's jobs, from flags or from a small TOML file.

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
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import field
from msgspec.structs import replace

from ablations.core.decode import Count, Json, Matches, Part, Positive, required
from ablations.core.files import read_toml
from ablations.engine.estimate import Resources
from ablations.errors import UserError, unknown

Text = Annotated[str, Matches("[^\n]+", "on one line")]
_MEMORY = {"": 1024, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


class Cluster(Part, frozen=True):
    """The settings of each job.

    time: limit of a job, in minutes; None: what the jobs are packed for, twice over. cpus, gpus:
    of each job, on one node. gpu_type: their name in Slurm, such as a100; None: any. memory: of
    each job, in megabytes; None: what its workers need, as far as that was measured; 0: not asked
    for, where the cluster gives it by other rules. at_once: jobs of an array that run side by
    side. job_minutes: how long a job should take. lanes: parallel runs on the accelerators of
    a job. threads: of each command. setup: lines of shell before the job. srun: further arguments
    of srun, which starts the job's process, such as those of a container. sbatch: further options
    of sbatch; of false, none.
    """

    partition: Text | None = None
    time: int | None = None
    cpus: Positive = 4
    gpus: Count = 0
    gpu_type: Text | None = None
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
        """Return the limit of a job, in minutes."""
        return self.time or 2 * self.job_minutes + 15

    @property
    def signal_seconds(self) -> int:
        """Return how many seconds before its end a job is signalled to save its state."""
        return min(300, max(30, 60 * self.time_limit // 10))

    @property
    def resources(self) -> Resources:
        """Return the resources of each job. Lanes are of accelerators."""
        return Resources(
            cores=self.cpus,
            gpus=self.gpus,
            lanes=self.lanes if self.gpus else None,
            threads=self.threads,
            memory=self.memory,
            minutes=self.job_minutes,
            limit=self.time_limit,
            reserve=self.signal_seconds,
        )


def read_cluster(path: Path | None, flags: Mapping[str, Json]) -> Cluster:
    """Return the settings of a file, under those of the flags that are not None.

    Raises UserError: the file is none, a name is unknown, or a value makes no sense.
    """
    values = {} if path is None else _tables(path)
    values |= {name: value for name, value in flags.items() if value is not None}
    if isinstance(gpus := values.get("gpus"), str):
        values |= _typed(gpus)
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
            f"--cluster is local, debug, slurm or a TOML file; there is no file '{path}'"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the cluster file '{path}': {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"the cluster file '{path}' is not TOML: {error}") from None


def minutes(text: Json) -> int:
    """Read a time limit as Slurm spells it, in minutes, rounded up.

    90, 90:00, 1:30:00, 1-12 or 1-12:30:00. Raises UserError.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", str(text).strip())
    if not match:
        raise UserError(
            f"a time limit is minutes, hours:minutes:seconds or days-hours, not '{text}'"
        )
    days, *rest = match.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is not None:  # days-hours[:minutes[:seconds]]
        hours, minute, second = [*numbers, 0, 0][:3]
        seconds = ((int(days) * 24 + hours) * 60 + minute) * 60 + second
    elif len(numbers) == 3:
        seconds = (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    else:  # minutes[:seconds]
        seconds = numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)
    if not seconds:
        raise UserError(f"a time limit of '{text}' leaves no time")
    return math.ceil(seconds / 60)


def _typed(text: str) -> dict[str, Json]:
    """Read GPUs as Slurm spells them: 2, a100:2."""
    kind, colon, number = text.rpartition(":")
    if not number.isdecimal() or bool(kind) != bool(colon) or not re.fullmatch(r"[\w.-]*", kind):
        raise UserError(f"gpus are a number or type:number, such as a100:2, not '{text}'")
    return {"gpus": int(number), "gpu_type": kind or None}


def megabytes(text: Json) -> int:
    """Read a size such as 16G, 500M, 1.5T; a bare number is in gigabytes; none: 0.

    Raises UserError.
    """
    if str(text).strip().lower() == "none":
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", str(text).strip(), re.IGNORECASE)
    size = float(match[1]) * _MEMORY[match[2].upper()] if match else 0
    if size < 1:
        raise UserError(f"memory is a number with M, G or T, such as 16G, not '{text}'")
    return math.ceil(size)

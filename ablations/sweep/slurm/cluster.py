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
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ablations.core.decode import Json, texts
from ablations.core.files import read_toml
from ablations.errors import UserError, unknown
from ablations.sweep.estimate import Resources

_MEMORY = {"": 1024, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


@dataclass(frozen=True)
class Cluster:
    """The settings of each job.

    time: limit of a job, in minutes; None: what the jobs are packed for, twice over. cpus, gpus:
    of each job, on one node. gpu_type: their name in Slurm, such as a100; None: any. memory: of
    each job, in megabytes; None: what its workers need, as far as that was measured; 0: not asked
    for, where the cluster gives it by other rules. at_once: jobs of an array that run side by
    side. job_minutes: how long a job should take. lanes: cells side by side on the accelerators of
    a job. threads: of each command. setup: lines of shell before the job. srun: further arguments
    of srun, which starts the job's process, such as those of a container. sbatch: further options
    of sbatch; of false, none.
    """

    partition: str | None = None
    time: int | None = None
    cpus: int = 4
    gpus: int = 0
    gpu_type: str | None = None
    memory: int | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    at_once: int = 256
    job_minutes: int = 30
    lanes: int | None = None
    threads: int | None = None
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

    Raises:
        UserError: the file is none, a name is unknown, or a value makes no sense.
    """
    values: dict[str, Json] = {}
    if path is not None:
        try:
            values = read_toml(path)
        except FileNotFoundError:
            raise UserError(
                f"--cluster is local, debug, slurm or a TOML file; there is no file '{path}'"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read the cluster file '{path}': {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"the cluster file '{path}' is not TOML: {error}") from None
    values |= {name: value for name, value in flags.items() if value is not None}
    if isinstance(gpus := values.get("gpus"), str):
        values |= _typed(gpus)
    known = {setting.name for setting in fields(Cluster)}
    where = f"setting of the cluster file '{path}'" if path else "cluster setting"
    for name in values:
        if name not in known:
            raise unknown(where, name, sorted(known))
    return Cluster(**{name: _checked(name, value) for name, value in values.items()})


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


def _checked(name: str, value: Json) -> Any:
    """Return a setting as `Cluster` holds it. Raise UserError for another value."""
    if name in ("time", "memory"):
        return minutes(value) if name == "time" else megabytes(value)
    if name in ("setup", "srun"):
        return _lines(name, value)
    if name == "sbatch":
        if not isinstance(value, Mapping):
            raise UserError(f"[sbatch] is a table of options of sbatch, not {value!r}")
        return {str(option).lstrip("-"): argument for option, argument in value.items()}
    if name in ("cpus", "gpus", "at_once", "job_minutes", "lanes", "threads"):
        low = 0 if name in ("gpus", "job_minutes") else 1
        if type(value) is not int or value < low:
            raise UserError(f"{name} must be a whole number of at least {low}, not {value!r}")
    elif not (isinstance(value, str) and value and "\n" not in value) and not (
        name == "gpu_type" and value is None
    ):
        raise UserError(f"{name} must be a text, not {value!r}")
    return value


def _lines(name: str, value: Json) -> tuple[str, ...]:
    lines = (value,) if isinstance(value, str) else texts(value)
    if lines is None:
        what = "shell lines" if name == "setup" else "arguments"
        raise UserError(f"{name} is a list of {what}, not {value!r}")
    return lines

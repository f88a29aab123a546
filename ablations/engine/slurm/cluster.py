"""Read the settings of Slurm jobs from words such as partition=cpu and from a TOML file.

partition = "cpu"                # any option of sbatch, by its long name
time = "2:00:00"
cpus = 16
memory = "32G"
setup = ["module load python/3.11"]
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import field

from ablations.core.decode import Count, Json, Matches, Part, Positive, required
from ablations.core.files import read_toml
from ablations.engine.backends import Speed
from ablations.engine.estimate import Estimate, sized
from ablations.engine.job import Cell
from ablations.errors import UserError, unknown

Gpus = Annotated[str, Matches(r"([\w.-]+:)?\d+", "N or TYPE:N, such as a100:2")]
Memory = Annotated[str, Matches(r"\d+[KMGT]|none", "a size such as 16G, or none")]
_TYPO = 0.8  # similarity of a misspelt setting; that of the options mem and nodes is less
_DAY = 86_400


class Cluster(Part, frozen=True):
    """The settings of each job.

    gpus: their number, or TYPE:N. memory: None: the measured or assumed need. at_once: jobs of an
    array that run at the same time. job_minutes: how long a job should take. lanes: parallel runs
    on accelerators. threads: threads of each command. setup: shell lines before the job. srun:
    further arguments. sbatch: options, by their long names; the value false removes one.
    """

    cpus: Positive = 4
    gpus: Count | Gpus = 0
    memory: Memory | None = None
    at_once: Positive = 256
    job_minutes: Count = 30
    lanes: Positive | None = None
    threads: Positive | None = None
    setup: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()
    sbatch: Mapping[str, Json] = field(default_factory=dict)

    @property
    def signal_seconds(self) -> int:
        """Return how many seconds before the limit Slurm signals the job."""
        limit = _seconds(self.sbatch.get("time"))
        return min(300, max(30, min(6 * self.job_minutes, limit // 10)))

    @property
    def devices(self) -> int:
        """Return the number of GPUs."""
        return int(str(self.gpus).rpartition(":")[2])

    def sized(self, cells: Sequence[Cell], speeds: Mapping[str, Speed]) -> Estimate:
        """Return the jobs of some runs."""
        return sized(
            cells,
            speeds,
            cores=self.cpus // (self.threads or 1),
            gpus=self.devices,
            lanes=self.lanes if self.devices else None,
            minutes=self.job_minutes,
        )


def read_cluster(path: Path | None, more: Mapping[str, Json]) -> Cluster:
    """Return the settings of a file; those in `more` that are not None replace them.

    Settings that are not fields of `Cluster` are options of sbatch, as are those of the table
    [sbatch]. Raises UserError.
    """
    try:
        values = {} if path is None else dict(read_toml(path))
    except FileNotFoundError:
        raise UserError(
            f"--cluster must be local, debug, slurm or a TOML file; '{path}' does not exist"
        ) from None
    values |= {name: value for name, value in more.items() if value is not None}
    for name in ("setup", "srun"):
        if isinstance(line := values.get(name), str):
            values[name] = (line,)
    if "memory" in values:
        values["memory"] = str(values["memory"])
    options = {n: values.pop(n) for n in [*values] if n not in Cluster.__struct_fields__}
    for name in options:
        if difflib.get_close_matches(name, Cluster.__struct_fields__, cutoff=_TYPO):
            raise unknown("setting of jobs", name, Cluster.__struct_fields__)
    where = f"cluster file '{path}':" if path else "cluster:"
    table = required(dict[str, Json], values.get("sbatch", {}), f"{where} sbatch:")
    options = {name.lstrip("-"): value for name, value in {**table, **options}.items()}
    return required(Cluster, {**values, "sbatch": options}, where)


def _seconds(limit: Json) -> int:
    """Read a limit of sbatch, such as 90, 90:00, 1:30:00, 1-12; a day for none or other words."""
    text = str(limit)
    largest = 0 if "-" in text else 1 if text.count(":") == 2 else 2
    numbers, units = text.replace("-", ":").split(":"), (_DAY, 3600, 60, 1)[largest:]
    try:
        return sum(int(n) * unit for n, unit in zip(numbers, units, strict=False)) or _DAY
    except ValueError:
        return _DAY

"""Read the settings of Slurm jobs from words such as partition=cpu and from a TOML file.

partition = "cpu"                # any option of sbatch, by its long name
time = "2:00:00"
cpus = 16
memory = "32G"
setup = ["module load python/3.11"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import field

from ablations.core.decode import Count, Json, Matches, Part, Positive, required
from ablations.core.files import read_toml
from ablations.engine.backends import Speed
from ablations.engine.estimate import Estimate, sized
from ablations.engine.job import Cell
from ablations.errors import UserError

Gpus = Annotated[str, Matches(r"([\w.-]+:)?\d+", "N or TYPE:N, such as a100:2")]
Memory = Annotated[str, Matches(r"\d+[KMGT]|none", "a size such as 16G, or none")]


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
        return min(300, max(30, 6 * self.job_minutes))

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
    options = {n: values.pop(n) for n in [*values] if n not in Cluster.__struct_fields__}
    where = f"cluster file '{path}':" if path else "cluster:"
    table = required(dict[str, Json], values.get("sbatch", {}), f"{where} sbatch:")
    return required(Cluster, {**values, "sbatch": {**table, **options}}, where)

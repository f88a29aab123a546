"""Define what an executor is: a place where cells are run.

    local.Processes       worker processes of this machine
    local.ThisProcess     this process, for debuggers
    slurm.submit.Slurm    jobs of a cluster

They hand work orders to workers and know no backend; `Backend` says what differs between cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from ablations.records import Plan
from ablations.sweep.cell import Cell
from ablations.sweep.estimate import Estimate

Result = TypeVar("Result", covariant=True)


class Executor(Protocol[Result]):
    """A place where cells are run."""

    def run(self, plans: Sequence[Plan], results: Path, *, fresh: bool = False) -> Result:
        """Run, or submit, the missing cells of plans. Raises UserError.

        fresh: computes everything again; what was there is set aside.
        """

    def estimate(self, cells: Sequence[Cell], results: Path) -> Estimate:
        """Return the jobs in which cells would run, and their duration."""

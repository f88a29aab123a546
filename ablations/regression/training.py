"""Trains what a baseline has again, by today's code, in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations import plugins
from ablations.errors import UserError
from ablations.records import Plan
from ablations.regression import from_records
from ablations.regression.baselines import Baseline, Stored
from ablations.regression.check import Wanted
from ablations.regression.curves import Curves, together
from ablations.regression.from_records import GroupName
from ablations.request import Request
from ablations.sweep import local
from ablations.sweep.command import study_file
from ablations.sweep.plan import plan


@dataclass(frozen=True)
class Training:
    """Trains seeds of a baseline's groups; call it with the seeds that each needs.

    records: the folder, emptied first, as an old record says nothing about this code.
    """

    baseline: Baseline
    records: Path
    workers: int | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        """Prepare the folder. Raises UserError for a baseline that cannot be trained."""
        if any("imported" in stored for stored in self.baseline.requests):
            raise UserError(
                f"others ran what the baseline '{self.baseline.name}' has: import new runs into "
                f"another folder, and name it with --records"
            )
        plugins.load()
        shutil.rmtree(self.records, ignore_errors=True)

    def __call__(self, wanted: Wanted) -> dict[str, Curves]:
        """Return the curves of these seeds, by group."""
        seeds = {GroupName.of(name): list(each) for name, each in wanted.items()}
        plans = [
            self._plan(stored, mine)
            for stored in self.baseline.requests
            if (mine := {g: each for g, each in seeds.items() if g.study == stored["study"]})
        ]
        local.run(plans, self.records, workers=self.workers, quiet=self.quiet)
        return {
            str(group): self._read(made, group, seeds[group])
            for made in plans
            for group in seeds
            if group.study == made.study.name
        }

    def _plan(self, stored: Stored, wanted: Mapping[GroupName, list[int]]) -> Plan:
        flags: dict[str, Any] = {**stored, "until": None, "most_seeds": None}
        flags["seeds"] = sorted({seed for seeds in wanted.values() for seed in seeds})
        study_file.name_of(flags.pop("file", ""))
        made = plan(Request(**flags))
        for group in wanted:
            config = from_records.configuration(made, group.task, group.variant)
            from_records.require_same_settings(self.baseline, group, config)
        return from_records.with_seeds(made, wanted)

    def _read(self, made: Plan, group: GroupName, seeds: list[int]) -> Curves:
        curves = from_records.read(made, self.records, group, seeds)
        if curves.seeds:
            return curves
        # All diverged: no steps of their own.
        grid = self.baseline.groups[str(group)].curves.steps
        return together((), [], curves.failed, [grid])

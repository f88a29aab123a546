"""Trains what a baseline has again, by today's code, in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ablations import plugins
from ablations.errors import UserError
from ablations.records import Plan
from ablations.regression import from_records
from ablations.regression.baselines import Baseline, Stored
from ablations.regression.check import Wanted
from ablations.regression.curves import Curves, together
from ablations.regression.from_records import GroupName


@dataclass(frozen=True)
class Training:
    """Trains seeds of a baseline's groups; call it with the seeds that each needs.

    records: the folder, emptied first, as an old record says nothing about this code. resolve:
    returns the plan of a stored request, on other seeds. run: runs plans in a results folder.
    """

    baseline: Baseline
    records: Path
    resolve: Callable[[Stored, list[int]], Plan]
    run: Callable[[list[Plan], Path], None]

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
            self._plan(stored, of_study)
            for stored in self.baseline.requests
            if (of_study := {g: each for g, each in seeds.items() if g.study == stored["study"]})
        ]
        self.run(plans, self.records)
        return {
            str(group): self._read(plan, group, seeds[group])
            for plan in plans
            for group in seeds
            if group.study == plan.study.name
        }

    def _plan(self, stored: Stored, wanted: Mapping[GroupName, list[int]]) -> Plan:
        plan = self.resolve(stored, sorted({seed for each in wanted.values() for seed in each}))
        for group in wanted:
            config = from_records.configuration(plan, group.task, group.variant)
            from_records.require_same_settings(self.baseline, group, config)
        return from_records.with_seeds(plan, wanted)

    def _read(self, plan: Plan, group: GroupName, seeds: list[int]) -> Curves:
        curves = from_records.read(plan, self.records, group, seeds)
        if curves.seeds:
            return curves
        # All diverged: no steps of their own.
        grid = self.baseline.groups[str(group)].curves.steps
        return together((), [], curves.failed, [grid])

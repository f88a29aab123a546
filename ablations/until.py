"""Adds seeds at planned looks until comparisons are decided: `ablations run --until decided`.

It stands between the engine, which runs cells, and the tables, which say what is open. Where the
looks of a plan are follows from its records alone: a run that was stopped anywhere goes on with the
same looks, here or on a cluster.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations.core.verdict import Verdict
from ablations.errors import count
from ablations.records import DamagedRecord, Plan
from ablations.report.results import Results
from ablations.report.scores import baseline_of
from ablations.report.tables import ALL_TASKS, table
from ablations.report.tables.pairings import levels
from ablations.sweep import local
from ablations.sweep.local import Outcome
from ablations.sweep.plan import with_seeds
from ablations.sweep.prepare import Work, needed, whole_record

_MOST_NAMES = 4

Place = tuple[str, str]  # task, variant


@dataclass(frozen=True)
class Stage:
    """Where the looks of a plan are.

    plan: with the cells of all looks so far. look: the last of them, from 0; ended: whether all of
    its cells have. open: what the last look that has ended leaves undecided; lost: what cannot be
    compared, as runs failed. Both are empty before the first has ended.
    """

    plan: Plan
    look: int
    ended: bool
    open: tuple[Place, ...] = ()
    lost: tuple[Place, ...] = ()

    @property
    def line(self) -> str:
        """For people."""
        seeds = self.plan.looks.seeds
        total = count(self.plan.looks.comparisons, "comparison")
        left = len(self.open) + len(self.lost)
        decided = f"{self.plan.looks.comparisons - left} of {total} decided"
        lost = f"; not to be compared, as runs failed: {_named(self.lost)}" if self.lost else ""
        if not self.ended:
            said = f"look {self.look + 1} of {len(seeds)}, {seeds[self.look]} seeds"
            if self.look:
                said = f"{decided}{lost}; {said} for {_named(self.open)}"
            else:
                said = f"{said} for {total}"
        elif self.open:
            most = f"with {seeds[-1]} seeds, the most: {_named(self.open)}"
            said = f"{decided}{lost}; undecided {most}"
        else:
            said = f"{decided}{lost}, at look {self.look + 1} of {len(seeds)}"
        return f"{self.plan.study.name}: {said}"


def stage(plan: Plan, results: Path) -> Stage:
    """Plays the looks of a plan from the first on, as far as there are records."""
    seeds = plan.looks.seeds
    counts = {(task, name): seeds[0] for task in plan.tasks for name in plan.variants}
    ended: set[str] = set()
    now = Stage(with_seeds(plan, counts), 0, False)
    for look in range(len(seeds)):
        grown = with_seeds(plan, counts)
        cells = {cell.hash for cell in grown.cells} - ended
        if not all(_has_ended(results, cell) for cell in cells):
            return Stage(grown, look, False, now.open, now.lost)
        ended |= cells
        rows = [row for row in table(Results(grown, results)).rows if row.task != ALL_TASKS]
        now = Stage(
            grown,
            look,
            True,
            tuple((row.task, row.variant) for row in rows if row.verdict is Verdict.UNDECIDED),
            tuple((r.task, r.variant) for r in rows if r.verdict and r.verdict.too_few),
        )
        if not now.open:
            break
        if look + 1 < len(seeds):
            _raise(counts, plan, now.open, seeds[look + 1])
    return now


def run(
    plans: Sequence[Plan],
    results: Path,
    *,
    seconds: float | None = None,
    quiet: bool = False,
    **how: Any,
) -> tuple[list[Plan], Outcome]:
    """Runs look after look on this machine until nothing is open, the most seeds are there, or the
    seconds are over; a look that was not finished goes on in the next call.

    quiet, how: as for `sweep.local.run`. Returns the plans as they have become, and what became of
    all of their cells.
    """
    say = (lambda line: None) if quiet else functools.partial(print, flush=True)
    started = time.monotonic()
    deadline = None if seconds is None else started + seconds
    stages = [stage(plan, results) for plan in plans]
    waiting, computed, stopped = [True] * len(stages), 0, False
    while any(waiting) and not stopped:
        for one in itertools.compress(stages, waiting):
            say(one.line)
        asked = [one.plan for one in itertools.compress(stages, waiting)]
        outcome = local.run(asked, results, deadline=deadline, quiet=quiet, **how)
        computed += outcome.computed
        stages = [
            stage(one.plan, results) if waits else one
            for one, waits in zip(stages, waiting, strict=True)
        ]
        for one, waits in zip(stages, waiting, strict=True):
            if waits and one.ended and outcome.computed:
                say(one.line)
        waiting = [not one.ended for one in stages]
        stopped = deadline is not None and time.monotonic() >= deadline
    if any(waiting):
        names = ", ".join(one.plan.study.name for one in itertools.compress(stages, waiting))
        say(f"{names}: the budget is spent; the same command goes on from here")
    grown = [one.plan for one in stages]
    outcome = local.outcome_of(Work(needed(grown), ()), results, stopped=stopped)
    outcome.found, outcome.seconds = outcome.cells - computed, time.monotonic() - started
    return grown, outcome


def layout(plan: Plan) -> Iterator[str]:
    """The looks before they run: seeds, levels of the intervals, and how many cells at most."""
    seeds = plan.looks.seeds
    yield (
        f"{plan.study.name}: {count(len(seeds), 'look')} for "
        f"{count(plan.looks.comparisons, 'comparison')}; the intervals of all looks hold at "
        f"once with 95%"
    )
    per_task = levels(plan, over=False)
    over = levels(plan, over=True) if plan.looks.over_tasks else None
    counts = {(task, name): seeds[0] for task in plan.tasks for name in plan.variants}
    for look, number in enumerate(seeds):
        _raise(counts, plan, tuple(counts), number)
        level = f"{100 * (1 - per_task.levels[look]):.3f}% each"
        if over is not None:
            level += f", {100 * (1 - over.levels[look]):.3f}% each over all tasks"
        cells = len(needed([with_seeds(plan, counts)]))
        yield f"    look {look + 1}: {number} seeds, {level}; {count(cells, 'cell')} at most"


def _raise(counts: dict[Place, int], plan: Plan, open_: Sequence[Place], seeds: int) -> None:
    """Gives what is open, and what that is compared with, so many seeds."""
    for task, variant in open_:
        other = baseline_of(plan, variant)
        if other is not None and other in plan.variants:
            counts[task, variant] = counts[task, other] = seeds


def _has_ended(results: Path, cell: str) -> bool:
    try:
        return whole_record(results, cell) is not None
    except DamagedRecord:
        return False


def _named(places: Sequence[Place]) -> str:
    names = [f"{variant} on {task}" for task, variant in places[:_MOST_NAMES]]
    more = len(places) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")

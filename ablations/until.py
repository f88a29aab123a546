"""Add seeds at planned looks until comparisons are decided: `ablations run --until decided`.

The sequential test of a plan: a look needs the plan with its seeds for all that is open, and the
plan's table decides. Runs are collected by an executor; records that are there are read first, so
that an interrupted run goes on with the same looks, here or on a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations import looks
from ablations.core.verdict import Verdict
from ablations.errors import count
from ablations.looks import Look, Looks
from ablations.records import DamagedRecord, Plan
from ablations.report.results import Results
from ablations.report.scores import baseline_of
from ablations.report.tables import ALL_TASKS, table
from ablations.report.tables.pairings import levels
from ablations.sweep.local import Outcome, Processes, outcome_of
from ablations.sweep.plan import with_seeds
from ablations.sweep.prepare import Work, needed, whole_record

_MOST_NAMES = 4
DEFAULT = Processes()

Place = tuple[str, str]  # task, variant


@dataclass(frozen=True)
class Openness:
    """The comparisons that a look leaves undecided (open); lost: without pairs, as runs failed."""

    open: tuple[Place, ...] = ()
    lost: tuple[Place, ...] = ()

    @property
    def decided(self) -> bool:
        """Return whether no comparison is open."""
        return not self.open


@dataclass(frozen=True)
class PlanTest:
    """The comparisons of a plan as one sequential test; see `looks.SequentialTest`."""

    plan: Plan
    results: Path

    @property
    def looks(self) -> Looks:
        """The looks of each comparison per task."""
        return levels(self.plan, over=False)

    def needs(self, look: Look, before: Sequence[Openness]) -> Plan:
        """Return the plan with the seeds of the first look, and of this one for what is open."""
        seeds = self.looks.seeds
        counts = {(task, name): seeds[0] for task in self.plan.tasks for name in self.plan.variants}
        for decision, number in zip(before, seeds[1:], strict=False):
            _raise(counts, self.plan, decision.open, number)
        return with_seeds(self.plan, counts)

    def decide(self, look: Look, runs: Plan, before: Sequence[Openness]) -> Openness:
        """Return the comparisons that the table of a finished plan leaves undecided."""
        rows = [row for row in table(Results(runs, self.results)).rows if row.task != ALL_TASKS]
        return Openness(
            tuple((row.task, row.variant) for row in rows if row.verdict is Verdict.UNDECIDED),
            tuple((r.task, r.variant) for r in rows if r.verdict and r.verdict.too_few),
        )


State = looks.Stage[Plan, Openness]


@dataclass(frozen=True)
class Stage:
    """The state of a plan's looks.

    plan: with the cells of all looks so far. look: the last of them, from 0; ended: whether all of
    its cells have. open: what the last look that has ended leaves undecided; lost: what cannot be
    compared, as runs failed. Both are empty before the first has ended.
    """

    plan: Plan
    look: int
    ended: bool
    open: tuple[Place, ...] = ()
    lost: tuple[Place, ...] = ()

    @classmethod
    def of(cls, state: State) -> Stage:
        """Return the stage that a sequential test has reached."""
        last = state.decisions[-1] if state.decisions else Openness()
        look = len(state.decisions) - state.ended
        return cls(state.needs, look, state.ended, last.open, last.lost)

    @property
    def line(self) -> str:
        """The state in a line, for people."""
        seeds = self.plan.looks.seeds
        total = count(self.plan.looks.comparisons, "comparison")
        left = len(self.open) + len(self.lost)
        decided = f"{self.plan.looks.comparisons - left} of {total} decided"
        lost = f"; not to be compared, as runs failed: {_named(self.lost)}" if self.lost else ""
        if not self.ended:
            due = f"look {self.look + 1} of {len(seeds)}, {seeds[self.look]} seeds"
            if self.look:
                text = f"{decided}{lost}; {due} for {_named(self.open)}"
            else:
                text = f"{due} for {total}"
        elif self.open:
            most = f"with {seeds[-1]} seeds, the most: {_named(self.open)}"
            text = f"{decided}{lost}; undecided {most}"
        else:
            text = f"{decided}{lost}, at look {self.look + 1} of {len(seeds)}"
        return f"{self.plan.study.name}: {text}"


def _recorded(results: Path) -> Callable[[Mapping[int, State]], dict[int, Plan]]:
    """Return the collector of plans whose cells have all ended."""
    ended: set[str] = set()

    def complete(plan: Plan) -> bool:
        cells = {cell.hash for cell in plan.cells} - ended
        if not all(_has_ended(results, cell) for cell in cells):
            return False
        ended.update(cells)
        return True

    return lambda stages: {key: at.needs for key, at in stages.items() if complete(at.needs)}


def stage(plan: Plan, results: Path) -> Stage:
    """Return the stage that a plan has reached by its records."""
    return Stage.of(looks.play({0: PlanTest(plan, results)}, _recorded(results))[0])


def run(
    plans: Sequence[Plan],
    results: Path,
    executor: Processes = DEFAULT,
    *,
    seconds: float | None = None,
) -> tuple[list[Plan], Outcome]:
    """Run look after look on this machine until nothing is open or the most seeds are there.

    Args:
        plans: with looks.
        results: the results folder.
        executor: where the cells run.
        seconds: ends it earlier; a look that was not finished goes on in the next call.

    Returns:
        The plans with the seeds of their looks, and what became of all of their cells.
    """
    started = time.monotonic()
    deadline = None if seconds is None else started + seconds
    recorded, outcomes = _recorded(results), list[Outcome]()

    def say(line: str) -> None:
        if not executor.quiet:
            print(line, flush=True)

    def compute(stages: Mapping[int, State]) -> None:
        for at in stages.values():
            say(Stage.of(at).line)
        asked = [at.needs for at in stages.values()]
        outcomes.append(executor.run(asked, results, deadline=deadline))
        outcomes[-1].stopped = deadline is not None and time.monotonic() >= deadline

    def collect(stages: Mapping[int, State]) -> dict[int, Plan]:
        if (there := recorded(stages)) or outcomes[-1].stopped:
            return there
        compute(stages)
        return recorded(stages)

    def tell(key: int, at: State) -> None:
        if at.ended and outcomes[-1].computed:
            say(Stage.of(at).line)

    tests = {key: PlanTest(plan, results) for key, plan in enumerate(plans)}
    stages = looks.play(tests, recorded)
    compute(stages)  # of what has ended too: its plan becomes the study's last
    stages = looks.play(tests, collect, stages, tell)
    if names := ", ".join(at.needs.study.name for at in stages.values() if not at.ended):
        say(f"{names}: the budget is spent; the same command goes on from here")
    grown = [at.needs for at in stages.values()]
    total = outcome_of(Work(needed(grown), ()), results, stopped=outcomes[-1].stopped)
    total.found = total.cells - sum(outcome.computed for outcome in outcomes)
    total.seconds = time.monotonic() - started
    return grown, total


def layout(plan: Plan) -> Iterator[str]:
    """Yield lines on the looks: seeds, levels of the intervals, and the most cells."""
    per_task = levels(plan, over=False)
    seeds = per_task.seeds
    yield (
        f"{plan.study.name}: {count(len(seeds), 'look')} for "
        f"{count(plan.looks.comparisons, 'comparison')}; the intervals of all looks hold at "
        f"once with 95%"
    )
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
    """Raise the seeds of open comparisons, and of their baselines, to a number."""
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

"""`ablations run --until decided`: adds seeds in stages until every comparison is decided.

A stage trains its seeds for undecided comparisons, then compares the plan. The records decide the
current stage, so an interrupted run continues, here or on a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablations.comparison import LEARNED_TOO_LITTLE, compare, planned_stages
from ablations.engine.local import Outcome, Processes, outcome_of
from ablations.engine.plan import with_seeds
from ablations.engine.prepare import Work, needed, whole_record
from ablations.errors import count
from ablations.records import DamagedRecord, Plan
from ablations.runs import ALL_TASKS, Runs
from ablations.stats import decide, interim

_MOST_NAMES = 4
DEFAULT = Processes()

Pair = tuple[str, str]  # task, variant


@dataclass(frozen=True)
class Openness:
    """The comparisons that are undecided after a stage (open), and those without pairs (lost)."""

    open: tuple[Pair, ...] = ()
    lost: tuple[Pair, ...] = ()

    @property
    def decided(self) -> bool:
        """Whether no comparison is open."""
        return not self.open


@dataclass(frozen=True)
class PlanTest:
    """The comparisons of a plan as one `interim.SequentialTest`."""

    plan: Plan
    results: Path

    @property
    def stages(self) -> interim.Stages:
        """The stages of each comparison on a task."""
        return planned_stages(self.plan, over=False)

    def needs(self, stage: interim.Stage, before: Sequence[Openness]) -> Plan:
        """Return the plan with this stage's seeds for undecided comparisons."""
        seeds = self.stages.seeds
        counts = {(task, name): seeds[0] for task in self.plan.tasks for name in self.plan.variants}
        for decision, number in zip(before, seeds[1:], strict=False):
            _raise(counts, self.plan, decision.open, number)
        return with_seeds(self.plan, counts)

    def decide(self, stage: interim.Stage, runs: Plan, before: Sequence[Openness]) -> Openness:
        """Return the undecided comparisons of a plan whose runs have ended."""
        frame = compare(Runs.read(self.results, runs))
        frame = frame[(frame.task != ALL_TASKS) & (frame.verdict != "")]
        undecided, lost = [], []
        for row in frame.itertuples():
            verdict = decide(row.difference_low, row.difference_high, row.margin)
            if row.pairs < 2:
                lost.append((row.task, row.variant))
            elif verdict == row.verdict == "inconclusive" and row.note != LEARNED_TOO_LITTLE:
                undecided.append((row.task, row.variant))
        return Openness(tuple(undecided), tuple(lost))


State = interim.Progress[Plan, Openness]


def line(state: State) -> str:
    """Return the state of a plan's interim analyses in a line."""
    looks, last = state.needs.looks, state.decisions[-1] if state.decisions else Openness()
    total, most = count(looks.comparisons, "comparison"), looks.seeds[-1]
    decided = f"{looks.comparisons - len(last.open) - len(last.lost)} of {total} decided"
    if last.lost:
        decided += f"; not compared, as runs failed: {_named(last.lost)}"
    stage = len(state.decisions) - state.ended
    if not state.ended:
        due = f"stage {stage + 1} of {len(looks.seeds)}, {looks.seeds[stage]} seeds"
        text = f"{decided}; {due} for {_named(last.open)}" if stage else f"{due} for {total}"
    elif last.open:
        text = f"{decided}; inconclusive with {most} seeds, the most: {_named(last.open)}"
    else:
        text = f"{decided}, at stage {stage + 1} of {len(looks.seeds)}"
    return f"{state.needs.study.name}: {text}"


def stage(plan: Plan, results: Path) -> State:
    """Return the state of a plan's interim analyses, from its records."""
    return interim.play({0: PlanTest(plan, results)}, _recorded(results))[0]


def run(
    plans: Sequence[Plan],
    results: Path,
    executor: Processes = DEFAULT,
    *,
    seconds: float | None = None,
) -> tuple[list[Plan], Outcome]:
    """Run stage after stage on this machine until every comparison is decided, or the last stage.

    Args:
        plans: with interim analyses.
        results: the results folder.
        executor: trains the runs.
        seconds: time limit; the next call continues an unfinished stage.

    Returns:
        The plans with the seeds of their stages, and the outcome of all of their runs.
    """
    started = time.monotonic()
    deadline = None if seconds is None else started + seconds
    recorded = _recorded(results)
    tests = {key: PlanTest(plan, results) for key, plan in enumerate(plans)}
    computed, told = 0, set[int]()

    def say(states: Mapping[int, State]) -> None:
        for key, state in states.items():
            if key not in told and not executor.quiet:
                print(line(state), flush=True)
            told.update([key] * state.ended)

    states = interim.play(tests, recorded)
    while True:  # also for finished plans, so that they become their studies' last plans
        say(states)
        due = [state.needs for state in states.values()]
        computed += executor.run(due, results, deadline=deadline).computed
        stopped = deadline is not None and time.monotonic() >= deadline
        before, states = states, interim.play(tests, recorded, states)
        if stopped or states == before or all(state.ended for state in states.values()):
            break
    say({key: state for key, state in states.items() if state.ended})
    names = ", ".join(state.needs.study.name for state in states.values() if not state.ended)
    if names and not executor.quiet:
        print(f"{names}: the time is up; the same command continues from here", flush=True)
    grown = [state.needs for state in states.values()]
    total = outcome_of(Work(needed(grown), ()), results, stopped=stopped)
    total.found, total.seconds = total.cells - computed, time.monotonic() - started
    return grown, total


def layout(plan: Plan) -> str:
    """Return a line on the seeds of the stages and the largest number of runs."""
    seeds = planned_stages(plan, over=False).seeds
    counts = {(task, name): seeds[0] for task in plan.tasks for name in plan.variants}
    _raise(counts, plan, tuple(counts), seeds[-1])
    runs = len(needed([with_seeds(plan, counts)]))
    stages = ", ".join(map(str, seeds))
    return f"{plan.study.name}: stages of {stages} seeds; {count(runs, 'run')} at most"


def _recorded(results: Path) -> Callable[[Mapping[int, State]], dict[int, Plan]]:
    ended: set[str] = set()

    def complete(plan: Plan) -> bool:
        runs = {cell.hash for cell in plan.cells} - ended
        if not all(_has_ended(results, run) for run in runs):
            return False
        ended.update(runs)
        return True

    return lambda states: {k: state.needs for k, state in states.items() if complete(state.needs)}


def _raise(counts: dict[Pair, int], plan: Plan, open_: Sequence[Pair], seeds: int) -> None:
    for task, variant in open_:
        versus = plan.variants[variant].versus or plan.study.baseline
        if versus != variant and versus in plan.variants:
            counts[task, variant] = counts[task, versus] = seeds


def _has_ended(results: Path, run: str) -> bool:
    try:
        return whole_record(results, run) is not None
    except DamagedRecord:
        return False


def _named(pairs: Sequence[Pair]) -> str:
    names = [f"{variant} on {task}" for task, variant in pairs[:_MOST_NAMES]]
    more = len(pairs) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")

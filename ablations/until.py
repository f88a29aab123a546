"""`ablations run --until decided`: adds seeds in stages until every comparison is decided.

A stage trains its seeds for undecided comparisons, then compares the plan. The records decide the
current stage, so an interrupted run continues, here or on a cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ablations.comparison import LEARNED_TOO_LITTLE, compare
from ablations.engine.local import Outcome, Processes, outcome_of
from ablations.engine.plan import with_seeds
from ablations.engine.prepare import Work, needed, whole_record
from ablations.errors import count, shortened
from ablations.records import DamagedRecord, Plan
from ablations.runs import ALL_TASKS, Runs
from ablations.stats import decide

_MOST_NAMES = 4
DEFAULT = Processes()

Pair = tuple[str, str]  # task, variant


@dataclass(frozen=True)
class State:
    """The state of a plan's interim analyses.

    Attributes:
        needs: the plan with the seeds of the current stage for undecided comparisons.
        stage: the number of the current stage, from 0.
        open, lost: comparisons that the previous analysis did not decide, and those without pairs.
        ended: whether the current stage was the last.
    """

    needs: Plan
    stage: int = 0
    open: tuple[Pair, ...] = ()
    lost: tuple[Pair, ...] = ()
    ended: bool = False


def stage(plan: Plan, results: Path) -> State:
    """Return the state of a plan's interim analyses, from its records."""
    seeds = plan.looks.seeds
    counts = {(task, name): seeds[0] for task in plan.tasks for name in plan.variants}
    state = State(with_seeds(plan, counts))
    while not state.ended and all(_has_ended(results, cell.hash) for cell in state.needs.cells):
        undecided, lost = _undecided(state.needs, results)
        if undecided and (after := state.stage + 1) < len(seeds):
            more = _with_more_seeds(state.needs, undecided, seeds[after])
            state = State(more, after, undecided, lost)
        else:
            state = replace(state, open=undecided, lost=lost, ended=True)
    return state


def _undecided(plan: Plan, results: Path) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Return the undecided comparisons of a plan whose runs have ended, and those without pairs."""
    frame = compare(Runs.read(results, plan))
    frame = frame[(frame.task != ALL_TASKS) & (frame.verdict != "")]
    undecided, lost = [], []
    for row in frame.itertuples():
        verdict = decide(row.difference_low, row.difference_high, row.margin)
        if row.pairs < 2:
            lost.append((row.task, row.variant))
        elif verdict == row.verdict == "inconclusive" and row.note != LEARNED_TOO_LITTLE:
            undecided.append((row.task, row.variant))
    return tuple(undecided), tuple(lost)


def _with_more_seeds(plan: Plan, pairs: Sequence[Pair], seeds: int) -> Plan:
    """Return a plan with this number of seeds for some comparisons and their baselines."""
    counts = Counter((cell.task, cell.variant) for cell in plan.cells)
    for task, variant in pairs:
        versus = plan.variants[variant].versus or plan.study.baseline
        if versus != variant and versus in plan.variants:
            counts[task, variant] = counts[task, versus] = seeds
    return with_seeds(plan, counts)


def _has_ended(results: Path, run: str) -> bool:
    try:
        return whole_record(results, run) is not None
    except DamagedRecord:
        return False


def line(state: State) -> str:
    """Return the state of a plan's interim analyses in a line."""
    looks = state.needs.looks
    total, stages = count(looks.comparisons, "comparison"), len(looks.seeds)
    decided = f"{looks.comparisons - len(state.open) - len(state.lost)} of {total} decided"
    if state.lost:
        decided += f"; not compared, as runs failed: {_named(state.lost)}"
    due = f"stage {state.stage + 1} of {stages}, {looks.seeds[state.stage]} seeds"
    if not state.ended:
        text = f"{decided}; {due} for {_named(state.open)}" if state.stage else f"{due} for {total}"
    elif state.open:
        most = f"inconclusive with {looks.seeds[-1]} seeds, the most"
        text = f"{decided}; {most}: {_named(state.open)}"
    else:
        text = f"{decided}, at stage {state.stage + 1} of {stages}"
    return f"{state.needs.study.name}: {text}"


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
    started, computed = time.monotonic(), 0
    deadline = None if seconds is None else started + seconds
    said: list[str] = []

    def say(lines: Iterable[str]) -> None:
        for text in lines if not executor.quiet else ():
            print(text, flush=True)

    while True:
        states = [stage(plan, results) for plan in plans]
        lines = [line(state) for state in states]
        say(text for text in lines if text not in said)
        over = deadline is not None and time.monotonic() >= deadline
        # Finished plans run once too, so that they become their studies' last plans.
        if said and (over or lines == said or all(state.ended for state in states)):
            break
        due, said = [state.needs for state in states], lines
        computed += executor.run(due, results, deadline=deadline).computed
    if left := ", ".join(state.needs.study.name for state in states if not state.ended):
        say([f"{left}: the time is up; the same command continues from here"])
    grown = [state.needs for state in states]
    total = outcome_of(Work(needed(grown), ()), results)
    total.found, total.seconds = total.cells - computed, time.monotonic() - started
    return grown, total


def layout(plan: Plan) -> str:
    """Return a line on the seeds of the stages and the largest number of runs."""
    seeds = plan.looks.seeds
    pairs = [(task, name) for task in plan.tasks for name in plan.variants]
    runs = len(needed([_with_more_seeds(plan, pairs, seeds[-1])]))
    stages = ", ".join(map(str, seeds))
    return f"{plan.study.name}: stages of {stages} seeds; {count(runs, 'run')} at most"


def _named(pairs: Sequence[Pair]) -> str:
    names = [f"{variant} on {task}" for task, variant in pairs]
    return ", ".join(shortened(names, _MOST_NAMES, "and {} more"))

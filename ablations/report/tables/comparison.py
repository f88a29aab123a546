"""The comparison of every variant with its baseline, per task and over all tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import SupportsFloat

import numpy as np

from ablations.core.verdict import Verdict, answer
from ablations.records import Plan
from ablations.report.results import Once, Results
from ablations.report.scores import Cell, Scores, baseline_of, grouped, scores
from ablations.report.statistics import (
    LEVEL,
    aggregate,
    aggregate_interval,
    interval,
    iqm,
    not_the_best,
    probability_of_improvement,
    seeds_to_decide,
    verdict,
)
from ablations.report.statistics.rates import fewer_successes, rate_interval
from ablations.report.tables.entries import ALL_TASKS, Entry, Table, number, policy_text
from ablations.report.tables.notes import caption, notes
from ablations.report.tables.pairings import (
    Family,
    Finding,
    Pairing,
    last_look,
    over_tasks,
    pooled_tasks,
    verdict_of,
)
from ablations.report.tables.success_rates import successes
from ablations.report.trivial import Trivial, trivial
from ablations.report.units import Units, normalised, settings_of, units_of_score


@Once
def table(results: Results, *, metric: str | None = None, score: str | None = None) -> Table:
    """Compare every variant with its baseline.

    Args:
        results: of the plan.
        metric: a column of the curves, by default the study's own. One that is no return has no
            margin and no direction.
        score: "final", the mean over the last tenth of training; "auc", that over all of it;
            "last", that of the last three evaluations; "mean", that of all evaluations. By default
            the plan's own.

    Raises:
        UserError: an unknown metric or score.
    """
    plan, scored = results.plan, scores(results, metric=metric, score=score)
    learned = units_of_score(results, metric, score)
    baselines = {name: baseline_of(plan, name) for name in plan.variants}
    order = tuple(name for name, _ in grouped(baselines))
    pooled = pooled_tasks(plan, learned)

    pairings = Family(plan, scored, learned, over=False).pairings(
        [([task], variant, baselines[variant]) for task in plan.tasks for variant in order],
        LEVEL / 2 if pooled else LEVEL,
    )
    rows = [_entry(scored, learned, pairing) for pairing in pairings]
    rows = _marked(plan, scored, learned, rows, list(plan.tasks))
    if pooled:
        averages = Family(plan, scored, learned, over=True).pairings(
            [(pooled[name], name, baselines[name]) for name in order if pooled[name]], LEVEL / 2
        )
        averaged = [_over_tasks(plan, scored, learned, pairing, rows) for pairing in averages]
        rows += _marked(plan, scored, learned, averaged, [ALL_TASKS])
    policies = trivial(results, scored.metric)
    if learned.trivial:
        rows = _answered(rows)
    rows = [*_learns_nothing(policies), *rows]
    return Table(
        study=plan.study.name,
        title=plan.study.title,
        metric=scored.metric,
        score=scored.score,
        tasks=tuple(plan.tasks),
        variants=order,
        rows=tuple(rows),
        caption=caption(plan, scored, learned, rows),
        notes=tuple(notes(plan, scored, learned, rows)),
    )


# Entries


def _entry(scored: Scores, learned: Units, pairing: Pairing) -> Entry:
    (task,) = pairing.tasks
    cells = scored.of(task, pairing.variant)
    values = np.array([cell.value for cell in cells if cell.status == "done"])
    unit = learned.of(task, pairing.variant)
    rate = len(values) > 1 and successes(scored, learned, task)
    ends = rate_interval(int(values.sum()), len(values)) if rate else interval(values, "mean")
    row = _counted(_judged(pairing, task, judged=learned.judged), cells)
    row = replace(row, n_planned=len(cells), unit=None if unit is None else unit.size)
    mean = values.mean() if len(values) else None
    return _with_scores(row, len(values), (mean, *ends), (iqm(values), *interval(values)))


def _over_tasks(
    plan: Plan, scored: Scores, learned: Units, pairing: Pairing, rows: Sequence[Entry]
) -> Entry:
    """Make a row of normalised scores, and of the mean over tasks of differences per unit."""
    variant = pairing.variant
    cells = [cell for task in plan.tasks for cell in scored.of(task, variant)]
    values = normalised(plan, scored, learned, variant)
    of_variant = [row for row in rows if row.variant == variant]
    row = _judged(pairing, ALL_TASKS, judged=True)
    if row.verdict is not None:
        mean = pairing.compare()
        average = over_tasks(
            Finding.of(row.verdict, mean),
            verdict(mean, None).guarded(pairing.more_failures),
            [Finding.of(row.verdict, row.comparison) for row in of_variant if row.verdict],
        )
        row = replace(row, verdict=average)
        if average is not Verdict.UNDECIDED:
            row = replace(row, seeds_low=None, seeds_to_decide=None, seeds_high=None)
    if values:
        of_mean = (aggregate(values, "mean"), *aggregate_interval(values, "mean"))
        middle = (aggregate(values, "task_iqm"), *aggregate_interval(values, "task_iqm"))
        row = _with_scores(row, len(values[0]), of_mean, middle)
    return replace(_counted(row, cells), n_planned=len({cell.seed for cell in cells}))


def _with_scores(
    row: Entry,
    n: int,
    mean: Sequence[SupportsFloat | None],
    middle: Sequence[SupportsFloat | None],
) -> Entry:
    """Add the mean of n scores and their interquartile mean, each with the ends of its interval."""
    center, low, high = map(number, mean)
    iqm, iqm_low, iqm_high = map(number, middle)
    return replace(
        row, n=n, mean=center, low=low, high=high, iqm=iqm, iqm_low=iqm_low, iqm_high=iqm_high
    )


def _counted(row: Entry, cells: Sequence[Cell]) -> Entry:
    ended = Counter(cell.status for cell in cells)
    return replace(
        row, n_failed=ended["failed"], n_empty=ended["empty"], n_missing=ended["missing"]
    )


def _learns_nothing(policies: Mapping[str, Trivial]) -> Iterator[Entry]:
    """Yield a row for each policy that learns nothing, with its scores alone."""
    for task, of in policies.items():
        for policy, values in of.scores.items():
            row = Entry(task, policy_text(policy), n_planned=len(values), policy=True)
            mean = (np.mean(values), *interval(values, "mean"))
            yield _with_scores(row, len(values), mean, (iqm(values), *interval(values)))


def _answered(rows: Sequence[Entry]) -> list[Entry]:
    """Add what the intervals say in shares of the unit, on all tasks in view of each.

    Where a verdict does not follow from the interval there is no answer, as of failed runs.
    """
    tasks: dict[str, list[tuple[float, float]]] = {}
    answered = []
    for row in rows:
        verdict, bounds = row.verdict, row.in_units
        silent = verdict is None or verdict.unstable or verdict.too_few or verdict.unlearned
        if silent or bounds is None or verdict is Verdict.IDENTICAL:
            answered.append(row)
            continue
        if row.task != ALL_TASKS:
            tasks.setdefault(row.variant, []).append(bounds[1:])
        of_tasks = tasks.get(row.variant, ()) if row.task == ALL_TASKS else ()
        answered.append(replace(row, answer=answer(*bounds, tasks=of_tasks)))
    return answered


# Verdicts


def _judged(pairing: Pairing, task: str, *, judged: bool) -> Entry:
    """Make a row of what is compared, without scores."""
    row = Entry(
        task, pairing.variant, pairing.baseline, margin=pairing.margin, same_as=pairing.same_as
    )
    if pairing.baseline is None:
        return row
    if pairing.identical:
        pairs = len(pairing.ours[0]) if pairing.ours else 0
        return replace(row, n_pairs=pairs, difference=0.0, verdict=Verdict.IDENTICAL)
    c = pairing.compare()
    row = replace(
        row,
        n_pairs=c.n,
        difference=c.difference,
        difference_low=c.low,
        difference_high=c.high,
        level=c.level,
        deviation=c.deviation,
        p=c.p,
        p_adjusted=c.p_adjusted,
        wilcoxon_p=c.wilcoxon_p,
        p_equivalent=c.p_equivalent,
        verdict=verdict_of(c, pairing, judged),
    )
    if c.n:
        chance, *ends = probability_of_improvement(pairing.ours, pairing.theirs)
        low, high = map(number, ends)
        row = replace(
            row, probability_of_improvement=chance, improvement_low=low, improvement_high=high
        )
    if row.verdict is Verdict.UNDECIDED:
        seeds = seeds_to_decide(c, pairing.margin)
        row = replace(row, seeds_low=seeds.low, seeds_to_decide=seeds.seen, seeds_high=seeds.high)
    return row


# The best


def _marked(
    plan: Plan, scored: Scores, learned: Units, rows: list[Entry], tasks: Sequence[str]
) -> list[Entry]:
    """Mark the best of each task, and what is not significantly below it.

    Only rows of the same task settings are ranked, and on "all tasks" only those in the same units.
    """
    if not learned.judged:
        return rows
    marks: dict[tuple[str, str], str] = {}
    for task in tasks:
        families: dict[tuple[str, ...], list[Entry]] = {}
        for row in rows:
            if row.task == task and row.mean is not None:
                families.setdefault(_family(plan, learned, task, row.variant), []).append(row)
        for family in families.values():
            for variant, mark in _ranked(plan, scored, learned, task, family).items():
                marks[task, variant] = mark
    return [
        replace(
            row,
            best=marks.get((row.task, row.variant)) == "best",
            tied=marks.get((row.task, row.variant)) == "tied",
        )
        for row in rows
    ]


def _family(plan: Plan, learned: Units, task: str, variant: str) -> tuple[str, ...]:
    if task != ALL_TASKS:
        return (settings_of(plan, task, variant),)
    return learned.source(variant), *(settings_of(plan, name, variant) for name in plan.tasks)


def _ranked(
    plan: Plan, scored: Scores, learned: Units, task: str, rows: Sequence[Entry]
) -> dict[str, str]:
    """Rank the rows of a task: variant -> "best" or "tied".

    A variant that fails more than another is neither: its mean is of the seeds that survived.
    """
    tasks = [place for place in plan.tasks if task in (place, ALL_TASKS)]
    names = [row.variant for row in rows]
    scored, level = last_look(plan, scored, tasks, names, LEVEL)
    failed = {name: scored.failures(tasks, name) for name in names}
    rows = [row for row in rows if failed[row.variant] == min(failed.values())]
    if len(rows) < 2:
        return {}
    names = [row.variant for row in rows]
    by_seed: dict[str, dict[int, float]] = {}
    for name in names:
        if task != ALL_TASKS:
            by_seed[name] = scored.by_seed(task, name)
            continue
        parts = [scored.by_seed(place, name) for place in tasks if learned.of(place, name)]
        complete = sorted(set.intersection(*(set(part) for part in parts)))
        means = np.mean(normalised(plan, scored, learned, name), axis=0)
        by_seed[name] = dict(zip(complete, means, strict=True))
    seeds = sorted(set().union(*by_seed.values()))
    values = [[by_seed[name].get(seed, np.nan) for seed in seeds] for name in names]
    rates = task != ALL_TASKS and successes(scored, learned, task)
    below = (fewer_successes if rates else not_the_best)(values, level)
    kept = [row for row, lost in zip(rows, below, strict=True) if not lost]
    marks = {row.variant: "tied" for row in kept}
    return marks | {max(kept, key=lambda row: row.mean or 0.0).variant: "best"}

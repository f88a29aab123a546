"""Every variant against the one it is compared with, per task and over all tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ablations.records import Plan
from ablations.report.scores import Cell, Scores, baseline_of, grouped, is_score, scores
from ablations.report.statistics import (
    LEVEL,
    Aggregate,
    Comparison,
    aggregate,
    aggregate_interval,
    compare,
    interval,
    iqm,
    not_the_best,
    probability_of_improvement,
    seeds_to_decide,
    verdict,
)
from ablations.report.tables.entries import ALL_TASKS, Entry, Table, number
from ablations.report.tables.notes import caption, notes
from ablations.report.units import Units, normalised, settings_of, units


def table(plan: Plan, results: Path, *, metric: str | None = None, score: str = "final") -> Table:
    """The comparison that a plan makes, from its records.

    metric: column of the curve, the study's by default. score: "final", the mean over the last
    tenth of training, or "auc", the mean over all of it. Raises UserError for unknown ones,
    DamagedRecord for a broken record. A metric that is not a return has no margin and no direction.
    """
    found = scores(plan, results, metric=metric, score=score)
    judged = is_score(plan, found.metric)
    learned = units(plan, results, found) if judged else None
    baselines = {name: baseline_of(plan, name) for name in plan.variants}
    order = tuple(name for name, _ in grouped(baselines))
    pooled = {} if learned is None else pooled_tasks(plan, learned)

    pairings = [
        _pairing(plan, found, learned, [task], variant, baselines[variant])
        for task in plan.tasks
        for variant in order
    ]
    averages = [
        _pairing(plan, found, learned, pooled[variant], variant, baselines[variant], over=True)
        for variant in order
        if pooled.get(variant)
    ]
    rows = [
        _entry(found, learned, pairing)
        for pairing in _shared(plan, pairings, LEVEL / 2 if pooled else LEVEL)
    ]
    rows = _marked(plan, found, learned, rows, list(plan.tasks))
    if pooled and learned is not None:
        whole = [
            _over_tasks(plan, found, learned, pairing, rows)
            for pairing in _shared(plan, averages, LEVEL / 2)
        ]
        rows += _marked(plan, found, learned, whole, [ALL_TASKS])
    return Table(
        study=plan.study["name"],
        title=plan.study["title"],
        metric=found.metric,
        score=score,
        tasks=tuple(plan.tasks),
        variants=order,
        rows=tuple(rows),
        caption=caption(plan, found, learned, rows),
        notes=tuple(notes(plan, found, learned, rows)),
    )


# Comparisons


@dataclass(frozen=True)
class Pairing:
    """What a variant is compared with and on which scores.

    tasks: on which it rests. ours, theirs: scores `[n]` per task, over the seeds that both have on
    every task; in units of what was learned where there are several. more_failures: how many more
    cells of the variant failed than of its baseline. identical: the curves are the same bits.
    same_as: another variant that is the same composition, the baseline where it is.
    """

    tasks: tuple[str, ...]
    variant: str
    baseline: str | None
    margin: float | None
    ours: tuple[np.ndarray, ...] = ()
    theirs: tuple[np.ndarray, ...] = ()
    more_failures: int = 0
    identical: bool = False
    same_as: str | None = None
    level: float = LEVEL

    def compare(self) -> Comparison:
        """Of the means over tasks, seed by seed."""
        if not self.ours:
            return Comparison(0, level=self.level)
        ours, theirs = (np.mean(rows, axis=0) for rows in (self.ours, self.theirs))
        return compare(ours, theirs, self.margin, self.level)


def _pairing(
    plan: Plan,
    found: Scores,
    learned: Units | None,
    tasks: Sequence[str],
    variant: str,
    baseline: str | None,
    *,
    over: bool = False,
) -> Pairing:
    margin = plan.study["margin"] if over else None
    if not over and learned is not None:
        unit = learned.of(tasks[0], variant)
        margin = None if unit is None else plan.study["margin"] * unit.size
    first = _first_of(plan, variant)
    alike = baseline is not None and first == _first_of(plan, baseline)
    same_as = baseline if alike else first if first != variant else None
    if baseline is None or not tasks:
        return Pairing(tuple(tasks), variant, baseline, margin, same_as=same_as)
    by_seed = {v: [found.by_seed(task, v) for task in tasks] for v in (variant, baseline)}
    seeds = sorted(set.intersection(*(set(one) for of in by_seed.values() for one in of)))

    def scaled(which: str) -> tuple[np.ndarray, ...]:
        rows = (np.array([one[seed] for seed in seeds]) for one in by_seed[which])
        if not over or learned is None:
            return tuple(rows)
        sizes = ((learned.of(task, variant), row) for task, row in zip(tasks, rows, strict=True))
        return tuple(row / unit.size for unit, row in sizes if unit is not None)

    # Failures count on every task, also on one where nothing was learned.
    every = list(plan.tasks) if over else tasks
    fails = [
        sum(cell.status == "failed" for task in every for cell in found.of(task, which))
        for which in (variant, baseline)
    ]
    return Pairing(
        tuple(tasks),
        variant,
        baseline,
        margin,
        scaled(variant),
        scaled(baseline),
        fails[0] - fails[1],
        alike or found.identical(every, variant, baseline),
        same_as,
    )


def _first_of(plan: Plan, variant: str) -> str:
    """The first variant of the same composition: one name for all that share their cells."""
    return plan.variants.get(variant, {}).get("same_as") or variant


def _shared(plan: Plan, pairings: Sequence[Pairing], level: float) -> list[Pairing]:
    """With the level shared over the comparisons that are to be made (Bonferroni), each counted
    once. What is the same bits needs none: nothing false can be said of it."""
    made = {
        (one.tasks, _first_of(plan, one.variant), _first_of(plan, one.baseline))
        for one in pairings
        if one.baseline is not None and not one.identical
    }
    return [replace(one, level=level / max(1, len(made))) for one in pairings]


def pooled_tasks(plan: Plan, learned: Units) -> dict[str, list[str]]:
    """variant -> the tasks that its "all tasks" row averages: those where there is a unit. {} where
    no variant has two."""
    found = {
        variant: [task for task in plan.tasks if learned.of(task, variant) is not None]
        for variant in plan.variants
    }
    if not any(len(tasks) > 1 for tasks in found.values()):
        return {}
    return {variant: tasks if len(tasks) > 1 else [] for variant, tasks in found.items()}


# Entries


def _entry(found: Scores, learned: Units | None, pairing: Pairing) -> Entry:
    (task,) = pairing.tasks
    cells = found.of(task, pairing.variant)
    values = np.array([cell.value for cell in cells if cell.status == "done"])
    unit = None if learned is None else learned.of(task, pairing.variant)
    low, high = interval(values, "mean")
    iqm_low, iqm_high = interval(values)
    return Entry(
        task=task,
        variant=pairing.variant,
        baseline=pairing.baseline,
        n=len(values),
        **_counts(cells),
        n_planned=len(cells),
        unit=None if unit is None else unit.size,
        mean=float(values.mean()) if len(values) else None,
        low=number(low),
        high=number(high),
        iqm=number(iqm(values)),
        iqm_low=number(iqm_low),
        iqm_high=number(iqm_high),
        **_judgement(pairing, judged=learned is not None),
    )


def _over_tasks(
    plan: Plan, found: Scores, learned: Units, pairing: Pairing, rows: Sequence[Entry]
) -> Entry:
    """A variant's normalised scores, and the mean over tasks of its differences per unit."""
    variant = pairing.variant
    cells = [cell for task in plan.tasks for cell in found.of(task, variant)]
    values = normalised(plan, found, learned, variant)
    mine = [row for row in rows if row.variant == variant]
    judgement = _judgement(pairing, judged=True)
    if pairing.baseline is not None:
        judgement["verdict"] = _over_tasks_verdict(judgement["verdict"], pairing, mine)
        if judgement["verdict"] != "undecided":
            judgement |= dict.fromkeys(("seeds_low", "seeds_to_decide", "seeds_high"))
    numbers: dict[str, Any] = {}
    kinds: Mapping[str, Aggregate] = {"": "mean", "iqm_": "task_iqm"}
    for prefix, kind in kinds.items():
        low, high = aggregate_interval(values, kind) if values else (np.nan, np.nan)
        numbers |= {f"{prefix}low": number(low), f"{prefix}high": number(high)}
        numbers |= {prefix[:-1] or "mean": number(aggregate(values, kind)) if values else None}
    return Entry(
        task=ALL_TASKS,
        variant=variant,
        baseline=pairing.baseline,
        n=len(values[0]) if values else 0,
        **_counts(cells),
        n_planned=len({cell.seed for cell in cells}),
        **numbers,
        **judgement,
    )


def _counts(cells: Sequence[Cell]) -> dict[str, Any]:
    return {
        f"n_{status}": sum(cell.status == status for cell in cells)
        for status in ("failed", "empty", "missing")
    }


# Verdicts


def _judgement(pairing: Pairing, *, judged: bool) -> dict[str, Any]:
    """The statistical fields of an entry."""
    about = {"margin": pairing.margin, "same_as": pairing.same_as}
    if pairing.baseline is None:
        return about
    if pairing.identical:
        pairs = len(pairing.ours[0]) if pairing.ours else 0
        return about | {"n_pairs": pairs, "difference": 0.0, "verdict": "identical"}
    c = pairing.compare()
    said = _said(c, pairing, judged)
    chance, low, high = None, np.nan, np.nan
    if c.n:
        chance, low, high = probability_of_improvement(pairing.ours, pairing.theirs)
    seeds = seeds_to_decide(c, pairing.margin) if said == "undecided" else (None,) * 3
    return about | {
        "n_pairs": c.n,
        "difference": c.difference,
        "difference_low": c.low,
        "difference_high": c.high,
        "level": c.level,
        "deviation": c.deviation,
        "p": c.p,
        "p_adjusted": None if c.p is None else min(1.0, c.p * LEVEL / c.level),
        "wilcoxon_p": c.wilcoxon_p,
        "p_equivalent": c.p_equivalent,
        "probability_of_improvement": chance,
        "improvement_low": number(low),
        "improvement_high": number(high),
        "verdict": said,
        **dict(zip(("seeds_low", "seeds_to_decide", "seeds_high"), seeds, strict=True)),
    }


def _said(comparison: Comparison, pairing: Pairing, judged: bool) -> str:
    if comparison.n < 2:
        return ("no pairs", "one seed")[comparison.n]
    said = verdict(comparison, pairing.margin)
    if not judged:
        return {"b": "higher", "w": "lower"}.get(said[0], said)
    return guarded(said, pairing.more_failures)


def guarded(said: str, more_failures: int) -> str:
    """A verdict in view of failures: the seeds that survive look better than those it was given."""
    same = said in ("equivalent", "identical")
    if more_failures > 0 and (same or said.startswith("better")):
        return "unstable"
    if more_failures < 0 and (same or said.startswith("worse")):
        return "unstable baseline"
    return said


def _over_tasks_verdict(said: str, pairing: Pairing, rows: Sequence[Entry]) -> str:
    """Of the mean over tasks, in view of each.

    Equivalent only where every task is (an intersection-union test, Berger 1982): a mean can be
    small because tasks cancel. Tasks whose intervals lie on two sides of 0 disagree (a qualitative
    interaction, Gail and Simon 1985; by simultaneous intervals, Piantadosi and Gail 1993), and then
    their mean says little.
    """
    if said in ("identical", "one seed", "no pairs"):
        return said
    signs = {
        1 if row.difference_low > 0 else -1
        for row in rows
        if row.difference_low is not None
        and row.difference_high is not None
        and (row.difference_low > 0 or row.difference_high < 0)
    }
    if len(signs) == 2:
        return "tasks disagree"
    if all(row.verdict in ("equivalent", "identical") for row in rows):
        return guarded("equivalent", pairing.more_failures)
    if said != "equivalent":
        return said
    return guarded(verdict(pairing.compare(), None), pairing.more_failures)


# The best


def _marked(
    plan: Plan, found: Scores, learned: Units | None, rows: list[Entry], tasks: Sequence[str]
) -> list[Entry]:
    """With the best of each task, and of what is not significantly below it. Only rows of the same
    task settings are ranked, and on "all tasks" only those in the same units."""
    if learned is None:
        return rows
    marks: dict[tuple[str, str], str] = {}
    for task in tasks:
        families: dict[Any, list[Entry]] = {}
        for row in rows:
            if row.task == task and row.mean is not None:
                families.setdefault(_family(plan, learned, task, row.variant), []).append(row)
        for family in families.values():
            for variant, mark in _ranked(plan, found, learned, task, family).items():
                marks[task, variant] = mark
    return [
        replace(
            row,
            best=marks.get((row.task, row.variant)) == "best",
            tied=marks.get((row.task, row.variant)) == "tied",
        )
        for row in rows
    ]


def _family(plan: Plan, learned: Units, task: str, variant: str) -> Any:
    if task != ALL_TASKS:
        return settings_of(plan, task, variant)
    return learned.source(variant), *(settings_of(plan, one, variant) for one in plan.tasks)


def _ranked(
    plan: Plan, found: Scores, learned: Units, task: str, rows: Sequence[Entry]
) -> dict[str, str]:
    """variant -> "best" or "tied". A variant that fails more than another is neither: its mean is
    of the seeds that survived."""
    fewest = min(row.n_failed for row in rows)
    rows = [row for row in rows if row.n_failed == fewest]
    if len(rows) < 2:
        return {}
    names = [row.variant for row in rows]
    by_seed: dict[str, dict[int, float]] = {}
    for name in names:
        if task != ALL_TASKS:
            by_seed[name] = found.by_seed(task, name)
            continue
        parts = [found.by_seed(one, name) for one in plan.tasks if learned.of(one, name)]
        complete = sorted(set.intersection(*(set(part) for part in parts)))
        values = np.mean(normalised(plan, found, learned, name), axis=0)
        by_seed[name] = dict(zip(complete, values, strict=True))
    seeds = sorted(set().union(*by_seed.values()))
    below = not_the_best([[by_seed[name].get(seed, np.nan) for seed in seeds] for name in names])
    kept = [row for row, lost in zip(rows, below, strict=True) if not lost]
    marks = {row.variant: "tied" for row in kept}
    return marks | {max(kept, key=lambda row: row.mean or 0.0).variant: "best"}

"""Every variant against the one it is compared with, per task and over all tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ablations.records import Plan
from ablations.report.scores import (
    Cell,
    Scores,
    baseline_of,
    complete,
    grouped,
    is_score,
    scores,
)
from ablations.report.statistics import (
    LEVEL,
    Comparison,
    aggregate,
    aggregate_interval,
    compare,
    holm,
    interval,
    iqm,
    probability_of_improvement,
    seeds_to_decide,
    verdict,
)
from ablations.report.tables.entries import ALL_TASKS, Entry, Table, number
from ablations.report.tables.notes import caption, notes


def table(plan: Plan, results: Path, *, metric: str | None = None, score: str = "final") -> Table:
    """The comparison that a plan makes, from its records.

    metric: column of the curve, the study's by default. score: "final", the mean over the last
    tenth of training, or "auc", the mean over all of it. Raises UserError for unknown ones,
    DamagedRecord for a broken record. A metric that is not a return has no margin and no direction.
    """
    found = scores(plan, results, metric=metric, score=score)
    judged = is_score(plan, found.metric)
    baselines = {name: baseline_of(plan, name) for name in plan.variants}
    order = tuple(name for name, _ in grouped(baselines))
    described: list[dict[str, Any]] = []
    family: list[_Pairing | None] = []
    for task in plan.tasks:
        marks = _best(found, task, order) if judged else {}
        for variant in order:
            margin = margin_of(plan, task, variant) if judged else None
            described.append(
                _described(found, task, variant, marks)
                | {"baseline": baselines[variant], "margin": margin}
            )
            family.append(_pairing(found, [task], variant, baselines[variant], margin))
    rows = [
        Entry(**(row | judgement))
        for row, judgement in zip(described, _judged(family, judged), strict=True)
    ]
    if judged and over_tasks(plan):
        rows += _over_tasks(plan, found, order, baselines)
    return Table(
        study=plan.study["name"],
        title=plan.study["title"],
        metric=found.metric,
        score=score,
        tasks=tuple(plan.tasks),
        variants=order,
        rows=tuple(rows),
        caption=caption(plan, found, judged),
        notes=tuple(notes(plan, found, baselines)),
    )


def margin_of(plan: Plan, task: str, variant: str) -> float | None:
    """The margin of a variant in a task's own units; None where the task states no score unit."""
    unit = plan.score_unit(task, variant)
    return None if unit is None else plan.study["margin"] * unit


def units_of(plan: Plan, variant: str) -> tuple[float, ...]:
    """A variant's score unit on each task. Only for a plan whose tasks state theirs."""
    units = [plan.score_unit(task, variant) for task in plan.tasks]
    return tuple(unit for unit in units if unit is not None)


def over_tasks(plan: Plan) -> bool:
    """Whether there are several tasks, with score units that make them comparable."""
    return len(plan.tasks) > 1 and all(
        about["score_unit"] is not None for about in plan.tasks.values()
    )


@dataclass(frozen=True)
class _Pairing:
    """A comparison, the scores per task that it rests on, and how many more cells of the variant
    failed than of its baseline."""

    comparison: Comparison
    margin: float | None
    ours: list[np.ndarray]
    theirs: list[np.ndarray]
    more_failures: int


def _pairing(
    found: Scores,
    tasks: Sequence[str],
    variant: str,
    baseline: str | None,
    margin: float | None,
    plan: Plan | None = None,
) -> _Pairing | None:
    """Mean over tasks of the scores, per seed that both have on every task; with a plan, each
    score is divided by its variant's score unit."""
    if baseline is None:
        return None
    by_seed = {v: [found.by_seed(task, v) for task in tasks] for v in (variant, baseline)}
    seeds = sorted(set.intersection(*(set(one) for of in by_seed.values() for one in of)))

    def scaled(which: str) -> list[np.ndarray]:
        units = (1.0,) * len(tasks) if plan is None else units_of(plan, which)
        return [
            np.array([one[s] for s in seeds]) / unit
            for one, unit in zip(by_seed[which], units, strict=True)
        ]

    a, b = scaled(variant), scaled(baseline)
    fails = [
        sum(cell.status == "failed" for task in tasks for cell in found.of(task, which))
        for which in (variant, baseline)
    ]
    return _Pairing(
        compare(np.mean(a, axis=0), np.mean(b, axis=0), margin), margin, a, b, fails[0] - fails[1]
    )


def _described(found: Scores, task: str, variant: str, marks: Mapping[str, str]) -> dict[str, Any]:
    cells = found.of(task, variant)
    values = np.array([cell.value for cell in cells if cell.status == "done"])
    low, high = interval(values)
    return {
        "task": task,
        "variant": variant,
        "n": len(values),
        **_counts(cells),
        "n_planned": len(cells),
        "iqm": number(iqm(values)),
        "low": number(low),
        "high": number(high),
        "best": marks.get(variant) == "best",
        "tied": marks.get(variant) == "tied",
    }


def _counts(cells: list[Cell]) -> dict[str, Any]:
    return {
        f"n_{status}": sum(cell.status == status for cell in cells)
        for status in ("failed", "empty", "missing")
    }


def _best(found: Scores, task: str, variants: tuple[str, ...]) -> dict[str, str]:
    """variant -> "best" or "tied". Ties: Holm over the paired comparisons with the best."""
    values = {v: list(found.by_seed(task, v).values()) for v in variants}
    present = {v: float(iqm(scores)) for v, scores in values.items() if scores}
    return _marks(found, [task], present)


def _marks(
    found: Scores, tasks: Sequence[str], present: Mapping[str, float], plan: Plan | None = None
) -> dict[str, str]:
    if len(present) < 2:
        return {}
    best = max(present, key=lambda v: present[v])
    others = [v for v in present if v != best]
    pairings = [_pairing(found, tasks, v, best, None, plan) for v in others]
    adjusted = holm(
        [
            np.nan if one is None or one.comparison.p is None else one.comparison.p
            for one in pairings
        ]
    )
    ties = {
        v: "tied"
        for v, p, one in zip(others, adjusted, pairings, strict=True)
        if not (p < LEVEL and one is not None and (one.comparison.difference or 0) < 0)
    }
    return {best: "best"} | ties


def _over_tasks(
    plan: Plan,
    found: Scores,
    order: tuple[str, ...],
    baselines: Mapping[str, str | None],
) -> list[Entry]:
    """One entry per variant: its normalised aggregate, and the mean over tasks of difference /
    score unit, per seed."""
    tasks = list(plan.tasks)
    margin = plan.study["margin"]
    normalised = {variant: complete(plan, found, variant) for variant in order}
    present = {v: aggregate(scores) for v, scores in normalised.items() if scores is not None}
    present = {v: value for v, value in present.items() if not np.isnan(value)}
    marks = _marks(found, tasks, present, plan)
    family = [
        _pairing(found, tasks, variant, baselines[variant], margin, plan) for variant in order
    ]
    entries = []
    for variant, judgement in zip(order, _judged(family, True), strict=True):
        cells = [cell for task in tasks for cell in found.of(task, variant)]
        both = set.intersection(*(set(found.by_seed(task, variant)) for task in tasks))
        low, high = np.nan, np.nan
        if variant in present:
            low, high = aggregate_interval(normalised[variant] or [])
        entries.append(
            Entry(
                task=ALL_TASKS,
                variant=variant,
                baseline=baselines[variant],
                n=len(both),
                **_counts(cells),
                n_planned=len({cell.seed for cell in cells}),
                iqm=present.get(variant),
                low=number(low),
                high=number(high),
                best=marks.get(variant) == "best",
                tied=marks.get(variant) == "tied",
                **({"margin": margin} | judgement),
            )
        )
    return entries


def _judged(family: Sequence[_Pairing | None], judged: bool) -> list[dict[str, Any]]:
    """The statistical fields of each entry of one Holm family; {} for what is not compared."""
    p_values = [
        np.nan if one is None or one.comparison.p is None else one.comparison.p for one in family
    ]
    made = int(np.sum(~np.isnan(p_values)))
    judgements: list[dict[str, Any]] = []
    for pairing, adjusted in zip(family, holm(p_values), strict=True):
        if pairing is None:
            judgements.append({})
            continue
        comparison = pairing.comparison
        p_holm = number(adjusted)
        said = _said(pairing, p_holm, judged)
        low, high = np.nan, np.nan
        if comparison.n > 1:
            _, low, high = probability_of_improvement(pairing.ours, pairing.theirs)
        judgements.append(
            {
                "n_pairs": comparison.n,
                "difference": comparison.difference,
                "difference_low": comparison.low,
                "difference_high": comparison.high,
                "deviation": comparison.deviation,
                "p": comparison.p,
                "p_holm": p_holm,
                "wilcoxon_p": comparison.wilcoxon_p,
                "p_equivalent": comparison.p_equivalent,
                "probability_of_improvement": _improvement(pairing),
                "improvement_low": number(low),
                "improvement_high": number(high),
                "verdict": said,
                "seeds_to_decide": seeds_to_decide(comparison, pairing.margin, made)
                if said == "undecided"
                else None,
            }
        )
    return judgements


def _improvement(pairing: _Pairing) -> float | None:
    """Mean over tasks, which of one task is the comparison's own."""
    if not pairing.comparison.n:
        return None
    wins = [
        compare(a, b).probability_of_improvement or 0.0
        for a, b in zip(pairing.ours, pairing.theirs, strict=True)
    ]
    return float(np.mean(wins))


def _said(pairing: _Pairing, p_holm: float | None, judged: bool) -> str:
    if pairing.comparison.n < 2:
        return ("no pairs", "one seed")[pairing.comparison.n]
    said = verdict(pairing.comparison, p_holm)
    if not judged:
        return {"better": "higher", "worse": "lower"}.get(said, said)
    if pairing.more_failures > 0 and said in ("better", "equivalent"):
        return "unstable"
    if pairing.more_failures < 0 and said in ("worse", "equivalent"):
        return "unstable baseline"
    return said

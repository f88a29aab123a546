"""Tables beside the comparison: factorial effects, sample efficiency, seeds needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.digits import decimals, p_text
from ablations.report.scores import Scores, auc, scores
from ablations.report.sheets import Sheet
from ablations.report.statistics import (
    Design,
    design,
    effects,
    holm,
    interval,
    iqm,
    median_steps,
    seeds_for_effect,
    steps_to_threshold,
    verdict,
)
from ablations.report.tables import ALL_TASKS, Table, is_score, margin_of, over_tasks, table

SHARE_OF_THE_WAY = 0.75
EFFECTS_IN_MARGINS = (1, 2, 4)


def sheet(kind: str, plan: Plan, results: Path, *, metric: str | None = None) -> Sheet:
    """ "effects", "efficiency" or "power". Raises UserError where a study has none of that kind."""
    if kind not in KINDS:
        raise unknown("table", kind, ["comparison", *KINDS])
    found = scores(plan, results, metric=metric)
    made = KINDS[kind](plan, results, found)
    if made is None:
        raise UserError(f"study '{plan.study['name']}' {_ABSENT[kind]}")
    return made


_ABSENT = {
    "effects": "is no factorial: its variants are not every combination of two or more settings",
    "efficiency": "has no finished run",
    "power": "compares nothing yet, or its metric has no margin",
}


# Factorial effects


def factorial(plan: Plan) -> Design | None:
    """The factorial that the variants of a plan form, with what they leave out at its default."""
    names = {name for about in plan.variants.values() for name in about["sets"]}
    filled: dict[str, dict[str, Any]] = {}
    for variant, about in plan.variants.items():
        config = next(c["config"] for c in plan.cells if c["variant"] == variant)
        defaults = {
            **{axis: one["name"] for axis, one in config.get("choices", {}).items()},
            **config.get("numbers", {}),
            **config.get("structure", {}),
        }
        known = {**{n: defaults[n] for n in names if n in defaults}, **about["sets"]}
        filled[variant] = {name: known[name] for name in sorted(known)}
    return design(filled, plan.study["baseline"])


def effects_sheet(plan: Plan, results: Path, found: Scores) -> Sheet | None:
    """Main effects and two-way interactions per task, and over tasks in score units."""
    found_design = factorial(plan)
    if found_design is None:
        return None
    judged = is_score(plan, found.metric)
    baseline = next(iter(found_design.variants))
    places = list(plan.tasks)
    if judged and over_tasks(plan):
        places.append(ALL_TASKS)
    contrasts = []
    for place in places:
        tasks = list(plan.tasks) if place == ALL_TASKS else [place]
        # Where variants differ in the length of their episodes, returns say nothing by themselves.
        scaled = place == ALL_TASKS or bool(plan.tasks[place].get("score_units"))
        margin = None
        if judged:
            margin = plan.study["margin"] if scaled else margin_of(plan, place, baseline)
        y = _factorial_scores(found, found_design, tasks, plan if scaled else None)
        contrasts += [(place, one) for one in effects(y, found_design, margin)]
    p = np.array([np.nan if c.comparison.p is None else c.comparison.p for _, c in contrasts])
    aggregate = np.array([place == ALL_TASKS for place, _ in contrasts])
    adjusted = np.full(len(p), np.nan)
    for family in (aggregate, ~aggregate):
        adjusted[family] = holm(p[family])
    rows: list[tuple[Any, ...]] = []
    shown: list[tuple[str, ...]] = []
    for (place, effect), p_holm in zip(contrasts, adjusted, strict=True):
        c = effect.comparison
        said = "too few seeds"
        if c.n > 1:
            said = verdict(c, None if np.isnan(p_holm) else float(p_holm))
            if not judged or len(effect.factors) > 1:
                # An interaction has no good direction: it says where a main effect does not hold.
                said = {"better": "higher", "worse": "lower"}.get(said, said)
        names = " \u00d7 ".join(effect.factors)
        levels = " \u00d7 ".join(effect.levels)
        kind = "interaction" if len(effect.factors) > 1 else "main"
        rows.append(
            (
                place,
                kind,
                names,
                levels,
                c.n,
                c.difference,
                c.low,
                c.high,
                c.p,
                _number(p_holm),
                said,
            )
        )
        shown.append(
            (
                place,
                names,
                levels,
                *_estimate(c.difference, c.low, c.high, "+"),
                p_text(_number(p_holm)),
                said,
                str(c.n),
            )
        )
    reference = ", ".join(f"{name} = {levels[0]}" for name, levels in found_design.factors.items())
    return Sheet(
        plan.study["name"],
        "effects",
        f"Effects of what the variants set. Main: mean change of {found.metric} against the "
        f"reference ({reference}), over all levels of the others. Interaction: what two changes do "
        "together beyond the sum of each alone. Paired by seed; 95% t interval; p Holm-adjusted "
        "over all effects. All tasks, and a task on which episodes differ in length: in score "
        "units.",
        ("task", "kind", "factor", "level", "n", "effect", "low", "high", "p", "p_holm", "verdict"),
        tuple(rows),
        ("task", "factor", "level", "effect", "[95%]", "p (Holm)", "verdict", "seeds"),
        tuple(shown),
    )


def _factorial_scores(
    found: Scores, factorial: Design, tasks: Sequence[str], plan: Plan | None
) -> np.ndarray:
    """`[n, *levels]`, over the seeds that every variant has on every task; with a plan, in score
    units."""
    by_seed = {(v, t): found.by_seed(t, v) for v in factorial.variants for t in tasks}
    seeds = sorted(set.intersection(*(set(one) for one in by_seed.values())))
    y = np.empty((len(seeds), *factorial.shape))
    for variant, place in factorial.variants.items():
        parts = [
            np.array([by_seed[variant, task][seed] for seed in seeds])
            / ((plan.score_unit(task, variant) if plan else None) or 1.0)
            for task in tasks
        ]
        where: tuple[Any, ...] = (slice(None), *place)
        y[where] = np.mean(parts, axis=0)
    return y


# Sample efficiency


def efficiency_sheet(plan: Plan, results: Path, found: Scores) -> Sheet | None:
    """Area under the curve, and steps until a run is 3/4 of the way that the baseline goes."""
    rows: list[tuple[Any, ...]] = []
    shown: list[tuple[str, ...]] = []
    for task in plan.tasks:
        threshold = _threshold(plan, found, task)
        for variant in plan.variants:
            cells = found.of(task, variant)
            areas = np.array([auc(c.steps, c.values) for c in cells if c.status == "done"])
            center, (low, high) = _number(iqm(areas)), map(_number, interval(areas))
            values = (task, variant, len(areas), center, low, high)
            text = (task, variant, *_estimate(center, low, high))
            if threshold is None:
                rows.append((*values, None, None, None, None, None))
                shown.append((*text, "", "", "", str(len(areas))))
                continue
            # A run that failed never gets there.
            reached = median_steps(
                [
                    steps_to_threshold(c.steps, c.values, threshold)
                    if c.status == "done"
                    else math.inf
                    for c in cells
                    if c.status in ("done", "failed")
                ]
            )
            steps = [_finite(v) for v in (reached.median, reached.low, reached.high)]
            rows.append((*values, threshold, *steps, reached.reached))
            shown.append(
                (
                    *text,
                    *_steps_text(reached.median, reached.low, reached.high),
                    f"{reached.reached} of {reached.n}",
                    str(len(areas)),
                )
            )
    if not any(row[2] for row in rows):
        return None
    return Sheet(
        plan.study["name"],
        "efficiency",
        f"Sample efficiency. AUC: IQM over seeds of the mean {found.metric} over training, 95% "
        "interval. Steps: environment steps until a run first reaches a threshold, median over "
        "seeds and its 95% interval (order statistics); a failed run never reaches it. The "
        f"threshold is {100 * SHARE_OF_THE_WAY:g}% of the way from where the baseline's curve "
        "starts to where it ends.",
        (
            "task",
            "variant",
            "n",
            "auc",
            "auc_low",
            "auc_high",
            "threshold",
            "steps",
            "steps_low",
            "steps_high",
            "reached",
        ),
        tuple(rows),
        ("task", "variant", "AUC", "[95%]", "steps", "[95%]", "reached", "seeds"),
        tuple(shown),
    )


def _threshold(plan: Plan, found: Scores, task: str) -> float | None:
    """Three quarters of the way from the baseline's first value to its score; None where that is
    not upwards."""
    name = plan.study["baseline"]
    baseline = name if name in plan.variants else next(iter(plan.variants))
    cells = [cell for cell in found.of(task, baseline) if cell.status == "done"]
    firsts = [cell.values[~np.isnan(cell.values)][0] for cell in cells]
    if not cells:
        return None
    start, end = float(iqm(firsts)), float(iqm([cell.value for cell in cells]))
    return start + SHARE_OF_THE_WAY * (end - start) if end > start else None


def _steps_text(median: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    def one(value: float | None) -> str:
        return "" if value is None else "never" if math.isinf(value) else f"{value:,.0f}"

    inside = "" if low is None or high is None else f"[{one(low)}, {one(high)}]"
    return one(median), inside


# Power


def power_sheet(plan: Plan, results: Path, found: Scores) -> Sheet | None:
    """Seeds at which the comparisons of a study decide, from the variance seen."""
    made: Table = table(plan, results, metric=found.metric)
    compared = [row for row in made.rows if row.deviation and row.margin]
    if not compared:
        return None
    rows: list[tuple[Any, ...]] = []
    shown: list[tuple[str, ...]] = []
    for row in compared:
        assert row.deviation is not None
        assert row.margin is not None
        family = sum(one.task == ALL_TASKS for one in compared)
        if row.task != ALL_TASKS:
            family = len(compared) - family
        same = seeds_for_effect(0.0, row.deviation, row.margin, family)
        seeds = [
            seeds_for_effect(k * row.margin, row.deviation, None, family)
            for k in EFFECTS_IN_MARGINS
        ]
        rows.append((row.task, row.variant, row.n_pairs, row.deviation, row.margin, same, *seeds))
        places = decimals(row.margin, 0, row.margin)
        shown.append(
            (
                row.task,
                row.variant,
                f"{row.deviation:.{places}f}",
                f"{row.margin:.{places}f}",
                *tuple("> 10,000" if n is None else f"{n:,}" for n in (same, *seeds)),
                str(row.n_pairs),
            )
        )
    effects_shown = tuple("margin" if k == 1 else f"{k} margins" for k in EFFECTS_IN_MARGINS)
    return Sheet(
        plan.study["name"],
        "power",
        "Seeds needed, from the standard deviation of the paired differences seen here: to call "
        "variants equivalent that do not differ at all, and to find a difference of one, two or "
        "four margins, each with 80% chance (paired t-test, Bonferroni over the study's "
        "comparisons, which is the strictest that Holm asks).",
        (
            "task",
            "variant",
            "n_pairs",
            "deviation",
            "margin",
            "seeds_equivalent",
            *tuple(f"seeds_{k}_margins" for k in EFFECTS_IN_MARGINS),
        ),
        tuple(rows),
        ("task", "variant", "sd", "margin", "no difference", *effects_shown, "seeds now"),
        tuple(shown),
    )


KINDS: Mapping[str, Callable[[Plan, Path, Scores], Sheet | None]] = {
    "effects": effects_sheet,
    "efficiency": efficiency_sheet,
    "power": power_sheet,
}


def _estimate(
    value: float | None, low: float | None, high: float | None, sign: str = ""
) -> tuple[str, str]:
    if value is None:
        return "", ""
    places = decimals(value, low, high)
    if low is None or high is None:
        return f"{value:{sign}.{places}f}", ""
    return f"{value:{sign}.{places}f}", f"[{low:{sign}.{places}f}, {high:{sign}.{places}f}]"


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value

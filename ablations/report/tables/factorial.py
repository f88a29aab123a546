"""Effects of a factorial study: what each setting does, and what two do together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ablations.records import Plan
from ablations.report.scores import Scores, is_score
from ablations.report.statistics import Design, design, effects, holm, verdict
from ablations.report.tables.comparison import margin_of, over_tasks
from ablations.report.tables.entries import ALL_TASKS, Sheet, Shown, number


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
        estimate = (c.n, c.difference, c.low, c.high, c.p, number(p_holm))
        rows.append((place, kind, names, levels, *estimate, said))
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
        (
            Shown("task", "text", ("task",)),
            Shown("factor", "text", ("factor",)),
            Shown("level", "text", ("level",)),
            Shown("effect", "estimate", ("effect", "low", "high"), "+"),
            Shown("[95%]", "interval", ("effect", "low", "high"), "+"),
            Shown("p (Holm)", "p", ("p_holm",)),
            Shown("verdict", "text", ("verdict",)),
            Shown("seeds", "count", ("n",)),
        ),
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

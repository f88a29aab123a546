"""Effects of a factorial study: what each setting does, and what two do together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ablations.core.plan import Settings
from ablations.core.record import settings_read
from ablations.core.verdict import Verdict
from ablations.distributions import fisher_p
from ablations.records import Plan
from ablations.report.results import Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import LEVEL, Design, Effect, design, effects, verdict
from ablations.report.tables.entries import ALL_TASKS, Column, Sheet, Values, bounded, text_columns
from ablations.report.tables.pairings import Finding, last_look, over_tasks
from ablations.report.units import Learned, Units, settings_of, units_of_score

COLUMNS = (
    *("task", "kind", "factor", "level"),
    *("n", "effect", "low", "high", "p", "p_adjusted", "verdict"),
)


def settings(plan: Plan) -> dict[str, Settings]:
    """Return the value of each setting that some variant sets, by variant.

    Of what one leaves out it is the default, where its trainer reads it.
    """
    names = {name for about in plan.variants.values() for name in about.sets}
    configs = {cell.variant: cell.config for cell in reversed(plan.cells)}
    filled: dict[str, Settings] = {}
    for variant, about in plan.variants.items():
        defaults = {**settings_read(configs.get(variant, {})), **(about.neutral or {})}
        known = {**{n: defaults[n] for n in names if n in defaults}, **about.sets}
        filled[variant] = {name: known[name] for name in sorted(known)}
    return filled


def factorial(plan: Plan) -> Design | None:
    """Find the factorial that the variants form, with what they leave out at its default."""
    return design(settings(plan), plan.study.baseline)


def full_sheet(results: Results, found_design: Design, metric: str | None = None) -> Sheet:
    """List main effects and two-way interactions per task, and over tasks in what was learned."""
    plan = results.plan
    scored, learned = scores(results, metric=metric), units_of_score(results, metric)
    rows: list[Values] = []
    by_effect: dict[tuple[tuple[str, ...], ...], list[Finding]] = {}
    for place, seen, effect in _contrasts(plan, found_design, scored, learned):
        c = effect.comparison
        tasks = list(plan.tasks) if place == ALL_TASKS else [place]
        word = _word(effect, effect.margin, seen, found_design, tasks)
        each = by_effect.setdefault((effect.factors, effect.levels), [])
        if place == ALL_TASKS:
            sign_alone = _word(effect, None, seen, found_design, tasks)
            word = over_tasks(Finding.of(word, c), sign_alone, each)
        else:
            each.append(Finding.of(word, c))
        if not learned.judged or len(effect.factors) > 1:
            # An interaction has no good direction: it says where a main effect does not hold.
            word = word.undirected
        names = " \u00d7 ".join(effect.factors)
        levels = " \u00d7 ".join(effect.levels)
        kind = "interaction" if len(effect.factors) > 1 else "main"
        rows.append((place, kind, names, levels, c.n, *c.bounds, c.p, c.p_adjusted, word))
    reference = ", ".join(f"{name} = {levels[0]}" for name, levels in found_design.factors.items())
    return Sheet(
        plan.study.name,
        "effects",
        f"Effects of what the variants set. Main: mean change of "
        f"{scored.metric} against the reference, over all levels of the others. Interaction: what "
        "two changes do together beyond the sum of each alone. Reference: "
        f"{reference}. Paired by seed, on seeds that every variant has; "
        "the t intervals hold for all effects of this table at once with 95% (Bonferroni"
        f"{', and for all planned looks at once' if plan.looks else ''}), p is adjusted alike, "
        "and the words mean what they do in the comparison. unstable: more runs "
        "failed at the level than at the reference, or so many that no seed is whole. All tasks, "
        "and a task whose settings differ between variants: in what was learned.",
        COLUMNS,
        tuple(rows),
        (
            *text_columns("task", "factor", "level"),
            *bounded("effect", "effect", ("low", "high"), sign="+"),
            Column("p (adj.)", "p", ("p_adjusted",)),
            Column("verdict", "text", ("verdict",)),
            Column("seeds", "count", ("n",)),
        ),
    )


def _contrasts(
    plan: Plan, factorial: Design, scored: Scores, learned: Units
) -> Iterator[tuple[str, Scores, Effect]]:
    """Yield each effect with its place and the scores that it rests on."""
    grounds = list(grounds_of(plan, factorial, learned))
    per_place = len(effects(np.zeros((0, len(factorial.variants))), factorial))
    family = LEVEL / (2 if grounds and grounds[-1].place == ALL_TASKS else 1)
    for place, tasks, sizes, unit in grounds:
        places = 1 if place == ALL_TASKS else len(plan.tasks)
        level = family / (places * per_place)
        seen, level = last_look(plan, scored, tasks, list(factorial.variants), level)
        y = factorial_scores(seen, factorial, tasks, sizes)
        margin = None if unit is None else plan.study.margin * unit
        yield from ((place, seen, effect) for effect in effects(y, factorial, margin, level))


def _word(
    effect: Effect,
    margin: float | None,
    scored: Scores,
    factorial: Design,
    tasks: Sequence[str],
) -> Verdict:
    """Return the verdict on an effect on a task, or on its mean over tasks by itself."""
    if identical_effect(scored, factorial, effect, tasks):
        return Verdict.IDENTICAL
    c = effect.comparison
    word = verdict(c, margin) if c.n > 1 else Verdict.TOO_FEW_SEEDS
    return guarded_effect(word, scored, factorial, effect, tasks)


class Ground(NamedTuple):
    """The tasks and units that effects rest on.

    place: the task, or "all tasks". sizes: (task, variant) -> the unit that scores are divided by;
    {} where they stay in the metric's. unit: of the effects, in theirs; None without one.
    """

    place: str
    tasks: list[str]
    sizes: Mapping[tuple[str, str], float]
    unit: float | None


def grounds_of(plan: Plan, factorial: Design, learned: Units) -> Iterator[Ground]:
    """Yield the ground of each task that can be judged, then that of all tasks with a unit.

    Variants of several settings, and tasks, are only comparable in a unit of their own each.
    """
    sizes = _sizes(plan, factorial, learned)
    variants = list(factorial.variants)
    pooled = [task for task in plan.tasks if all((task, v) in sizes for v in variants)]
    for task in plan.tasks:
        if len({settings_of(plan, task, variant) for variant in variants}) == 1:
            yield Ground(task, [task], {}, sizes.get((task, variants[0])))
        elif task in pooled:
            yield Ground(task, [task], sizes, 1.0)
    if len(pooled) > 1:
        yield Ground(ALL_TASKS, pooled, sizes, 1.0)


def _sizes(plan: Plan, factorial: Design, learned: Units) -> dict[tuple[str, str], float]:
    """Map (task, variant) to what the first variant with the same task settings is measured by."""
    sizes: dict[tuple[str, str], float] = {}
    for task in plan.tasks:
        first: dict[str, Learned | None] = {}
        for variant in factorial.variants:
            unit = first.setdefault(settings_of(plan, task, variant), learned.of(task, variant))
            if unit is not None:
                sizes[task, variant] = unit.size
    return sizes


def factorial_scores(
    scored: Scores,
    factorial: Design,
    tasks: Sequence[str],
    sizes: Mapping[tuple[str, str], float],
) -> np.ndarray:
    """Return the scores `[tasks, n, variants]` of a factorial.

    Over the seeds that every variant has on every task, per unit where given.
    """
    return scored.on_common_seeds(tasks, list(factorial.variants), sizes).transpose(0, 2, 1)


def _pairs(factorial: Design, effect: Effect) -> list[tuple[str, str]]:
    """Return the variants whose differences an effect of a full factorial is made of.

    With a level, and at the reference; of an interaction's first factor, at the level and at the
    reference of its second.
    """
    names = list(factorial.factors)
    at = {place: variant for variant, place in factorial.variants.items()}
    first = names.index(effect.factors[0])
    level = factorial.factors[effect.factors[0]].index(effect.levels[0])
    other = None
    if len(effect.factors) > 1:
        levels = factorial.factors[effect.factors[1]]
        other = (names.index(effect.factors[1]), (0, levels.index(effect.levels[1])))
    return [
        (variant, at[(*place[:first], 0, *place[first + 1 :])])
        for place, variant in at.items()
        if place[first] == level and (other is None or place[other[0]] in other[1])
    ]


def identical_effect(
    scored: Scores, factorial: Design, effect: Effect, tasks: Sequence[str]
) -> bool:
    """Return whether one of an effect's factors changes no bit, so that the effect is exactly 0.

    Of a fraction that cannot be seen where a variant has none that differs in this alone.
    """
    turned = replace(effect, factors=effect.factors[::-1], levels=effect.levels[::-1])
    return factorial.full and any(
        all(scored.identical(tasks, a, b) for a, b in _pairs(factorial, contrast))
        for contrast in (effect, turned)
    )


def guarded_effect(
    word: Verdict, scored: Scores, factorial: Design, effect: Effect, tasks: Sequence[str]
) -> Verdict:
    """Return a verdict in view of failures on the two sides of an effect.

    In a fraction every run is on a side of every effect, so that one alone is no sign: the sides
    must differ by Fisher's exact test at 5%.
    """
    failures = {variant: scored.failures(tasks, variant) for variant in factorial.variants}
    if effect.comparison.n < 2:
        return Verdict.UNSTABLE if any(failures.values()) else word
    if len(effect.factors) > 1:
        more = [failures[a] - failures[b] for a, b in _pairs(factorial, effect)]
        return Verdict.UNSTABLE if any(more) and word is not Verdict.UNDECIDED else word
    (name,), (level,) = effect.factors, effect.levels
    factor = list(factorial.factors).index(name)
    at: dict[int, list[int]] = {}  # the failures of each variant at a level
    for variant, place in factorial.variants.items():
        at.setdefault(place[factor], []).append(failures[variant])
    there, here = at[0], at[factorial.factors[name].index(level)]
    if not factorial.full:
        runs = sum(len(scored.of(task, next(iter(factorial.variants)))) for task in tasks)
        trials = (runs * len(there), runs * len(here))
        if fisher_p((sum(there), sum(here)), trials) >= LEVEL:
            return word
    guarded = word.guarded(sum(here) - sum(there))
    return Verdict.UNSTABLE_REFERENCE if guarded is Verdict.UNSTABLE_BASELINE else guarded

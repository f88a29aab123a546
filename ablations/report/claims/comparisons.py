"""Each statistic of a claim: its comparisons on every task, from the records.

The comparisons of one claim are a family: their intervals hold at once with 95%. What some seed has
not run yet is not judged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ablations.core.verdict import Verdict
from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.claims.entries import Claim
from ablations.report.claims.found import (
    Part,
    ended_of,
    learned_by,
    part_of,
    sides,
    word_of,
)
from ablations.report.results import Results
from ablations.report.scores import Scores, baseline_of, scores
from ablations.report.statistics import (
    Effect,
    compare_lost,
    compare_spreads,
    effects,
    judge,
    rounding_of,
    verdict,
)
from ablations.report.tables.entries import ALL_TASKS
from ablations.report.tables.factorial import (
    factorial,
    factorial_scores,
    guarded_effect,
    identical_effect,
)
from ablations.report.tables.pairings import Family, verdict_of
from ablations.report.units import Learned, Units

Found = tuple[list[Part], list[str]]  # comparisons, and more numbers in words


def _differences(claim: Claim, results: Results, level: float) -> Found:
    return _compared(claim, results, claim.metric, _pairs(claim), level), []


def _compared(
    claim: Claim,
    results: Results,
    metric: str,
    pairs: Sequence[tuple[str, str]],
    level: float,
) -> list[Part]:
    """Judge differences of means as tables do, in a family of their own."""
    runs = scores(results, metric=metric)
    plan = replace(results.plan, study=replace(results.plan.study, margin=claim.margin))
    by_source = {
        (task, versus): learned_by(claim, results, task, versus)
        for task in claim.tasks
        for _, versus in pairs
    }

    def judged(task: str, variant: str, versus: str, ended: int) -> Part:
        units = Units(by_source, {variant: versus, versus: versus})
        family = Family(plan, runs, units, over=False)
        (pairing,) = family.pairings([([task], variant, versus)], level)
        both = sides(pairing.ours[0], pairing.theirs[0]) if pairing.ours else ()
        if pairing.identical:
            return Part(
                task, "", Verdict.IDENTICAL, ended, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, sides=both
            )
        if not plan.looks:
            pairing = replace(pairing, level=level / (len(claim.tasks) * len(pairs)))
        difference = pairing.compare()
        word = verdict_of(difference, pairing, True)
        return replace(part_of(task, word, difference, pairing.margin), sides=both)

    return _each(claim, plan, [runs], pairs, judged, labelled=len(pairs) > 1)


def _each(
    claim: Claim,
    plan: Plan,
    metrics: Sequence[Scores],
    pairs: Sequence[tuple[str, str]],
    judged: Callable[[str, str, str, int], Part],
    *,
    labelled: bool,
) -> list[Part]:
    """Judge each pair on each task, unless some seed has not run yet.

    metrics: the scores that must be there. judged: (task, variant, versus, seeds that ended) -> a
    comparison. labelled: by its variant.
    """
    parts = []
    for task, (variant, versus) in itertools.product(claim.tasks, pairs):
        counts = [ended_of(plan, runs, task, (variant, versus)) for runs in metrics]
        ended, planned = min(ended for ended, _ in counts), counts[0][1]
        part = Part(task, "", Verdict.NOT_RUN_YET, ended)
        if ended >= planned:
            part = judged(task, variant, versus, ended)
        parts.append(replace(part, label=variant if labelled else "", planned=planned))
    return parts


def _spreads(claim: Claim, results: Results, level: float) -> Found:
    runs, pairs = scores(results, metric=claim.metric), _pairs(claim)
    share, margin = level / (len(claim.tasks) * len(pairs)), math.log(claim.margin)

    def judged(task: str, variant: str, versus: str, ended: int) -> Part:
        ours, theirs = runs.on_common_seeds([task], (variant, versus))[0]
        more_failures = runs.failures([task], variant) - runs.failures([task], versus)
        compared = compare_spreads(ours, theirs, share)
        word = word_of(compared, margin)
        if more_failures and word is not Verdict.UNDECIDED:
            word = Verdict.EQUIVALENT.guarded(more_failures)
        part = part_of(task, word, compared, margin)
        value, low, high = map(_ratio, (part.value, part.low, part.high))
        return replace(part, value=value, low=low, high=high, sides=sides(ours, theirs))

    return _each(claim, results.plan, [runs], pairs, judged, labelled=len(pairs) > 1), []


def _ratio(logarithm: float | None) -> float | None:
    """Return a ratio from its logarithm.

    None for one that is no float, as of a spread that is many orders smaller.
    """
    inside = logarithm is not None and abs(logarithm) < _MOST_LOG
    return math.exp(logarithm) if logarithm is not None and inside else None


_MOST_LOG = 700.0


def _robustness(claim: Claim, results: Results, level: float) -> Found:
    plan, runs = results.plan, scores(results, metric=claim.metric)
    lines = (claim.variant, claim.versus)
    counts = [ended_of(plan, runs, task, [*claim.variant, *claim.versus]) for task in claim.tasks]
    ended, planned = min(ended for ended, _ in counts), max(planned for _, planned in counts)
    if ended < planned:
        return [Part(ALL_TASKS, "", Verdict.NOT_RUN_YET, ended, planned)], []
    middle = claim.versus[len(claim.versus) // 2]
    units = [unit for task in claim.tasks if (unit := learned_by(claim, results, task, middle))]
    if len(units) < len(claim.tasks):
        return [Part(ALL_TASKS, "", Verdict.NOTHING_LEARNED, ended, planned)], []

    def shares(task: str, unit: Learned, variant: str) -> list[float]:
        # A failed run counts as one that learned nothing.
        by_seed = {cell.seed: 0.0 for cell in runs.of(task, variant)}
        for seed, score in runs.by_seed(task, variant).items():
            by_seed[seed] = (score - unit.low) / unit.size
        return [by_seed[seed] for seed in sorted(by_seed)]

    values = [
        np.array(
            [
                [shares(task, unit, variant) for variant in line]
                for task, unit in zip(claim.tasks, units, strict=True)
            ]
        )
        for line in lines
    ]
    compared = compare_lost(values[0], values[1], level)
    word = word_of(compared, claim.margin)
    part = part_of(ALL_TASKS, word, compared, claim.margin, planned=planned)
    best = [
        _best(claim.tasks, line, each.mean(axis=2))
        for line, each in zip(lines, values, strict=True)
    ]
    return [part], ["; ".join(best)]


def _best(tasks: Sequence[str], line: Sequence[str], means: np.ndarray) -> str:
    """Write at which rates a line is best; means `[tasks, rates]`."""
    rates = [variant.rpartition("@")[2] for variant in line]
    best = ", ".join(
        f"{rates[int(k)]} on {task}" for task, k in zip(tasks, means.argmax(axis=1), strict=True)
    )
    common = rates[int(means.mean(axis=0).argmax())]
    return f"{line[0].rpartition('@')[0]} is best at {best}, and for all at once at {common}"


def _main_effects(claim: Claim, results: Results, level: float) -> Found:
    parts = _contrasts(claim, results, level, 1)
    design = factorial(results.plan)
    if design is None or design.full or not all(part.ran for part in parts):
        return parts, []
    counts = (
        sum(learned_by(claim, results, task, name) is not None for name in design.variants)
        for task in claim.tasks
    )
    each = ", ".join(f"{n} on {task}" for n, task in zip(counts, claim.tasks, strict=True))
    return parts, [f"of the {len(design.variants)} settings this many learned anything: {each}"]


def _interactions(claim: Claim, results: Results, level: float) -> Found:
    return _contrasts(claim, results, level, 2), []


def _contrasts(claim: Claim, results: Results, level: float, factors: int) -> list[Part]:
    """Judge the main effects of the claim's factor, or all interactions of two factors."""
    plan, runs = results.plan, scores(results, metric=claim.metric)
    design = factorial(plan)
    if design is None:
        raise UserError(f"claim '{claim.id}': the variants of '{claim.study}' are no factorial")
    if claim.factor and claim.factor not in design.factors:
        raise unknown(f"factor of claim '{claim.id}'", claim.factor, design.factors)

    def wanted(y: np.ndarray, margin: float | None = None, share: float = level) -> list[Effect]:
        return [
            effect
            for effect in effects(y, design, margin, share)
            if len(effect.factors) == factors and (factors > 1 or claim.factor in effect.factors)
        ]

    count = len(wanted(np.zeros((0, len(design.variants)))))
    if not count:
        raise UserError(
            f"claim '{claim.id}': '{claim.study}' is a fraction of a factorial, whose interactions "
            f"cannot be told apart"
        )
    parts = []
    for task in claim.tasks:
        ended, planned = ended_of(plan, runs, task, list(design.variants))
        unit = learned_by(claim, results, task, plan.study.baseline)
        margin = None if unit is None else claim.margin * unit.size
        y = factorial_scores(runs, design, [task], {})
        for effect in wanted(y, margin, level / (len(claim.tasks) * count)):
            label = " \u00d7 ".join(map(_level, effect.factors, effect.levels))
            if ended < planned:
                parts.append(Part(task, label, Verdict.NOT_RUN_YET, ended, planned))
                continue
            word = verdict(effect.comparison, margin)
            word = guarded_effect(word, runs, design, effect, [task])
            if identical_effect(runs, design, effect, [task]):
                word = Verdict.IDENTICAL
            elif factors > 1:
                word = word.undirected
            part = part_of(task, word, effect.comparison, margin, label=label, planned=planned)
            parts.append(part)
    return parts


def _level(factor: str, level: str) -> str:
    """Name a level: "a=1", or "a=1, b=2" of a factor of two settings."""
    names, values = factor.split(", "), level.split(", ")
    if len(names) != len(values):
        return f"{factor}={level}"
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))


def _agreement(claim: Claim, results: Results, level: float) -> Found:
    """Judge, for each variant, the difference by one metric minus that by the other."""
    plan = results.plan
    both = [scores(results, metric=metric) for metric in (claim.metric, claim.against)]
    pairs = [(v, versus) for v in plan.variants if (versus := baseline_of(plan, v)) is not None]
    if not pairs:
        raise UserError(f"claim '{claim.id}': the variants of '{claim.study}' compare nothing")
    share = level / (len(claim.tasks) * len(pairs))

    def judged(task: str, variant: str, versus: str, ended: int) -> Part:
        unit = learned_by(claim, results, task, versus)
        if unit is None:
            return Part(task, "", Verdict.NOTHING_LEARNED, ended)
        by_seed = [[runs.by_seed(task, name) for name in (variant, versus)] for runs in both]
        seeds = sorted(set.intersection(*(set(side) for pair in by_seed for side in pair)))
        values = [np.array([[a[s], b[s]] for s in seeds]).reshape(-1, 2) for a, b in by_seed]
        first, second = ((pair[:, 0] - pair[:, 1]) / unit.size for pair in values)
        rounding = rounding_of(*values) / unit.size
        compared = judge(first - second, claim.margin, rounding, share)
        word = word_of(compared, claim.margin)
        return part_of(task, word, compared, claim.margin)

    parts = _each(claim, plan, both, pairs, judged, labelled=True)
    if not all(part.ran for part in parts):
        return parts, []
    words = list(
        zip(
            *(
                [part.word for part in _compared(claim, results, metric, pairs, level)]
                for metric in (claim.metric, claim.against)
            ),
            strict=True,
        )
    )
    same = sum(first == second for first, second in words)
    opposite = sum({first.sign, second.sign} == {1, -1} for first, second in words)
    note = (
        f"by both metrics {same} of {len(words)} comparisons get the same word, and {opposite} "
        f"the opposite one"
    )
    by_task = {task: _rank_correlation(plan, task, both) for task in claim.tasks}
    ranks = [f"{rank:.2f} on {task}" for task, rank in by_task.items() if rank is not None]
    if ranks:
        note += f"; the variants' means have a rank correlation of {', '.join(ranks)}"
    return parts, [note]


def _rank_correlation(plan: Plan, task: str, both: Sequence[Scores]) -> float | None:
    """Return Spearman's, of the means of all variants; None where one has none."""
    ranks = []
    for runs in both:
        values = [list(runs.by_seed(task, variant).values()) for variant in plan.variants]
        if not all(values):
            return None
        ranks.append(np.argsort(np.argsort([np.mean(each) for each in values])))
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


Judge = Callable[[Claim, Results, float], Found]
JUDGES: Mapping[str, Judge] = {
    "difference": _differences,
    "spread": _spreads,
    "robustness": _robustness,
    "effect": _main_effects,
    "interaction": _interactions,
    "agreement": _agreement,
}


def _pairs(claim: Claim) -> list[tuple[str, str]]:
    return [(variant, claim.versus[0]) for variant in claim.variant]

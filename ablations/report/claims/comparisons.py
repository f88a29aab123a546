"""Each statistic of a claim: its comparisons on every task, from the records.

The comparisons of one claim are a family: their intervals hold at once with 95%. What some seed has
not run yet is not judged.
"""

from __future__ import annotations

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
    paired,
    part_of,
    sides,
    word_of,
)
from ablations.report.results import Results
from ablations.report.scores import Scores, baseline_of, scores
from ablations.report.statistics import (
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
from ablations.report.tables.pairings import Family, Pairing, said
from ablations.report.units import Learned, Units


def _differences(claim: Claim, results: Results, level: float) -> tuple[list[Part], list[str]]:
    return _compared(claim, results, claim.metric, _pairs(claim), level), []


def _compared(
    claim: Claim,
    results: Results,
    metric: str,
    pairs: Sequence[tuple[str, str]],
    level: float,
) -> list[Part]:
    """Differences of means, as tables judge them, in a family of their own."""
    found = scores(results, metric=metric)
    plan = replace(results.plan, study=replace(results.plan.study, margin=claim.margin))
    parts = []
    by_source: dict[tuple[str, str], Learned | None] = {}
    for task in claim.tasks:
        for _, versus in pairs:
            by_source[task, versus] = learned_by(claim, results, task, versus)
    for task in claim.tasks:
        for variant, versus in pairs:
            sources = {variant: versus, versus: versus}
            learned = Units(by_source, sources)
            family = Family(plan, found, learned, over=False)
            (pairing,) = family.pairings([([task], variant, versus)], level)
            if not plan.looks:
                pairing = replace(pairing, level=level / (len(claim.tasks) * len(pairs)))
            parts.append(_of_pairing(plan, found, pairing, _label(pairs, variant)))
    return parts


def _of_pairing(plan: Plan, found: Scores, pairing: Pairing, label: str) -> Part:
    (task,) = pairing.tasks
    assert pairing.baseline is not None
    ended, planned = ended_of(plan, found, task, (pairing.variant, pairing.baseline))
    if ended < planned:
        return Part(task, label, Verdict.NOT_RUN_YET, ended, planned)
    both = sides(pairing.ours[0], pairing.theirs[0]) if pairing.ours else ()
    if pairing.identical:
        same = Part(task, label, Verdict.IDENTICAL, ended, planned, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        return replace(same, sides=both)
    compared = pairing.compare()
    part = part_of(task, label, said(compared, pairing, True), compared, pairing.margin, planned)
    return replace(part, sides=both)


def _spreads(claim: Claim, results: Results, level: float) -> tuple[list[Part], list[str]]:
    plan, found = results.plan, scores(results, metric=claim.metric)
    pairs = _pairs(claim)
    parts = []
    for task in claim.tasks:
        for variant, versus in pairs:
            label = _label(pairs, variant)
            ended, planned = ended_of(plan, found, task, (variant, versus))
            if ended < planned:
                parts.append(Part(task, label, Verdict.NOT_RUN_YET, ended, planned))
                continue
            ours, theirs, more_failures = paired(found, task, variant, versus)
            share = level / (len(claim.tasks) * len(pairs))
            compared = compare_spreads(ours, theirs, share)
            margin = math.log(claim.margin)
            word = word_of(compared, margin)
            if more_failures and word is not Verdict.UNDECIDED:
                word = Verdict.EQUIVALENT.guarded(more_failures)
            part = part_of(task, label, word, compared, margin, planned)
            value, low, high = map(_ratio, (part.value, part.low, part.high))
            both = sides(ours, theirs)
            parts.append(replace(part, value=value, low=low, high=high, sides=both))
    return parts, []


def _ratio(logarithm: float | None) -> float | None:
    """Return a ratio from its logarithm.

    None for one that is no float, as of a spread that is many orders smaller.
    """
    inside = logarithm is not None and abs(logarithm) < _MOST_LOG
    return math.exp(logarithm) if logarithm is not None and inside else None


_MOST_LOG = 700.0


def _robustness(claim: Claim, results: Results, level: float) -> tuple[list[Part], list[str]]:
    plan, found = results.plan, scores(results, metric=claim.metric)
    lines = (claim.variant, claim.versus)
    counts = [ended_of(plan, found, task, [*claim.variant, *claim.versus]) for task in claim.tasks]
    ended, planned = min(one[0] for one in counts), max(one[1] for one in counts)
    if ended < planned:
        return [Part(ALL_TASKS, "", Verdict.NOT_RUN_YET, ended, planned)], []
    middle = claim.versus[len(claim.versus) // 2]
    learned = {task: learned_by(claim, results, task, middle) for task in claim.tasks}
    if None in learned.values():
        return [Part(ALL_TASKS, "", Verdict.NOTHING_LEARNED, ended, planned)], []
    values = []
    for line in lines:
        of_line = []
        for task, unit in learned.items():
            assert unit is not None
            of_task = []
            for variant in line:
                # A failed run counts as one that learned nothing.
                by_seed = {cell.seed: 0.0 for cell in found.of(task, variant)}
                for seed, score in found.by_seed(task, variant).items():
                    by_seed[seed] = (score - unit.low) / unit.size
                of_task.append([by_seed[seed] for seed in sorted(by_seed)])
            of_line.append(of_task)
        values.append(np.array(of_line))
    compared = compare_lost(values[0], values[1], level)
    word = word_of(compared, claim.margin)
    part = part_of(ALL_TASKS, "", word, compared, claim.margin, planned)
    means = [one.mean(axis=2) for one in values]
    told = [_best(claim.tasks, line, mean) for line, mean in zip(lines, means, strict=True)]
    return [part], ["; ".join(told)]


def _best(tasks: Sequence[str], line: Sequence[str], means: np.ndarray) -> str:
    best = ", ".join(
        f"{line[int(k)].rpartition('@')[2]} on {task}"
        for task, k in zip(tasks, means.argmax(axis=1), strict=True)
    )
    name = line[0].rpartition("@")[0]
    one = line[int(means.mean(axis=0).argmax())].rpartition("@")[2]
    return f"{name} is best at {best}, and for all at once at {one}"


def _main_effects(claim: Claim, results: Results, level: float) -> tuple[list[Part], list[str]]:
    parts = _contrasts(claim, results, level, 1)
    of = factorial(results.plan)
    if of is None or of.full or not all(part.ran for part in parts):
        return parts, []
    learned = [
        sum(learned_by(claim, results, task, one) is not None for one in of.variants)
        for task in claim.tasks
    ]
    told = ", ".join(f"{count} on {task}" for count, task in zip(learned, claim.tasks, strict=True))
    return parts, [f"of the {len(of.variants)} settings this many learned anything: {told}"]


def _interactions(claim: Claim, results: Results, level: float) -> tuple[list[Part], list[str]]:
    return _contrasts(claim, results, level, 2), []


def _contrasts(claim: Claim, results: Results, level: float, factors: int) -> list[Part]:
    """Judge the main effects of the claim's factor, or all interactions of two factors."""
    plan, found = results.plan, scores(results, metric=claim.metric)
    of = factorial(plan)
    if of is None:
        raise UserError(f"claim '{claim.id}': the variants of '{claim.study}' are no factorial")
    if claim.factor and claim.factor not in of.factors:
        raise unknown(f"factor of claim '{claim.id}'", claim.factor, of.factors)

    def is_asked(names: Sequence[str]) -> bool:
        return len(names) == factors and (factors > 1 or claim.factor in names)

    asked = [one for one in effects(np.zeros((0, len(of.variants))), of) if is_asked(one.factors)]
    if not asked:
        raise UserError(
            f"claim '{claim.id}': '{claim.study}' is a fraction of a factorial, whose interactions "
            f"cannot be told apart"
        )
    share = level / (len(claim.tasks) * len(asked))
    parts = []
    for task in claim.tasks:
        ended, planned = ended_of(plan, found, task, list(of.variants))
        unit = learned_by(claim, results, task, plan.study.baseline)
        margin = None if unit is None else claim.margin * unit.size
        y = factorial_scores(found, of, [task], {})
        for one in (x for x in effects(y, of, margin, share) if is_asked(x.factors)):
            label = " \u00d7 ".join(map(_level, one.factors, one.levels))
            if ended < planned:
                parts.append(Part(task, label, Verdict.NOT_RUN_YET, ended, planned))
                continue
            if identical_effect(found, of, one, [task]):
                word = Verdict.IDENTICAL
            else:
                word = guarded_effect(verdict(one.comparison, margin), found, of, one, [task])
                if factors > 1:
                    word = word.undirected
            parts.append(part_of(task, label, word, one.comparison, margin, planned))
    return parts


def _level(factor: str, level: str) -> str:
    """Name a level: "a=1", or "a=1, b=2" of a factor of two settings."""
    names, values = factor.split(", "), level.split(", ")
    if len(names) != len(values):
        return f"{factor}={level}"
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))


def _agreement(claim: Claim, results: Results, level: float) -> tuple[list[Part], list[str]]:
    """Judge, for each variant, the difference by one metric minus that by the other."""
    plan = results.plan
    both = [scores(results, metric=metric) for metric in (claim.metric, claim.against)]
    pairs = [(v, versus) for v in plan.variants if (versus := baseline_of(plan, v)) is not None]
    if not pairs:
        raise UserError(f"claim '{claim.id}': the variants of '{claim.study}' compare nothing")
    share = level / (len(claim.tasks) * len(pairs))
    parts = []
    for task in claim.tasks:
        for variant, versus in pairs:
            counts = [ended_of(plan, found, task, (variant, versus)) for found in both]
            ended, planned = min(one[0] for one in counts), counts[0][1]
            if ended < planned:
                parts.append(Part(task, variant, Verdict.NOT_RUN_YET, ended, planned))
                continue
            unit = learned_by(claim, results, task, versus)
            if unit is None:
                parts.append(Part(task, variant, Verdict.NOTHING_LEARNED, ended, planned))
                continue
            seen = [(found.by_seed(task, variant), found.by_seed(task, versus)) for found in both]
            seeds = sorted(set.intersection(*(set(one) for pair in seen for one in pair)))
            sides_ = [np.array([[a[s], b[s]] for s in seeds]).reshape(-1, 2) for a, b in seen]
            shares = [(one[:, 0] - one[:, 1]) / unit.size for one in sides_]
            rounding = rounding_of(*sides_) / unit.size
            compared = judge(shares[0] - shares[1], claim.margin, rounding, share)
            word = word_of(compared, claim.margin)
            parts.append(part_of(task, variant, word, compared, claim.margin, planned))
    if not all(part.ran for part in parts):
        return parts, []
    words = [
        {(p.task, p.label): p.word for p in _compared(claim, results, metric, pairs, level)}
        for metric in (claim.metric, claim.against)
    ]
    same = sum(words[0][place] == words[1][place] for place in words[0])
    opposite = sum({one[place].sign for one in words} == {1, -1} for place in words[0])
    note = (
        f"by both metrics {same} of {len(words[0])} comparisons get the same word, and {opposite} "
        f"the opposite one"
    )
    by_task = {task: _rank_correlation(plan, task, both) for task in claim.tasks}
    ranks = [f"{rank:.2f} on {task}" for task, rank in by_task.items() if rank is not None]
    if ranks:
        note += f"; the variants' means have a rank correlation of {', '.join(ranks)}"
    return parts, [note]


def _rank_correlation(plan: Plan, task: str, both: Sequence[Scores]) -> float | None:
    """Spearman's, of the means of all variants; None where one has none."""
    ranks = []
    for found in both:
        scores = [list(found.by_seed(task, variant).values()) for variant in plan.variants]
        if not all(scores):
            return None
        means = [np.mean(of) for of in scores]
        ranks.append(np.argsort(np.argsort(means)))
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


Judge = Callable[[Claim, Results, float], tuple[list[Part], list[str]]]
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


def _label(pairs: Sequence[tuple[str, str]], variant: str) -> str:
    """Several variants are told apart."""
    return variant if len(pairs) > 1 else ""

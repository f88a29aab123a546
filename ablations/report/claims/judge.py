"""From a claim and the records to a verdict: intervals of everything it rests on, against a margin.

The comparisons of one claim are a family: their intervals hold at once with 95%. What some seed has
not run yet is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.claims.entries import Claim
from ablations.report.scores import Scores, baseline_of, scores
from ablations.report.statistics import (
    LEVEL,
    Comparison,
    Seeds,
    compare_lost,
    compare_spreads,
    effects,
    judge,
    seeds_range,
    seeds_to_decide,
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
from ablations.report.units import METRIC, Learned, Units, of_cells, smoothed

NOT_RUN = "not run yet"
NOTHING_LEARNED = "nothing learned"
TRAINING, EVALUATION = "training/return", "evaluation/return"
_LAST = 0.8  # where the last fifth of training begins


@dataclass(frozen=True)
class Part:
    """One comparison that a claim rests on.

    task: or "all tasks". label: what is compared, where a claim compares several. word: where the
        interval lies, as tables say it; NOT_RUN where a seed is missing. n, planned: seeds.
    low, high, value: in the units that are printed: those of the metric; of a spread the ratio; of
        lost robustness and of agreement shares of what was learned.
    effect, effect_low, effect_high: the same in margins; None without a margin.
    needed: of "undecided", the seeds that would decide; of an undecided amount, on which side of
        the margin it lies.
    """

    task: str
    label: str
    word: str
    n: int = 0
    planned: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    needed: Seeds | None = None

    @property
    def ran(self) -> bool:
        return self.word != NOT_RUN

    @property
    def sign(self) -> int:
        """Of an interval that does not hold 0; else 0."""
        if self.effect_low is None or self.effect_high is None:
            words = {"better": 1, "higher": 1, "worse": -1, "lower": -1}
            return words.get(self.word.partition(",")[0], 0)
        return int(self.effect_low > 0) - int(self.effect_high < 0)


@dataclass(frozen=True)
class Judged:
    """A claim with what was found.

    parts: on every task, each variant. source: the variant whose learning is the unit. rising:
    task -> by how many margins its mean training curve still rose over the last fifth of training.
    steps: task -> of a run. notes: more numbers, in words.
    """

    claim: Claim
    parts: tuple[Part, ...]
    steps: Mapping[str, int]
    seeds: int
    step_unit: str
    source: str
    rising: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ran(self) -> bool:
        """Whether any of its comparisons has all its seeds."""
        return any(part.ran for part in self.parts)


class Evidence:
    """The records of plans, each metric of a plan read once."""

    def __init__(self, results: Path):
        self._results = results
        self._found: dict[tuple[str, str, str], Scores] = {}

    def of(self, plan: Plan, metric: str) -> Scores:
        place = (plan.study["name"], plan.name, metric)
        if place not in self._found:
            self._found[place] = scores(plan, self._results, metric=metric)
        return self._found[place]


def judged(claim: Claim, plan: Plan, evidence: Evidence, level: float = LEVEL) -> Judged:
    """A claim in the light of the records of its plan. level: shared by all that it compares.

    Raises UserError where it names what its study does not have.
    """
    _require_known(claim, plan)
    asked = replace(plan, study={**plan.study, "margin": claim.margin})
    parts, notes = _JUDGES[claim.statistic](claim, asked, evidence, level)
    first = _source(claim, plan)
    return Judged(
        claim,
        tuple(parts),
        {task: plan.tasks[task]["steps"] for task in claim.tasks},
        len(plan.seeds),
        "completions" if plan.study.get("step_unit") == "completion" else "steps",
        first,
        _rising(claim, asked, evidence, first),
        tuple(notes),
    )


def by_training(claim: Claim) -> Claim | None:
    """The same claim judged by training returns, where it is judged by those of evaluations."""
    same = claim.statistic != "agreement" and claim.metric == EVALUATION
    return replace(claim, metric=TRAINING) if same else None


# Each statistic


def _differences(
    claim: Claim, plan: Plan, evidence: Evidence, level: float
) -> tuple[list[Part], list[str]]:
    return _compared(claim, plan, evidence, claim.metric, _pairs(claim, plan), level), []


def _compared(
    claim: Claim,
    plan: Plan,
    evidence: Evidence,
    metric: str,
    pairs: Sequence[tuple[str, str]],
    level: float,
) -> list[Part]:
    """Differences of means, as tables judge them, in a family of their own."""
    found = evidence.of(plan, metric)
    parts = []
    by_source: dict[tuple[str, str], Learned | None] = {}
    for task in claim.tasks:
        for _, versus in pairs:
            by_source[task, versus] = _unit(claim, plan, evidence, task, versus)
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
    ended, planned = _ended(plan, found, task, (pairing.variant, pairing.baseline))
    if ended < planned:
        return Part(task, label, NOT_RUN, ended, planned)
    if pairing.identical:
        return Part(task, label, "identical", ended, planned, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    compared = pairing.compare()
    return _part(task, label, said(compared, pairing, True), compared, pairing.margin, planned)


def _spreads(
    claim: Claim, plan: Plan, evidence: Evidence, level: float
) -> tuple[list[Part], list[str]]:
    found = evidence.of(plan, claim.metric)
    pairs = _pairs(claim, plan)
    parts = []
    for task in claim.tasks:
        for variant, versus in pairs:
            label = _label(pairs, variant)
            ended, planned = _ended(plan, found, task, (variant, versus))
            if ended < planned:
                parts.append(Part(task, label, NOT_RUN, ended, planned))
                continue
            ours, theirs, more_failures = _paired(found, task, variant, versus)
            share = level / (len(claim.tasks) * len(pairs))
            compared = compare_spreads(ours, theirs, share)
            margin = math.log(claim.margin)
            word = _word(compared, margin)
            if more_failures and word != "undecided":
                word = "unstable" if more_failures > 0 else "unstable baseline"
            part = _part(task, label, word, compared, margin, planned)
            value, low, high = (
                None if one is None else math.exp(one) for one in (part.value, part.low, part.high)
            )
            parts.append(replace(part, value=value, low=low, high=high))
    return parts, []


def _robustness(
    claim: Claim, plan: Plan, evidence: Evidence, level: float
) -> tuple[list[Part], list[str]]:
    found = evidence.of(plan, claim.metric)
    lines = (claim.variant, claim.versus)
    counts = [_ended(plan, found, task, [*claim.variant, *claim.versus]) for task in claim.tasks]
    ended, planned = min(one[0] for one in counts), max(one[1] for one in counts)
    if ended < planned:
        return [Part(ALL_TASKS, "", NOT_RUN, ended, planned)], []
    middle = claim.versus[len(claim.versus) // 2]
    learned = {task: _unit(claim, plan, evidence, task, middle) for task in claim.tasks}
    if None in learned.values():
        return [Part(ALL_TASKS, "", NOTHING_LEARNED, ended, planned)], []
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
    word = _word(compared, claim.margin)
    part = _part(ALL_TASKS, "", word, compared, claim.margin, planned)
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


def _main_effects(
    claim: Claim, plan: Plan, evidence: Evidence, level: float
) -> tuple[list[Part], list[str]]:
    return _contrasts(claim, plan, evidence, level, 1), []


def _interactions(
    claim: Claim, plan: Plan, evidence: Evidence, level: float
) -> tuple[list[Part], list[str]]:
    return _contrasts(claim, plan, evidence, level, 2), []


def _contrasts(
    claim: Claim, plan: Plan, evidence: Evidence, level: float, factors: int
) -> list[Part]:
    """Main effects of the claim's factor, or all interactions of two factors."""
    found = evidence.of(plan, claim.metric)
    of = factorial(plan)
    if of is None:
        raise UserError(f"claim '{claim.id}': the variants of '{claim.study}' are no factorial")
    if claim.factor and claim.factor not in of.factors:
        raise unknown(f"factor of claim '{claim.id}'", claim.factor, of.factors)

    def is_asked(names: Sequence[str]) -> bool:
        return len(names) == factors and (factors > 1 or claim.factor in names)

    asked = [one for one in effects(np.zeros((0, *of.shape)), of) if is_asked(one.factors)]
    share = level / (len(claim.tasks) * len(asked))
    parts = []
    for task in claim.tasks:
        ended, planned = _ended(plan, found, task, list(of.variants))
        unit = _unit(claim, plan, evidence, task, plan.study["baseline"])
        margin = None if unit is None else claim.margin * unit.size
        y = factorial_scores(found, of, [task], {})
        for one in (x for x in effects(y, of, margin, share) if is_asked(x.factors)):
            label = " \u00d7 ".join(map(_level, one.factors, one.levels))
            if ended < planned:
                parts.append(Part(task, label, NOT_RUN, ended, planned))
                continue
            if identical_effect(found, of, one, [task]):
                word = "identical"
            else:
                word = guarded_effect(verdict(one.comparison, margin), found, of, one, [task])
                if factors > 1:
                    word = word.replace("better", "higher").replace("worse", "lower")
            parts.append(_part(task, label, word, one.comparison, margin, planned))
    return parts


def _level(factor: str, level: str) -> str:
    """ "a=1", or "a=1, b=2" of a factor of two settings."""
    names, values = factor.split(", "), level.split(", ")
    if len(names) != len(values):
        return f"{factor}={level}"
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))


def _agreement(
    claim: Claim, plan: Plan, evidence: Evidence, level: float
) -> tuple[list[Part], list[str]]:
    """The difference of a variant as one metric sees it, minus that as the other does, in what was
    learned."""
    both = [evidence.of(plan, metric) for metric in (claim.metric, claim.against)]
    pairs = [(v, versus) for v in plan.variants if (versus := baseline_of(plan, v)) is not None]
    share = level / (len(claim.tasks) * len(pairs))
    parts = []
    for task in claim.tasks:
        for variant, versus in pairs:
            counts = [_ended(plan, found, task, (variant, versus)) for found in both]
            ended, planned = min(one[0] for one in counts), counts[0][1]
            if ended < planned:
                parts.append(Part(task, variant, NOT_RUN, ended, planned))
                continue
            unit = _unit(claim, plan, evidence, task, versus)
            if unit is None:
                parts.append(Part(task, variant, NOTHING_LEARNED, ended, planned))
                continue
            seen = [(found.by_seed(task, variant), found.by_seed(task, versus)) for found in both]
            seeds = sorted(set.intersection(*(set(one) for pair in seen for one in pair)))
            shares = [np.array([a[s] - b[s] for s in seeds]) / unit.size for a, b in seen]
            compared = judge(shares[0] - shares[1], claim.margin, 1e-12, share)
            word = _word(compared, claim.margin)
            parts.append(_part(task, variant, word, compared, claim.margin, planned))
    if not all(part.ran for part in parts):
        return parts, []
    words = [
        {(p.task, p.label): p.word for p in _compared(claim, plan, evidence, metric, pairs, level)}
        for metric in (claim.metric, claim.against)
    ]
    same = sum(words[0][place] == words[1][place] for place in words[0])
    signs = [{place: word[:5] for place, word in one.items()} for one in words]
    opposite = sum({one[place] for one in signs} == {"bette", "worse"} for place in signs[0])
    ranks = (f"{_rank_correlation(plan, task, both):.2f} on {task}" for task in claim.tasks)
    notes = [
        f"by both metrics {same} of {len(words[0])} comparisons get the same word, and {opposite} "
        f"the opposite one; the variants' means have a rank correlation of {', '.join(ranks)}"
    ]
    return parts, notes


def _rank_correlation(plan: Plan, task: str, both: Sequence[Scores]) -> float:
    """Spearman's, of the means of all variants."""
    ranks = []
    for found in both:
        means = [np.mean(list(found.by_seed(task, v).values())) for v in plan.variants]
        ranks.append(np.argsort(np.argsort(means)))
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


_JUDGES: Mapping[str, Any] = {
    "difference": _differences,
    "spread": _spreads,
    "robustness": _robustness,
    "effect": _main_effects,
    "interaction": _interactions,
    "agreement": _agreement,
}


# What they share


def _pairs(claim: Claim, plan: Plan) -> list[tuple[str, str]]:
    return [(variant, claim.versus[0]) for variant in claim.variant]


def _label(pairs: Sequence[tuple[str, str]], variant: str) -> str:
    """Several variants are told apart."""
    return variant if len(pairs) > 1 else ""


def _source(claim: Claim, plan: Plan) -> str:
    """Whose learning is the unit."""
    if claim.statistic == "robustness":
        return claim.versus[len(claim.versus) // 2]
    return claim.versus[0] if claim.versus else str(plan.study["baseline"])


def _unit(claim: Claim, plan: Plan, evidence: Evidence, task: str, variant: str) -> Learned | None:
    """What a variant learned. Of returns, those of training: the first evaluation comes when much
    has been learned, and both are in the same units."""
    if plan.study.get("margin_in_metric"):
        return METRIC
    metric = TRAINING if claim.metric in (TRAINING, EVALUATION) else claim.metric
    found = evidence.of(plan, metric)
    at_first = found.below(plan.looks["seeds"][0]) if plan.looks else found
    return of_cells(at_first, task, variant)


def _ended(plan: Plan, found: Scores, task: str, variants: Sequence[str]) -> tuple[int, int]:
    """Seeds that ended, well or not, on all of the variants; and those that are planned."""
    ended = min(
        sum(cell.status != "missing" for cell in found.of(task, variant)) for variant in variants
    )
    planned = max(len(found.of(task, variant)) for variant in variants)
    if plan.looks:  # each comparison has the seeds of the look that decided it
        planned = min(planned, ended) if ended >= plan.looks["seeds"][0] else planned
    return ended, planned


def _paired(
    found: Scores, task: str, variant: str, versus: str
) -> tuple[np.ndarray, np.ndarray, int]:
    """Scores `[n]` of both on the seeds that both have; how many more of the variant failed."""
    ours, theirs = found.by_seed(task, variant), found.by_seed(task, versus)
    seeds = sorted(set(ours) & set(theirs))
    fails = [sum(c.status == "failed" for c in found.of(task, one)) for one in (variant, versus)]
    return (
        np.array([ours[seed] for seed in seeds]),
        np.array([theirs[seed] for seed in seeds]),
        fails[0] - fails[1],
    )


def _word(compared: Comparison, margin: float | None) -> str:
    """The word for a comparison that has no good direction."""
    word = verdict(compared, margin)
    return word.replace("better", "higher").replace("worse", "lower")


def _part(
    task: str, label: str, word: str, compared: Comparison, margin: float | None, planned: int
) -> Part:
    def in_margins(value: float | None) -> float | None:
        return None if value is None or not margin else value / margin

    return Part(
        task=task,
        label=label,
        word=word,
        n=compared.n,
        planned=planned,
        value=compared.difference,
        low=compared.low,
        high=compared.high,
        effect=in_margins(compared.difference),
        effect_low=in_margins(compared.low),
        effect_high=in_margins(compared.high),
        needed=_needed(word, compared, margin),
    )


def _needed(word: str, compared: Comparison, margin: float | None) -> Seeds | None:
    """Seeds that decide what is open: the sign or equivalence; or, where the sign is known, whether
    a difference as it looks now lies within the margin or beyond."""
    if word == "undecided":
        return seeds_to_decide(compared, margin)
    if "undecided amount" not in word or not margin or not compared.deviation:
        return None
    assert compared.difference is not None
    away = abs(compared.difference) - margin
    return seeds_range(away, compared) if away else Seeds(None, None, None)


def _rising(claim: Claim, plan: Plan, evidence: Evidence, variant: str) -> dict[str, float]:
    """task -> how many margins the variant's mean curve rose over the last fifth of training."""
    if claim.metric not in (TRAINING, EVALUATION):
        return {}
    found = evidence.of(plan, TRAINING)
    rose = {}
    for task in claim.tasks:
        unit = _unit(claim, plan, evidence, task, variant)
        curves = [cell for cell in found.of(task, variant) if len(cell.steps)]
        if unit is None or not curves or min(_ended(plan, found, task, [variant])) == 0:
            continue
        share = plan.study["margin"] if claim.statistic != "spread" else 0.05
        ends = curves[0].steps
        whole = [cell.values for cell in curves if np.array_equal(cell.steps, ends)]
        mean = np.nanmean(smoothed(ends, np.array(whole)), axis=0)
        before = int(np.searchsorted(ends, _LAST * ends[-1], side="right")) - 1
        rose[task] = float(mean[-1] - mean[max(before, 0)]) / (share * unit.size)
    return rose


def _require_known(claim: Claim, plan: Plan) -> None:
    where = f"of claim '{claim.id}'"
    for task in claim.tasks:
        if task not in plan.tasks:
            raise unknown(f"task {where}", task, plan.tasks)
    for variant in (*claim.variant, *claim.versus):
        if variant not in plan.variants:
            raise unknown(f"variant {where}", variant, plan.variants)
    if plan.looks and claim.statistic != "difference":
        raise UserError(
            f"claim '{claim.id}': only differences can be looked at while seeds are added: "
            f"give its command --seeds instead of --until"
        )

"""Comparisons that claims rest on, and the records that they are made of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from ablations.core.verdict import Verdict
from ablations.records import Plan
from ablations.report.claims.entries import Claim
from ablations.report.results import Once, Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import (
    Comparison,
    Seeds,
    deviation,
    seeds_range,
    seeds_to_decide,
    verdict,
)
from ablations.report.tables.entries import number
from ablations.report.units import METRIC, Learned, of_cells

Key = TypeVar("Key", bound=Hashable)
TRAINING, EVALUATION = "training/return", "evaluation/return"


@dataclass(frozen=True)
class Part:
    """A comparison that a claim rests on.

    task: or "all tasks". label: what is compared, where a claim compares several. word: where the
        interval lies, as tables say it; NOT_RUN_YET where a seed is missing. n, planned: seeds.
    low, high, value: in the units that are printed: those of the metric; of a spread the ratio; of
        lost robustness and of agreement shares of what was learned.
    effect, effect_low, effect_high: the same in margins; None without a margin.
    needed: of "undecided", the seeds that would decide; of an undecided amount, on which side of
        the margin it lies.
    sides: mean and standard deviation over seeds of the variant, and of what it is compared with;
        () where more than two are compared.
    sign: of a difference that does not hold 0, as `Comparison.sign`; else 0.
    """

    task: str
    label: str
    word: Verdict
    n: int = 0
    planned: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    needed: Seeds | None = None
    sides: tuple[tuple[float, float], ...] = ()
    sign: int = 0

    @property
    def ran(self) -> bool:
        """True where all of its seeds have run."""
        return self.word is not Verdict.NOT_RUN_YET


@dataclass(frozen=True)
class Judged:
    """A claim with what was found.

    parts: on every task, each variant. source: the variant whose learning is the unit. rising:
    task -> by how many margins its mean training curve still rose over the last fifth of training.
    margins: of returns, task -> the margin, and what the source's mean evaluation rose by after the
    first. steps: task -> of a run. notes: more numbers, in words.
    """

    claim: Claim
    parts: tuple[Part, ...]
    steps: Mapping[str, int]
    seeds: int
    step_unit: str
    source: str
    rising: Mapping[str, float] = field(default_factory=dict)
    margins: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ran(self) -> bool:
        """True where any of its comparisons has all its seeds."""
        return any(part.ran for part in self.parts)


def evidence(plans: Mapping[Key, Plan], folder: Path) -> dict[Key, Results]:
    """Return the results of each plan, with the curves that claims are judged by; equals once."""
    read: dict[tuple[str, str], Results] = {}
    return {
        key: read.setdefault(
            (plan.study.name, plan.name), Results(plan, folder, (TRAINING, EVALUATION))
        )
        for key, plan in plans.items()
    }


def learned_by(claim: Claim, results: Results, task: str, variant: str) -> Learned | None:
    """Return what a variant learned.

    Of returns, those of training: the first evaluation comes when much has been learned, and both
    are in the same units.
    """
    if results.plan.study.margin_in_metric:
        return METRIC
    metric = TRAINING if claim.metric in (TRAINING, EVALUATION) else claim.metric
    return _learned(results, metric, task, variant)


@Once
def _learned(results: Results, metric: str, task: str, variant: str) -> Learned | None:
    """Return what a variant learned, at the first look where there are several."""
    scored, looks = scores(results, metric=metric), results.plan.looks
    return of_cells(scored.below(looks.seeds[0]) if looks else scored, task, variant)


def ended_of(plan: Plan, scored: Scores, task: str, variants: Sequence[str]) -> tuple[int, int]:
    """Return the seeds that ended, well or not, on all of the variants; and those planned."""
    ended = min(
        sum(cell.status != "missing" for cell in scored.of(task, variant)) for variant in variants
    )
    planned = max(len(scored.of(task, variant)) for variant in variants)
    if plan.looks:  # each comparison has the seeds of the look that decided it
        planned = min(planned, ended) if ended >= plan.looks.seeds[0] else planned
    return ended, planned


def sides(*scores: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Return mean and standard deviation of each; () of fewer than two seeds."""
    if len(scores[0]) < 2:
        return ()
    return tuple((float(np.mean(side)), float(deviation(side))) for side in scores)


def word_of(compared: Comparison, margin: float | None) -> Verdict:
    """Return the verdict on a comparison that has no good direction."""
    return verdict(compared, margin).undirected


def part_of(
    task: str,
    word: Verdict,
    compared: Comparison,
    margin: float | None,
    *,
    label: str = "",
    planned: int = 0,
) -> Part:
    """Make a part of a claim from a comparison in the metric's units and the margin."""

    def in_margins(value: float | None) -> float | None:
        return number(value / margin) if value is not None and margin else None

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
        sign=compared.sign,
    )


def _needed(word: Verdict, compared: Comparison, margin: float | None) -> Seeds | None:
    """Return the seeds that decide what is open: the sign or equivalence.

    Where the sign is known, whether a difference as it looks now lies within the margin or beyond.
    """
    if compared.low is None:
        return None
    if word is Verdict.UNDECIDED:
        return seeds_to_decide(compared, margin)
    if not word.amount_undecided or not margin or not compared.deviation:
        return None
    assert compared.difference is not None
    away = abs(compared.difference) - margin
    if not away:
        return Seeds(None, None, None)
    return seeds_range(away, compared.deviation, compared.n, level=compared.level)

"""Checks of a baseline's curves against new ones, with stated error rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ablations.errors import UserError
from ablations.looks import Look, Looks, Stage, play
from ablations.regression import ALPHA, EFFECT, MOST_SEEDS, permutation
from ablations.regression.curves import (
    SCORES,
    Curves,
    Score,
    first_difference,
    on_steps_of,
    require_same_steps,
    require_scores,
    scores,
)
from ablations.regression.design import Design, design
from ablations.report import units
from ablations.report.scores import final
from ablations.report.statistics.paired import judge
from ablations.report.statistics.rates import are_successes, compare_outcomes, loss_p
from ablations.report.statistics.unpaired import Moments, welch
from ablations.report.units import Learned

Floats = NDArray[np.float64]
Verdict = Literal["identical", "worse", "better", "no worse", "undecided"]


@dataclass(frozen=True)
class Terms:
    """The terms of a check.

    alpha: chance of calling a trainer worse in which nothing changed, on average over baselines;
    one whose seeds did well by chance alarms more often, see `Design.lucky`. More seeds in the
    baseline mend that; so does `paired`, as far as equal seeds go alike.
    effect: the smallest loss worth catching, as a share of `unit` (default: what the baseline
    learns, see `learned`). most: bound on the seeds. paired: compare seed by seed, which pays where
    equal seeds still go through training alike. scores: what curves are summed up by; a loss in any
    of them counts.
    """

    alpha: float = ALPHA
    effect: float = EFFECT
    unit: float | None = None
    higher_is_better: bool = True
    most: int = MOST_SEEDS
    paired: bool = False
    scores: Mapping[str, Score] = field(default_factory=lambda: SCORES)


@dataclass(frozen=True)
class Row:
    """A score: its means over seeds and their difference.

    difference: now - baseline; low, high: its 95% t interval (Welch's, or paired), or the exact
    one where every run is a success or a failure. p_worse, p_better: of a loss and of a gain,
    corrected over the scores.
    """

    score: str
    baseline: float
    now: float
    difference: float
    low: float
    high: float
    p_worse: float
    p_better: float
    exact: bool = False


@dataclass(frozen=True)
class Check:
    """The result of a check; see `looks.Decision`.

    verdict: "identical", the curves of equal seeds are the same bits; "worse", a loss is shown and
        that it is below the effect is not; "no worse", a loss as large as the effect is ruled out
        in every score; "better", that, and a gain of at least the effect is shown in one;
        "undecided", a loss is neither shown nor ruled out at the last look.
    baseline, now: at the same steps. trained: new curves at their own.
    differs: seed and step of the first difference in bits, where seeds are shared.
    """

    verdict: Verdict
    rows: tuple[Row, ...]
    design: Design
    terms: Terms
    unit: float
    baseline: Curves
    now: Curves
    trained: Curves
    differs: tuple[int, float] | None = None

    @property
    def decided(self) -> bool:
        """True where no further look is needed."""
        return self.verdict != "undecided"

    @property
    def worst(self) -> Row:
        """The score with the strongest evidence of a loss."""
        sign = 1.0 if self.terms.higher_is_better else -1.0
        return min(self.rows, key=lambda row: (row.p_worse, sign * row.difference))

    @property
    def best(self) -> Row:
        """The score with the strongest evidence of a gain."""
        sign = 1.0 if self.terms.higher_is_better else -1.0
        return min(self.rows, key=lambda row: (row.p_better, -sign * row.difference))


def learned(curves: Curves) -> Learned:
    """Return the range that a trainer learns, as tables have it: `report.units`.

    Where its curves do not stand out of their noise, it is the spread of their final scores, or of
    a rounding error; where these are successes and failures, the rate from 0 to 1.
    """
    unit = units.learned_of(curves.runs)
    if unit is not None:
        return unit
    ends = scores(curves, {"final": final})["final"]
    ends = ends[~np.isnan(ends)]
    if are_successes(ends):
        return Learned(0.0, 1.0)
    middle = float(ends.mean())
    size = float(np.max(np.abs(ends), initial=0.0)) or 1.0  # of all zeros none is to be had
    half = max(float((ends / size).std()), 1e-9) * size / 2
    return Learned(middle - half, middle + half)


def layout(baseline: Curves, terms: Terms, exactly: int | None = None) -> tuple[Design, float]:
    """Return the design of a check against this baseline, and the unit of its effect."""
    if not terms.effect > 0:
        raise UserError(f"the smallest effect worth catching must be above 0, not {terms.effect:g}")
    unit = learned(baseline).size if terms.unit is None else float(terms.unit)
    if not (unit > 0 and math.isfinite(unit)):
        raise UserError(f"the unit of the effect must be above 0, not {unit:g}")
    require_scores(baseline, terms.scores)
    old, _ = _signed_scores(baseline, baseline.of(()), terms)
    looks = design(
        old,
        terms.effect * unit,
        alpha=terms.alpha,
        most=terms.most,
        exactly=exactly,
        paired=terms.paired,
    )
    return looks, unit


def check(baseline: Curves, now: Curves, terms: Terms | None = None) -> Check:
    """Look once, at curves that are there already. Raises UserError for incomparable curves."""
    terms = terms or Terms()
    require_same_steps(now, baseline)
    exactly = None  # too few seeds can still be the same bits
    if not _identical(baseline, now):
        if terms.paired:
            now = now.of([seed for seed in (*now.seeds, *now.failed) if seed in baseline.seeds])
        exactly = len(now)
    test = SequentialCheck.of(baseline, terms, exactly)
    return test.decide(test.looks[-1], now, ())


@dataclass(frozen=True)
class SequentialCheck:
    """A baseline against curves that are trained look by look; see `looks.SequentialTest`.

    A look needs the seeds that those before it had not. The baseline's own come first: a trainer
    that did not change at all gives the same bits, and the check ends at the first look.
    """

    baseline: Curves
    terms: Terms
    design: Design
    unit: float

    @classmethod
    def of(cls, baseline: Curves, terms: Terms, exactly: int | None = None) -> SequentialCheck:
        """Plan a check. Raises UserError. exactly: one look at so many seeds."""
        return cls(baseline, terms, *layout(baseline, terms, exactly))

    @property
    def looks(self) -> Looks:
        """The looks of the design."""
        return self.design.looks

    def needs(self, look: Look, before: Sequence[Check]) -> tuple[int, ...]:
        """Return the seeds to train. Raises UserError where a baseline has too few for pairs."""
        known = len(before[-1].trained) if before else 0
        return _seeds(self.baseline, look.seeds, self.terms.paired)[known:]

    def decide(self, look: Look, runs: Curves, before: Sequence[Check]) -> Check:
        """Judge these curves and those of the looks before."""
        require_same_steps(runs, self.baseline)
        trained = before[-1].trained.and_(runs) if before else runs
        same = _identical(self.baseline, trained)
        baseline, now = on_steps_of(self.baseline, trained)
        require_scores(now, self.terms.scores)
        old, new = _signed_scores(baseline, now, self.terms)
        paired = self.terms.paired or same
        if paired:
            row_of = {seed: row for row, seed in enumerate((*baseline.seeds, *baseline.failed))}
            shared = [row_of[seed] for seed in (*now.seeds, *now.failed)]
            old = {name: values[shared] for name, values in old.items()}
        evidence = self._evidence(old, new, look, paired)
        sign = 1.0 if self.terms.higher_is_better else -1.0
        rows = tuple(
            _row(name, old[name], new[name], evidence, i, sign, paired)
            for i, name in enumerate(old)
        )
        if not same:
            rows = tuple(_exact(row, old[row.score], new[row.score], sign, paired) for row in rows)
        return Check(
            verdict="identical" if same else self._verdict(rows, evidence, look),
            rows=rows,
            design=self.design,
            terms=self.terms,
            unit=self.unit,
            baseline=baseline,
            now=now,
            trained=trained,
            differs=first_difference(trained, self.baseline),
        )

    def _evidence(
        self, old: Mapping[str, Floats], new: Mapping[str, Floats], look: Look, paired: bool
    ) -> permutation.Evidence:
        before, after = (np.stack(list(each.values()), axis=1) for each in (old, new))
        loss = np.full(len(old), self.design.effect)
        # As many deals as it takes to see twenty at the level.
        deals = min(400_000, max(permutation.DEALS, math.ceil(20 / look.level)))
        intervals = (
            permutation.paired(after - before, loss, deals)
            if paired
            else permutation.unpaired(after, before, loss, deals)
        )
        # A rate that loses is no rate that is moved: successes are lost whole.
        each = [
            loss_p(*outcomes, self.design.effect, paired=paired) if outcomes else p
            for outcomes, p in zip(
                map(_outcomes, old.values(), new.values()), intervals.not_lost_each, strict=True
            )
        ]
        return replace(intervals, not_lost_each=np.array(each))

    def _verdict(self, rows: Sequence[Row], evidence: permutation.Evidence, look: Look) -> Verdict:
        # A gain is flagged at the false-alarm rate of its own.
        sign = 1.0 if self.terms.higher_is_better else -1.0
        gains = [sign * row.difference for row in rows if row.p_better <= look.level]
        if evidence.not_lost > look.miss:
            return "worse" if evidence.worse <= look.level else "undecided"
        return "better" if max(gains, default=0.0) >= self.design.effect else "no worse"


Wanted = Mapping[str, tuple[int, ...]]  # the seeds to train, by the name of a check


def play_checks(
    tests: Mapping[str, SequentialCheck], train: Callable[[Wanted], Mapping[str, Curves]]
) -> dict[str, Check]:
    """Check side by side: each round trains the seeds that undecided checks need."""

    def collect(
        stages: Mapping[str, Stage[tuple[int, ...], Check]],
    ) -> Mapping[str, Curves]:
        return train({name: stage.needs for name, stage in stages.items()})

    return {name: stage.decisions[-1] for name, stage in play(tests, collect).items()}


def sequential(
    baseline: Curves, more: Callable[[tuple[int, ...]], Curves], terms: Terms | None = None
) -> Check:
    """Check few seeds first, more only while undecided. more: seeds -> their curves."""

    def train(wanted: Wanted) -> dict[str, Curves]:
        seeds = wanted[""]
        curves = more(seeds)
        if sorted([*curves.seeds, *curves.failed]) != sorted(seeds):
            raise UserError(
                f"asked for {len(seeds)} more seeds ({', '.join(map(str, seeds))}), got curves of "
                f"{len(curves)} ({', '.join(map(str, [*curves.seeds, *curves.failed]))})"
            )
        return {"": curves}

    return play_checks({"": SequentialCheck.of(baseline, terms or Terms())}, train)[""]


def _seeds(baseline: Curves, number: int, paired: bool) -> tuple[int, ...]:
    own = baseline.seeds
    if paired and number > len(own):
        raise UserError(
            f"a paired check of {number} seeds needs a baseline of as many: it has {len(own)}"
        )
    after = max([*own, *baseline.failed], default=-1) + 1
    return (*own, *range(after, after + number))[:number]


def _identical(baseline: Curves, now: Curves) -> bool:
    shared = bool(now.seeds) and not now.failed and set(now.seeds) <= set(baseline.seeds)
    return shared and first_difference(now, baseline) is None


def _signed_scores(
    baseline: Curves, now: Curves, terms: Terms
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the scores of both, higher is better.

    A failed seed counts as one that has learned nothing, or with the worst score there is.
    """
    sign = 1.0 if terms.higher_is_better else -1.0
    ends = learned(baseline)
    start = min(sign * ends.low, sign * ends.high)
    old, new = scores(baseline, terms.scores), scores(now, terms.scores)
    for name in old:
        worst = start if _outcomes(old[name], new[name]) is None else min(0.0, sign)
        lowest = min(worst, *(sign * old[name]), *(sign * new[name]))
        for of, curves in ((old, baseline), (new, now)):
            of[name] = np.append(sign * of[name], np.full(len(curves.failed), lowest))
    return old, new


def _row(
    name: str,
    before: Floats,
    after: Floats,
    evidence: permutation.Evidence,
    i: int,
    sign: float,
    paired: bool,
) -> Row:
    """Return the row of score i; before, after: `[seeds]`, times sign, so that higher is better."""
    difference = float(after.mean() - before.mean())
    compared = judge(after - before) if paired else welch(Moments.of(after), Moments.of(before))
    # The interval of runs that are all one number is their difference.
    alone = difference if compared.deviation == 0 else math.nan
    low, high = (alone if end is None else end for end in (compared.low, compared.high))
    ends = sorted((sign * low, sign * high))
    return Row(
        score=name,
        baseline=sign * float(before.mean()),
        now=sign * float(after.mean()),
        difference=sign * difference,
        low=ends[0],
        high=ends[1],
        p_worse=float(evidence.worse_each[i]),
        p_better=float(evidence.better_each[i]),
    )


def _exact(row: Row, before: Floats, after: Floats, sign: float, paired: bool) -> Row:
    """Return the row with the exact interval where every run is a success or a failure."""
    outcomes = _outcomes(before, after)
    compared = outcomes and compare_outcomes(*outcomes, paired=paired, level=0.05)
    if not compared or compared.low is None or compared.high is None:
        return row
    low, high = sorted((sign * compared.low, sign * compared.high))
    return replace(row, low=low, high=high, exact=True)


def _outcomes(before: Floats, after: Floats) -> tuple[Floats, Floats] | None:
    """Return scores after and before as 1, the better one, and 0; None where a run has others."""
    together = np.concatenate([after, before])
    if not are_successes(np.abs(together)):
        return None
    shift = float(together.min() < 0)  # 0 and 1 of a score of which lower is better
    return after + shift, before + shift

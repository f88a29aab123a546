"""Has it become worse? A baseline's curves against new ones, with stated error rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ablations.distributions import student_quantile
from ablations.errors import UserError
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
from ablations.regression.looks import Design, Look, design
from ablations.report import units
from ablations.report.scores import final
from ablations.report.units import Learned

Floats = NDArray[np.float64]
Verdict = Literal["identical", "worse", "better", "no worse", "undecided"]


@dataclass(frozen=True)
class Terms:
    """What is asked of a check.

    alpha: chance of calling a trainer worse in which nothing changed, on average over baselines;
    one whose seeds did well by chance alarms more often, see `Design.lucky`. More seeds in the
    baseline mend that; so does `paired`, as far as equal seeds go alike.
    effect: the smallest loss worth catching, as a share of `unit` (default: what the baseline
    learns, see `gained`). most: bound on the seeds. paired: compare seed by seed, which pays where
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
    """One score: means over seeds, their difference (now - baseline) with its 95% t interval
    (Welch's, or paired), and p of a loss and of a gain, corrected over the scores."""

    score: str
    baseline: float
    now: float
    difference: float
    low: float
    high: float
    p_worse: float
    p_better: float


@dataclass(frozen=True)
class Check:
    """What a check found.

    verdict: "identical", the curves of equal seeds are the same bits; "worse", a loss is shown and
        that it is below the effect is not; "no worse", a loss as large as the effect is ruled out
        in every score; "better", that, and a gain of at least the effect is shown in one;
        "undecided", a loss is neither shown nor ruled out at the last look.
    differs: seed and step of the first difference in bits, where seeds are shared.
    """

    verdict: Verdict
    rows: tuple[Row, ...]
    design: Design
    terms: Terms
    unit: float
    baseline: Curves
    now: Curves
    differs: tuple[int, float] | None = None

    @property
    def worst(self) -> Row:
        """The score with the strongest evidence of a loss."""
        sign = 1.0 if self.terms.higher_is_better else -1.0
        return min(self.rows, key=lambda row: (row.p_worse, sign * row.difference))

    @property
    def best(self) -> Row:
        sign = 1.0 if self.terms.higher_is_better else -1.0
        return min(self.rows, key=lambda row: (row.p_better, -sign * row.difference))


def learned(curves: Curves) -> Learned:
    """What a trainer learns, as tables have it: `report.units`. Where its curves do not stand out
    of their noise, the spread of their final scores, or of a rounding error."""
    found = units.learned_of(curves.runs)
    if found is not None:
        return found
    ends = scores(curves, {"final": final})["final"]
    ends = ends[~np.isnan(ends)]
    middle = float(ends.mean())
    half = max(float(ends.std()), 1e-9 * max(1.0, abs(middle))) / 2
    return Learned(middle - half, middle + half)


def gained(curves: Curves) -> float:
    """How much a trainer learns."""
    return learned(curves).size


def layout(baseline: Curves, terms: Terms, exactly: int | None = None) -> tuple[Design, float]:
    """How a check against this baseline will go, and the unit of its effect."""
    if not terms.effect > 0:
        raise UserError(f"the smallest effect worth catching must be above 0, not {terms.effect:g}")
    unit = gained(baseline) if terms.unit is None else float(terms.unit)
    if not (unit > 0 and math.isfinite(unit)):
        raise UserError(f"the unit of the effect must be above 0, not {unit:g}")
    require_scores(baseline, terms.scores)
    old, _ = _signed_scores(baseline, baseline.of(()), terms)
    made = design(
        old,
        terms.effect * unit,
        alpha=terms.alpha,
        most=terms.most,
        exactly=exactly,
        paired=terms.paired,
    )
    return made, unit


def check(baseline: Curves, now: Curves, terms: Terms | None = None) -> Check:
    """One look, at curves that are there already. Raises UserError for curves that cannot be
    compared."""
    terms = terms or Terms()
    require_same_steps(now, baseline)
    if _identical(baseline, now):
        # Also where there are too few seeds to say anything else.
        made, unit = layout(baseline, terms)
        return _judge(baseline, now, made.looks[-1], made, unit, terms)
    if terms.paired:
        now = now.of([seed for seed in (*now.seeds, *now.failed) if seed in baseline.seeds])
    made, unit = layout(baseline, terms, exactly=len(now))
    return _judge(baseline, now, made.looks[-1], made, unit, terms)


def checking(
    baseline: Curves, terms: Terms | None = None
) -> Generator[tuple[int, ...], Curves, Check]:
    """Yields the seeds to train next and takes their curves, until it returns what it found.

    The baseline's own seeds come first: a trainer that did not change at all gives the same bits,
    and the check ends at the first look.
    """
    terms = terms or Terms()
    made, unit = layout(baseline, terms)
    now: Curves | None = None
    for look in made.looks:
        known = 0 if now is None else len(now)
        got = yield _seeds(baseline, look.seeds, terms.paired)[known:]
        require_same_steps(got, baseline)
        now = got if now is None else now.and_(got)
        found = _judge(baseline, now, look, made, unit, terms)
        if found.verdict != "undecided":
            break
    return found


def sequential(
    baseline: Curves, more: Callable[[tuple[int, ...]], Curves], terms: Terms | None = None
) -> Check:
    """Few seeds first, more only while undecided. more: seeds -> their curves."""
    steps = checking(baseline, terms)
    asked = next(steps)
    while True:
        got = more(asked)
        if sorted([*got.seeds, *got.failed]) != sorted(asked):
            raise UserError(
                f"asked for {len(asked)} more seeds ({', '.join(map(str, asked))}), got curves of "
                f"{len(got)} ({', '.join(map(str, [*got.seeds, *got.failed]))})"
            )
        try:
            asked = steps.send(got)
        except StopIteration as ended:
            found: Check = ended.value
            return found


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
    """Scores of both, higher is better; a failed seed counts as one that has learned nothing, or
    with the worst score there is."""
    sign = 1.0 if terms.higher_is_better else -1.0
    ends = learned(baseline)
    start = min(sign * ends.low, sign * ends.high)
    old, new = scores(baseline, terms.scores), scores(now, terms.scores)
    for name in old:
        lowest = min(start, *(sign * old[name]), *(sign * new[name]))
        for of, curves in ((old, baseline), (new, now)):
            of[name] = np.append(sign * of[name], np.full(len(curves.failed), lowest))
    return old, new


def _judge(
    baseline: Curves, now: Curves, look: Look, made: Design, unit: float, terms: Terms
) -> Check:
    same, differs = _identical(baseline, now), first_difference(now, baseline)
    baseline, now = on_steps_of(baseline, now)
    require_scores(now, terms.scores)
    old, new = _signed_scores(baseline, now, terms)
    names = list(old)
    before = np.stack([old[name] for name in names], axis=1)
    after = np.stack([new[name] for name in names], axis=1)
    loss = np.full(len(names), made.effect)
    sign = 1.0 if terms.higher_is_better else -1.0
    # As many deals as it takes to see twenty at the level.
    deals = min(400_000, max(permutation.DEALS, math.ceil(20 / look.alpha)))
    if terms.paired or same:
        row_of = {seed: row for row, seed in enumerate((*baseline.seeds, *baseline.failed))}
        shared = [row_of[seed] for seed in (*now.seeds, *now.failed)]
        before = before[shared]
        evidence = permutation.paired(after - before, loss, deals)
    else:
        evidence = permutation.unpaired(after, before, loss, deals)
    found = Check(
        verdict="undecided",
        rows=tuple(
            _row(name, before[:, i], after[:, i], evidence, i, sign, terms.paired or same)
            for i, name in enumerate(names)
        ),
        design=made,
        terms=terms,
        unit=unit,
        baseline=baseline,
        now=now,
        differs=differs,
    )
    verdict: Verdict = "identical" if same else _verdict(found, evidence, look)
    return replace(found, verdict=verdict)


def _verdict(found: Check, evidence: permutation.Evidence, look: Look) -> Verdict:
    # A gain is flagged at the false-alarm rate of its own.
    sign = 1.0 if found.terms.higher_is_better else -1.0
    gains = [sign * row.difference for row in found.rows if row.p_better <= look.alpha]
    if evidence.not_lost > look.miss:
        return "worse" if evidence.worse <= look.alpha else "undecided"
    return "better" if max(gains, default=0.0) >= found.design.effect else "no worse"


def _row(
    name: str,
    before: Floats,
    after: Floats,
    evidence: permutation.Evidence,
    i: int,
    sign: float,
    paired: bool,
) -> Row:
    """before, after: one score of the seeds, higher is better; sign: -1 where it is not so."""
    n, m = len(after), len(before)
    difference = float(after.mean() - before.mean())
    if paired:
        error, freedom = float((after - before).std(ddof=1)) / math.sqrt(n), n - 1.0
    else:
        ours, theirs = after.var(ddof=1) / n, before.var(ddof=1) / m
        error = math.sqrt(ours + theirs)
        # Welch and Satterthwaite
        parts = ours**2 / (n - 1) + theirs**2 / (m - 1)
        freedom = float((ours + theirs) ** 2 / parts) if parts > 0 else n + m - 2.0
    reach = -student_quantile(freedom, 0.025) * error
    ends = sorted((sign * (difference - reach), sign * (difference + reach)))
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

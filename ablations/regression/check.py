"""A check of new curves against a baseline's, with stated error rates, and its messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from ablations import stats
from ablations.curve import Curve
from ablations.errors import UserError
from ablations.regression import ALPHA, EFFECT, MOST_SEEDS
from ablations.regression.curves import (
    SCORES,
    Curves,
    Score,
    first_difference,
    require_same_steps,
    require_scores,
)
from ablations.regression.design import PERMUTATIONS, Design, Evidence, design, unpaired
from ablations.scoring import final, learned_range
from ablations.stats import Floats, are_successes, decide
from ablations.stats.interim import Stage, Stages

if TYPE_CHECKING:
    import pandas

Outcome = Literal["pass", "fail", "undecided"]
Scores = Mapping[str, Floats]
Wanted = Mapping[str, tuple[int, ...]]  # the seeds to train, by the name of a check


@dataclass(frozen=True)
class Terms:
    """The terms of a check.

    Attributes:
        alpha: probability of calling an unchanged trainer worse, on average over baselines (see
            `Design.lucky`).
        effect: the smallest loss worth detecting, as a share of `unit`.
        unit: in units of the metric; None: the baseline's learned range (see `learned`).
        most: upper bound of the number of seeds.
        scores: functions of a curve; a loss in any of them counts.
    """

    alpha: float = ALPHA
    effect: float = EFFECT
    unit: float | None = None
    higher_is_better: bool = True
    most: int = MOST_SEEDS
    scores: Mapping[str, Score] = field(default_factory=lambda: SCORES)

    @property
    def sign(self) -> float:
        """1, or -1 if lower is better."""
        return 1.0 if self.higher_is_better else -1.0


@dataclass(frozen=True)
class Row:
    """The means of a score over seeds and their difference, now - baseline.

    Attributes:
        low, high: Welch's 95% interval; exact for success rates; 0 for identical curves.
        p_worse, p_better: p-values of a loss and of a gain, corrected over the scores.
        verdict: of `stats.decide`.
    """

    score: str
    baseline: float
    now: float
    difference: float
    low: float
    high: float
    p_worse: float
    p_better: float
    verdict: str


@dataclass(frozen=True)
class Check:
    """The result of a check.

    Attributes:
        outcome: "pass" if every score excludes a loss as large as the effect; "fail" if a loss is
            significant and a loss as large as the effect is not excluded; else "undecided".
        rows: one per score.
        baseline, now: curves at the same steps.
        trained: the new curves at their own steps.
        identical: whether the curves of shared seeds are equal bit by bit.
        differs: seed and step of the first difference in bits; None if there is none.
    """

    outcome: Outcome
    rows: tuple[Row, ...]
    design: Design
    terms: Terms
    unit: float
    baseline: Curves
    now: Curves
    trained: Curves
    identical: bool = False
    differs: tuple[int, float] | None = None

    @property
    def decided(self) -> bool:
        """Whether no further stage is needed."""
        return self.outcome != "undecided"

    @property
    def verdict(self) -> str:
        """The verdict on the trainer: worse, better, equivalent or inconclusive."""
        verdicts = {row.verdict for row in self.rows}
        if self.outcome == "fail":
            return "worse"
        if self.outcome == "pass" and "better" in verdicts:
            return "better"
        equivalent = self.outcome == "pass" and verdicts == {"equivalent"}
        return "equivalent" if equivalent else "inconclusive"

    @property
    def below(self) -> bool:
        """Whether it passes with a significant loss within the margin."""
        return self.outcome == "pass" and self.worst.p_worse <= self.terms.alpha

    @property
    def worst(self) -> Row:
        """The score with the strongest evidence of a loss."""
        return min(self.rows, key=lambda row: (row.p_worse, self.terms.sign * row.difference))

    @property
    def best(self) -> Row:
        """The score with the strongest evidence of a gain."""
        return min(self.rows, key=lambda row: (row.p_better, -self.terms.sign * row.difference))


def learned(curves: Curves) -> tuple[float, float]:
    """Return the ends of the learned range of some curves (see `scoring.learned_range`).

    Curves that do not rise above their noise have one standard deviation of their final scores
    instead, at least a rounding error. Success rates have the range from 0 to 1.
    """
    low, high = learned_range([Curve(*run) for run in curves.runs.values()])
    if not math.isnan(high - low):
        return low, high
    ends = curves.scores({"final": final})["final"]
    ends = ends[~np.isnan(ends)]
    if are_successes(ends):
        return 0.0, 1.0
    size = float(np.max(np.abs(ends), initial=0.0)) or 1.0
    half = max(float((ends / size).std()), 1e-9) * size / 2
    return float(ends.mean()) - half, float(ends.mean()) + half


def check(baseline: Curves, now: Curves, terms: Terms | None = None) -> Check:
    """Check existing curves in one stage. Raises UserError for incomparable curves."""
    terms = terms or Terms()
    require_same_steps(now, baseline)
    # Identical curves pass with any number of seeds.
    exactly = None if _identical(baseline, now) else len(now)
    test = SequentialCheck.of(baseline, terms, exactly)
    return test.decide(test.stages[-1], now, ())


def sequential(
    baseline: Curves, more: Callable[[tuple[int, ...]], Curves], terms: Terms | None = None
) -> Check:
    """Check a few seeds first, and more while undecided. `more` returns the curves of seeds."""

    def train(wanted: Wanted) -> dict[str, Curves]:
        seeds = wanted[""]
        curves = more(seeds)
        trained = [*curves.seeds, *curves.failed]
        if sorted(trained) != sorted(seeds):
            raise UserError(
                f"the function was called with the seeds {', '.join(map(str, seeds))}, but "
                f"returned curves of {', '.join(map(str, trained)) or 'none'}"
            )
        return {"": curves}

    return play_checks({"": SequentialCheck.of(baseline, terms or Terms())}, train)[""]


def play_checks(
    tests: Mapping[str, SequentialCheck], train: Callable[[Wanted], Mapping[str, Curves]]
) -> dict[str, Check]:
    """Run several checks together: each round trains the seeds that undecided checks need."""
    made: dict[str, tuple[Check, ...]] = dict.fromkeys(tests, ())
    while due := {
        name: test.stages[len(made[name])]
        for name, test in tests.items()
        if len(made[name]) < len(test.stages) and not (made[name] and made[name][-1].decided)
    }:
        trained = train({name: tests[name].needs(at, made[name]) for name, at in due.items()})
        for name, at in due.items():
            made[name] += (tests[name].decide(at, trained[name], made[name]),)
    return {name: checks[-1] for name, checks in made.items()}


@dataclass(frozen=True)
class SequentialCheck:
    """A check of curves that are trained in stages.

    The baseline's own seeds come first: an unchanged trainer gives the same bits, so the check ends
    at the first stage.
    """

    baseline: Curves
    terms: Terms
    design: Design
    unit: float

    @classmethod
    def of(cls, baseline: Curves, terms: Terms, exactly: int | None = None) -> SequentialCheck:
        """Plan a check, or a single stage of `exactly` seeds. Raises UserError."""
        low, high = learned(baseline)
        unit = high - low if terms.unit is None else float(terms.unit)
        if not 0 < unit < math.inf:
            raise UserError(f"the unit of the effect must be above 0, not {unit:g}")
        require_scores(baseline, terms.scores)
        old, _ = _signed_scores(baseline, baseline.of(()), terms)
        plan = design(old, terms.effect * unit, terms.alpha, terms.most, exactly=exactly)
        return cls(baseline, terms, plan, unit)

    @property
    def stages(self) -> Stages:
        """The stages of the design."""
        return self.design.stages

    def needs(self, stage: Stage, before: Sequence[Check]) -> tuple[int, ...]:
        """Return the seeds to train."""
        own, number = self.baseline.seeds, stage.seeds
        after = max([*own, *self.baseline.failed], default=-1) + 1
        known = len(before[-1].trained) if before else 0
        return (*own, *range(after, after + number))[known:number]

    def decide(self, stage: Stage, runs: Curves, past: Sequence[Check]) -> Check:
        """Judge these curves together with the curves of earlier stages."""
        require_same_steps(runs, self.baseline)
        known = past[-1].trained if past else Curves({})
        trained = Curves({**known.runs, **runs.runs}, {**known.failed, **runs.failed})
        same = _identical(self.baseline, trained)
        baseline, now = self.baseline, trained
        if now.runs and not np.array_equal(now.steps, baseline.steps):
            require_same_steps(now, baseline)
            now, baseline = (of.at(baseline.steps) for of in (now, baseline))
        require_scores(now, self.terms.scores)
        old, new = _signed_scores(baseline, now, self.terms)
        about = (self.design, self.terms, self.unit, baseline, now, trained)
        if same:
            means = {name: self.terms.sign * float(of.mean()) for name, of in new.items()}
            equal = (0.0, 0.0, 0.0, 1.0, 1.0, "equivalent")
            rows = [Row(name, mean, mean, *equal) for name, mean in means.items()]
            return Check("pass", tuple(rows), *about, identical=True)
        evidence = self._evidence(old, new, stage)
        outcome: Outcome = "undecided"
        if (evidence.not_lost <= stage.miss).all():
            outcome = "pass"
        elif (evidence.worse <= stage.level).any():
            outcome = "fail"
        rows, sign = list[Row](), self.terms.sign
        for i, (name, theirs) in enumerate(old.items()):
            ours, exact = new[name], _outcomes(theirs, new[name])
            difference = stats.welch(ours, theirs)
            if exact:
                difference = stats.outcomes(*exact, by_seed=False)
            low, high = difference.low, difference.high
            if math.isnan(low) and difference.sd == 0:  # all differences are the same number
                low = high = difference.difference
            p = float(evidence.worse[i]), float(evidence.better[i])
            # `decide` takes an interval. Its ends here stand for the results of the tests: is the
            # difference above minus the effect, above or below 0, and below the effect?
            effect, lost = self.design.effect, p[0] <= stage.level
            kept = evidence.not_lost[i] <= stage.miss
            least = effect / 2 if p[1] <= stage.level else -effect / 2 if kept else -math.inf
            most = -effect / 2 if lost else effect / 2 if high < effect else math.inf
            # If the check fails, a significant loss is worse, whatever its size.
            verdict = decide(least, most, math.nan if lost and outcome == "fail" else effect)
            before, after = (sign * float(side.mean()) for side in (theirs, ours))
            low, high = sorted((sign * low, sign * high))
            change = sign * difference.difference
            rows.append(Row(name, before, after, change, low, high, *p, verdict))
        differs = first_difference(trained, self.baseline)
        return Check(outcome, tuple(rows), *about, differs=differs)

    def _evidence(self, old: Scores, new: Scores, stage: Stage) -> Evidence:
        before, after = (np.stack(list(each.values()), axis=1) for each in (old, new))
        loss = np.full(len(old), self.design.effect)
        # Enough permutations for 20 of them below the level.
        count = min(400_000, max(PERMUTATIONS, math.ceil(20 / stage.level)))
        evidence = unpaired(after, before, loss, count)
        # The permutation test assumes a shift, but a success rate does not shift.
        for i, (theirs, ours) in enumerate(zip(old.values(), new.values(), strict=True)):
            if outcomes := _outcomes(theirs, ours):
                evidence.not_lost[i] = stats.loss_p(*outcomes, self.design.effect, by_seed=False)
        return evidence


def _identical(baseline: Curves, now: Curves) -> bool:
    common = bool(now.runs) and not now.failed and set(now.seeds) <= set(baseline.seeds)
    return common and first_difference(now, baseline) is None


def _signed_scores(
    baseline: Curves, now: Curves, terms: Terms
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the scores of both sides, signed so that higher is better.

    A failed seed gets the start of the learned range, or the lowest score of any seed if lower.
    """
    sign = terms.sign
    start = min(sign * end for end in learned(baseline))
    old, new = baseline.scores(terms.scores), now.scores(terms.scores)
    for name in old:
        worst = start if _outcomes(old[name], new[name]) is None else min(0.0, sign)
        lowest = min(worst, *(sign * old[name]), *(sign * new[name]))
        for of, curves in ((old, baseline), (new, now)):
            of[name] = np.append(sign * of[name], np.full(len(curves.failed), lowest))
    return old, new


def _outcomes(before: Floats, after: Floats) -> tuple[Floats, Floats] | None:
    """Return scores after and before as 1 (success) and 0, or None if they are no success rates."""
    both = np.concatenate([after, before])
    if not are_successes(np.abs(both)):
        return None
    shift = float(both.min() < 0)  # lower is better: scores of -1 and 0
    return after + shift, before + shift


# Text

SCORE_NAMES = {"final": "final performance", "auc": "area under the curve"}


def score_name(score: str) -> str:
    """Return the name of a score in words; a user's own score keeps its name."""
    return SCORE_NAMES.get(score, score)


def plan_line(name: str, test: SequentialCheck) -> str:
    """Return a line with the planned seeds, the error rates and the detectable loss."""
    design, terms = test.design, test.terms
    first, *more = map(str, design.stages.seeds)
    seeds = f"{first} seeds" + (f", up to {more[-1]} while undecided" if more else "")
    detected = max(design.effect, *design.caught.values())
    return (
        f"{name}: {seeds}, against the baseline's {design.old_seeds}; false alarms: at most "
        f"{terms.alpha:.2g} on average over baselines (about {design.lucky:.1g} if the baseline's "
        f"mean is two standard errors too high); detects with 95%: a loss of "
        f"{_share(detected, test)}{_shortfall(test)}"
    )


def _shortfall(test: SequentialCheck | Check) -> str:
    """Return how many seeds would detect the effect; "" if these detect it."""
    design = test.design
    if max(design.caught.values()) <= 1.001 * design.effect:
        return ""
    enough = "a baseline of more seeds" if design.needed is None else f"{design.needed} seeds"
    return f"; a loss of {_share(design.effect, test)} would need {enough}"


def line(name: str, check: Check) -> str:
    """Return a check in a line: the outcome, the verdict, the score and its difference."""
    if check.identical:
        return f"{name}: identical bit for bit on {len(check.now)} seeds"
    diverged = f"; {len(check.now.failed)} diverged" if check.now.failed else ""
    seeds = f"({len(check.now)} seeds against {len(check.baseline)}{diverged})"
    effect = f"a loss of {_share(check.design.effect, check)}"
    worst = _change(check, check.worst)
    if check.outcome == "fail":
        return f"{name} got worse: {worst} {seeds}"
    if check.outcome == "undecided":
        return (
            f"{name} is undecided: {effect} is neither shown nor ruled out: {worst} "
            f"{seeds}{_shortfall(check)}"
        )
    below = f"; below 0, within the margin: {worst}" if check.below else ""
    if check.verdict == "better":
        gain = _change(check, check.best)
        return f"{name} is better: {gain}{below} {seeds}; update the baseline to keep the gain"
    return f"{name} passes, {check.verdict}: {effect} is ruled out{below} {seeds}"


def _change(check: Check, row: Row) -> str:
    is_gain = check.terms.sign * row.difference > 0
    p = row.p_better if is_gain else row.p_worse
    return (
        f"{score_name(row.score)} {row.baseline:.4g} → {row.now:.4g}, {row.difference:+.3g} "
        f"[{row.low:+.3g}, {row.high:+.3g}], a {'gain' if is_gain else 'loss'} of "
        f"{_percent(abs(row.difference) / check.unit)} of {_unit(check.terms)}, "
        f"p {'< .001' if p < 0.001 else f'= {p:.3f}'.replace('0.', '.')}"
    )


def _share(loss: float, test: SequentialCheck | Check) -> str:
    return f"{loss:.3g} ({_percent(loss / test.unit)} of {_unit(test.terms)})"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.095 else f"{100 * share:.1f}%"


def _unit(terms: Terms) -> str:
    return "what the baseline learns" if terms.unit is None else "its unit"


def table(checks: Mapping[str, Check]) -> pandas.DataFrame:
    """Return a row per score of each check, for `format_table`."""
    import pandas  # delayed: a check that passes needs no table

    return pandas.DataFrame(
        {
            **({"task": name} if name else {}),
            "score": score_name(row.score),
            "before": row.baseline,
            "now": row.now,
            "difference": row.difference,
            "difference_low": row.low,
            "difference_high": row.high,
            "p_worse": math.nan if check.identical else row.p_worse,
            "seeds": f"{len(check.now)} / {len(check.baseline)}",
            "verdict": row.verdict,
            "note": "identical" if check.identical else "",
        }
        for name, check in checks.items()
        for row in check.rows
    )


def caption(checks: Sequence[Check]) -> str:
    """Return the caption of `table`, with the error rate of all checks together."""
    return (
        f"Means over seeds of the baseline (before) and now. Intervals: Welch's t; exact for "
        f"success rates. p_worse: of a loss, by a permutation test corrected over the scores. The "
        f"probability that any of these checks calls an unchanged trainer worse is at most "
        f"{sum(check.terms.alpha for check in checks):.2g}, on average over baselines. It is "
        f"higher if the baseline's seeds did well by chance, most of all with few seeds."
    )

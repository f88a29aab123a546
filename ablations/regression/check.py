"""A check of new curves against a baseline's, with stated error rates, and its messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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

if TYPE_CHECKING:
    import pandas

Outcome = Literal["pass", "fail", "undecided"]
Scores = Mapping[str, Floats]


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
    """A check of curves that are trained in stages, after some of them.

    The baseline's own seeds come first: an unchanged trainer gives the same bits, so the check ends
    at the first stage.

    Attributes:
        unit: of the effect, in units of the metric.
        now: the new curves of all stages so far.
        stage: the number of analysed stages.
        outcome: "pass" if every score excludes a loss as large as the effect; "fail" if a loss is
            significant and a loss as large as the effect is not excluded; else "undecided".
        rows: one per score.
    """

    baseline: Curves
    terms: Terms
    unit: float
    design: Design
    now: Curves = field(default_factory=lambda: Curves({}))
    stage: int = 0
    outcome: Outcome = "undecided"
    rows: tuple[Row, ...] = ()

    def due(self) -> tuple[int, ...]:
        """Return the seeds to train for the next stage; none if no stage is needed."""
        if self.outcome != "undecided" or self.stage == len(self.design.stages):
            return ()
        own, number = self.baseline.seeds, self.design.stages[self.stage].seeds
        after = max([*own, *self.baseline.failed], default=-1) + 1
        return (*own, *range(after, after + number))[len(self.now) : number]

    def after(self, more: Curves) -> Check:
        """Return the check after its next stage, with the curves trained for it."""
        require_same_steps(more, self.baseline)
        now = Curves({**self.now.runs, **more.runs}, {**self.now.failed, **more.failed})
        ended, sign = replace(self, now=now, stage=self.stage + 1), self.terms.sign
        baseline = self.baseline
        if now.runs and not np.array_equal(now.steps, baseline.steps):
            now, baseline = (side.at(baseline.steps) for side in (now, baseline))
        require_scores(now, self.terms.scores)
        old, new = _signed_scores(baseline, now, self.terms)
        if ended.identical:
            equal = (0.0, 0.0, 0.0, 1.0, 1.0, "equivalent")
            means = {name: sign * float(of.mean()) for name, of in new.items()}
            same = [Row(name, mean, mean, *equal) for name, mean in means.items()]
            return replace(ended, outcome="pass", rows=tuple(same))
        stage = self.design.stages[self.stage]
        evidence = _evidence(old, new, self.design.effect, stage.level)
        outcome: Outcome = "undecided"
        if (evidence.not_lost <= stage.miss).all():
            outcome = "pass"
        elif (evidence.worse <= stage.level).any():
            outcome = "fail"
        rows = list[Row]()
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
            before, after = sign * float(theirs.mean()), sign * float(ours.mean())
            low, high = sorted((sign * low, sign * high))
            change = sign * difference.difference
            rows.append(Row(name, before, after, change, low, high, *p, verdict))
        return replace(ended, outcome=outcome, rows=tuple(rows))

    @property
    def differs(self) -> tuple[int, float] | None:
        """Seed and step of the first difference in bits; None if there is none."""
        return first_difference(self.now, self.baseline)

    @cached_property
    def identical(self) -> bool:
        """Whether all new curves are equal bit by bit to the baseline's of the same seeds."""
        return _identical(self.now, self.baseline)

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
    def worst(self) -> Row:
        """The score with the strongest evidence of a loss."""
        return min(self.rows, key=lambda row: (row.p_worse, self.terms.sign * row.difference))

    @property
    def best(self) -> Row:
        """The score with the strongest evidence of a gain."""
        return min(self.rows, key=lambda row: (row.p_better, -self.terms.sign * row.difference))


def plan_check(baseline: Curves, terms: Terms | None = None, exactly: int | None = None) -> Check:
    """Plan a check, or a single stage of `exactly` seeds. Raises UserError."""
    terms = terms or Terms()
    low, high = learned(baseline)
    unit = high - low if terms.unit is None else float(terms.unit)
    if not 0 < unit < math.inf:
        raise UserError(f"the unit of the effect must be above 0, not {unit:g}")
    require_scores(baseline, terms.scores)
    old, _ = _signed_scores(baseline, Curves({}), terms)
    effect = terms.effect * unit
    planned = design(old, effect, terms.alpha, terms.most, exactly=exactly)
    return Check(baseline, terms, unit, planned)


def check(baseline: Curves, now: Curves, terms: Terms | None = None) -> Check:
    """Check existing curves in one stage. Raises UserError for incomparable curves."""
    require_same_steps(now, baseline)
    # Identical curves pass with any number of seeds.
    exactly = None if _identical(now, baseline) else len(now)
    return plan_check(baseline, terms, exactly).after(now)


def sequential(
    baseline: Curves, more: Callable[[tuple[int, ...]], Curves], terms: Terms | None = None
) -> Check:
    """Check a few seeds first, and more while undecided. `more` returns the curves of seeds."""

    def train(due: Mapping[str, tuple[int, ...]]) -> dict[str, Curves]:
        curves = more(due[""])
        trained = [*curves.seeds, *curves.failed]
        if sorted(trained) != sorted(due[""]):
            raise UserError(
                f"the function was called with the seeds {', '.join(map(str, due['']))}, but "
                f"returned curves of {', '.join(map(str, trained)) or 'none'}"
            )
        return {"": curves}

    return play_checks({"": plan_check(baseline, terms)}, train)[""]


def play_checks(
    checks: Mapping[str, Check],
    train: Callable[[Mapping[str, tuple[int, ...]]], Mapping[str, Curves]],
) -> dict[str, Check]:
    """Run several checks together: each round trains the seeds that undecided checks need."""
    checks = dict(checks)
    while due := {name: seeds for name, check in checks.items() if (seeds := check.due())}:
        trained = train(due)
        checks |= {name: checks[name].after(trained[name]) for name in due}
    return checks


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


def _evidence(old: Scores, new: Scores, effect: float, level: float) -> Evidence:
    before, after = (np.stack(list(each.values()), axis=1) for each in (old, new))
    # Enough permutations for 20 of them below the level.
    count = min(400_000, max(PERMUTATIONS, math.ceil(20 / level)))
    evidence = unpaired(after, before, np.full(len(old), effect), count)
    # The permutation test assumes a shift, but a success rate does not shift.
    for i, (theirs, ours) in enumerate(zip(old.values(), new.values(), strict=True)):
        if outcomes := _outcomes(theirs, ours):
            evidence.not_lost[i] = stats.loss_p(*outcomes, effect)
    return evidence


def _identical(now: Curves, baseline: Curves) -> bool:
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


def plan_line(name: str, check: Check) -> str:
    """Return a line with the planned seeds, the error rates and the detectable loss."""
    design, terms = check.design, check.terms
    first, *more = map(str, design.stages.seeds)
    seeds = f"{first} seeds" + (f", up to {more[-1]} while undecided" if more else "")
    detected = max(design.effect, *design.caught.values())
    return (
        f"{name}: {seeds}, against the baseline's {len(check.baseline)}; false alarms: at most "
        f"{terms.alpha:.2g} on average over baselines (about {design.lucky:.1g} if the baseline's "
        f"mean is two standard errors too high); detects with 95%: a loss of "
        f"{detected:.3g} ({_share(detected, check)}){_shortfall(check)}"
    )


def _shortfall(check: Check) -> str:
    """Return how many seeds would detect the effect; "" if these detect it."""
    design = check.design
    if max(design.caught.values()) <= 1.001 * design.effect:
        return ""
    enough = "a baseline of more seeds" if design.needed is None else f"{design.needed} seeds"
    loss = f"{design.effect:.3g} ({_share(design.effect, check)})"
    return f"; a loss of {loss} would need {enough}"


def line(name: str, check: Check) -> str:
    """Return a check in a line: the outcome, the verdict, the score and its difference."""
    if check.identical:
        return f"{name}: identical bit for bit on {len(check.now)} seeds"
    diverged = f"; {len(check.now.failed)} diverged" if check.now.failed else ""
    seeds = f"({len(check.now)} seeds against {len(check.baseline)}{diverged})"
    effect = f"a loss of {check.design.effect:.3g} ({_share(check.design.effect, check)})"
    worst = _change(check, check.worst)
    if check.outcome == "fail":
        return f"{name} got worse: {worst} {seeds}"
    if check.outcome == "undecided":
        return (
            f"{name} is undecided: {effect} is neither shown nor ruled out: {worst} "
            f"{seeds}{_shortfall(check)}"
        )
    lost = check.worst.p_worse <= check.terms.alpha
    below = f"; below 0, within the margin: {worst}" if lost else ""
    if check.verdict == "better":
        gain = _change(check, check.best)
        return f"{name} is better: {gain}{below} {seeds}; update the baseline to keep the gain"
    return f"{name} passes, {check.verdict}: {effect} is ruled out{below} {seeds}"


def _change(check: Check, row: Row) -> str:
    is_gain = check.terms.sign * row.difference > 0
    p = row.p_better if is_gain else row.p_worse
    return (
        f"{SCORE_NAMES.get(row.score, row.score)} {row.baseline:.4g} → {row.now:.4g}, "
        f"{row.difference:+.3g} [{row.low:+.3g}, {row.high:+.3g}], "
        f"a {'gain' if is_gain else 'loss'} of {_share(abs(row.difference), check)}, "
        f"p {'< .001' if p < 0.001 else f'= {p:.3f}'.replace('0.', '.')}"
    )


def _share(loss: float, check: Check) -> str:
    """Write a loss as a share of the unit."""
    share, unit = loss / check.unit, "its unit"
    if check.terms.unit is None:
        unit = "what the baseline learns"
    return f"{100 * share:.{int(share < 0.095)}f}% of {unit}"


def table(checks: Mapping[str, Check]) -> pandas.DataFrame:
    """Return a row per score of each check, for `format_table`."""
    import pandas  # delayed: a check that passes needs no table

    return pandas.DataFrame(
        {
            **({"task": name} if name else {}),
            "score": SCORE_NAMES.get(row.score, row.score),
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

"""Checks of runs that are a success or a failure each: exact, at every rate and number of seeds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from ablations.regression import messages
from ablations.regression.check import Check, Terms, check, layout, learned
from ablations.regression.curves import Curves
from ablations.report.statistics.rates import compare_outcomes, loss_p

SCORE = {"solved": lambda steps, values: float(values[-1])}


def runs(successes: int, trials: int, first: int = 0, points: int = 2) -> Curves:
    """Runs of one outcome each, successes first."""
    outcomes = np.repeat([1.0, 0.0], [successes, trials - successes])
    seeds = tuple(range(first, first + trials))
    return Curves(seeds, np.arange(1.0, points + 1), np.repeat(outcomes[:, None], points, axis=1))


def outcome(new: tuple[int, int], old: tuple[int, int], **terms: object) -> Check:
    return check(runs(*old), runs(*new, first=100), Terms(scores=SCORE, **terms))


def test_a_rate_is_compared_by_exact_intervals() -> None:
    found = outcome((10, 12), (20, 24), effect=0.2)
    (row,) = found.rows
    ours, theirs = (
        stats.binomtest(*of).proportion_ci(0.975, "exact") for of in ((10, 12), (20, 24))
    )
    assert (row.low, row.high) == pytest.approx((ours.low - theirs.high, ours.high - theirs.low))
    assert row.exact
    assert (found.unit, found.verdict) == (1.0, "undecided")
    assert "of success rates (every run 0 or 1) the exact one" in messages.caption([found])


@pytest.mark.parametrize(
    ("new", "effect", "verdict"),
    [((30, 30), 0.5, "no worse"), ((30, 30), 0.1, "undecided"), ((4, 30), 0.2, "worse")],
)
def test_verdicts_on_rates(new: tuple[int, int], effect: float, verdict: str) -> None:
    """30 of 30 successes rule out a loss of half, against 24 of 24, and not one of a tenth."""
    found = outcome(new, (24, 24), effect=effect)
    assert found.verdict == verdict
    assert found.rows[0].low < found.rows[0].difference < 0 or new == (30, 30)


def test_a_loss_is_shown_by_fisher_s_test() -> None:
    for new in ((6, 12), (3, 12), (9, 12)):
        want = stats.fisher_exact([[new[0], 12 - new[0]], [20, 4]], "less").pvalue
        assert outcome(new, (20, 24)).rows[0].p_worse == pytest.approx(want, abs=0.01)


def test_pairs_are_compared_by_mcnemar_s_test() -> None:
    old, new = runs(18, 24), runs(10, 24)
    found = check(old, new, Terms(scores=SCORE, paired=True, effect=0.2))
    (row,) = found.rows
    want = compare_outcomes(new.values[:, 0], old.values[:, 0], paired=True)
    assert (row.low, row.high) == (want.low, want.high)
    assert row.p_worse == pytest.approx(stats.binomtest(0, 8, alternative="less").pvalue, abs=0.002)
    assert found.verdict == "worse"


def test_failures_of_which_fewer_are_better() -> None:
    up = check(runs(20, 24), runs(10, 12, 100), Terms(scores=SCORE))
    down = check(runs(4, 24), runs(2, 12, 100), Terms(scores=SCORE, higher_is_better=False))
    (gain,), (loss,) = up.rows, down.rows
    assert (loss.low, loss.high) == pytest.approx((-gain.high, -gain.low))
    assert up.verdict == down.verdict


def test_identical_runs_and_runs_without_any_success_are_as_ever() -> None:
    same = check(runs(20, 24), runs(20, 24), Terms(scores=SCORE))
    assert (same.verdict, same.rows[0].exact, same.rows[0].low) == ("identical", False, 0.0)
    assert not outcome((0, 12), (0, 24)).rows[0].exact


def test_a_diverged_run_is_a_failure() -> None:
    """Whatever the curves are, of which the score counts the outcome."""
    steps, values = np.array([1.0, 2.0]), np.tile([-200.0, -3.0], (23, 1))
    solved = {"solved": lambda steps, values: float(values[-1] > -5)}
    old = Curves(tuple(range(24)), steps, np.vstack([values, [[-200.0, -9.0]]]))
    new = Curves(tuple(range(100, 123)), steps, values, {123: "NaN"})
    (row,) = check(old, new, Terms(scores=solved, unit=1.0)).rows
    assert (row.exact, row.difference) == (True, 0.0)


def test_a_baseline_that_always_succeeds_plans_for_failures() -> None:
    """Its spread is not 0, so that four seeds do not pretend to see a loss of a fifth."""
    made, unit = layout(runs(24, 24), Terms(scores=SCORE, effect=0.1))
    assert unit == learned(runs(24, 24)).size == 1.0
    assert made.caught["solved"] > 0
    assert made.most_seeds > 4


@pytest.mark.parametrize("paired", [False, True])
def test_a_loss_is_ruled_out_by_the_end_of_the_interval(paired: bool) -> None:
    new, old = np.repeat([1.0, 0.0], [11, 1]), np.repeat([1.0, 0.0], [10, 2])
    p = loss_p(new, old, 0.45, paired=paired)
    for level, side in ((2 * p - 1e-6, -1), (2 * p + 1e-6, 1)):
        low = compare_outcomes(new, old, paired=paired, level=level).low
        assert np.sign(low + 0.45) == side


def test_a_loss_of_the_effect_is_missed_no_more_often_than_said() -> None:
    """Over all outcomes of 5 runs against 6, at the rates where a loss is just the effect."""
    effect, level = 0.3, 0.1
    passes = [
        (k, m)
        for k, m in itertools.product(range(6), range(7))
        if loss_p(*(np.arange(n) < of for n, of in ((5, k), (6, m))), effect, paired=False) <= level
    ]
    assert (5, 0) in passes
    for rate in (0.3, 0.6, 0.95, 1.0):
        chances = (
            stats.binom.pmf(k, 5, rate - effect) * stats.binom.pmf(m, 6, rate) for k, m in passes
        )
        assert sum(chances) <= level

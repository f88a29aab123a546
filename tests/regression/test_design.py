"""The tests of a check: exact, by counting every assignment, and by how often they are wrong; and
checks of runs that are a success or a failure each."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from ablations.regression.check import Check, Terms, check, learned, plan_check
from ablations.regression.curves import Curves, from_user
from ablations.regression.design import PRIOR_SEEDS, unpaired


def moderated_t(ours: np.ndarray, theirs: np.ndarray) -> float:
    """As its definition says, one number at a time."""
    n, m = len(ours), len(theirs)
    ss_ours = sum((x - ours.mean()) ** 2 for x in ours)
    ss_theirs = sum((x - theirs.mean()) ** 2 for x in theirs)
    pooled = (ss_ours + ss_theirs) / (n + m - 2)
    v_ours = (ss_ours + PRIOR_SEEDS * pooled) / (n - 1 + PRIOR_SEEDS)
    v_theirs = (ss_theirs + PRIOR_SEEDS * pooled) / (m - 1 + PRIOR_SEEDS)
    return float((ours.mean() - theirs.mean()) / math.sqrt(v_ours / n + v_theirs / m))


def test_p_is_the_share_of_all_assignments_that_look_as_bad() -> None:
    random = np.random.default_rng(0)
    ours, theirs = random.normal(size=(4, 2)) - 0.8, random.normal(size=(6, 2))
    together = np.concatenate([ours, theirs])
    every = []
    for chosen in itertools.combinations(range(10), 4):
        others = [i for i in range(10) if i not in chosen]
        every.append([moderated_t(together[list(chosen), k], together[others, k]) for k in (0, 1)])
    observed = [moderated_t(ours[:, k], theirs[:, k]) for k in (0, 1)]
    found = unpaired(ours, theirs, [1.0, 1.0], permutations=100_000)
    worst, best = np.min(every, axis=1), np.max(every, axis=1)
    worse = [np.mean(worst <= t + 1e-9) for t in observed]
    better = [np.mean(best >= t - 1e-9) for t in observed]
    assert found.worse == pytest.approx(worse, abs=0.006)
    assert found.better == pytest.approx(better, abs=0.006)


@pytest.mark.parametrize("shape", ["skewed", "bimodal", "ceiling"])
def test_false_alarms_are_no_more_than_the_level(shape: str) -> None:
    """4 new seeds against 10, of returns that are nothing like normal; two scores that go together.
    At most 5% of 1,000: 3.4 standard errors are 2.3%."""
    random = np.random.default_rng(1)
    alarms = 0
    for _ in range(1_000):
        raw = random.normal(size=14)
        returns = {
            "skewed": np.exp(1.5 * raw),
            "bimodal": np.where(raw > 1.0, -20.0, raw),
            "ceiling": np.minimum(raw, 0.0),
        }[shape]
        scores = np.stack([returns, returns + random.normal(size=14)], axis=1)
        alarms += unpaired(scores[:4], scores[4:], [1.0, 1.0], 400).worse.min() <= 0.05
    assert 0.01 < alarms / 1_000 < 0.073


def test_a_loss_is_ruled_out_no_oftener_than_the_level_where_it_is_real() -> None:
    random = np.random.default_rng(2)
    missed = 0
    for _ in range(1_000):
        ours, theirs = random.exponential(size=(6, 1)) - 2.0, random.exponential(size=(12, 1))
        missed += unpaired(ours, theirs, [2.0], 400).not_lost[0] <= 0.05
    assert 0.02 < missed / 1_000 < 0.073


def test_neither_unit_nor_offset_nor_order_matters() -> None:
    random = np.random.default_rng(3)
    ours, theirs = random.normal(size=(6, 2)), random.normal(size=(12, 2))
    plain = unpaired(ours, theirs, [0.5, 0.5])
    moved = unpaired(1e6 * ours + 1e7, 1e6 * theirs + 1e7, [5e5, 5e5])
    for name in ("worse", "better", "not_lost"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(moved, name))
    upside_down = unpaired(-ours, -theirs, [0.5, 0.5])
    np.testing.assert_array_equal(upside_down.worse, plain.better)


def test_seeds_without_any_spread() -> None:
    same = unpaired(np.ones((4, 1)), np.ones((10, 1)), [0.1])
    assert same.worse == same.better == 1.0
    lower = unpaired(np.zeros((4, 1)), np.ones((10, 1)), [0.1])
    assert lower.worse < 0.005 < lower.not_lost


# Success rates

SCORE = {"solved": lambda steps, values: float(values[-1])}


def runs(successes: int, trials: int, first: int = 0) -> Curves:
    """Runs of one outcome each, successes first."""
    values = np.repeat([1.0, 0.0], [successes, trials - successes])
    rows = np.repeat(values[:, None], 2, axis=1)
    return from_user(rows, seeds=range(first, first + trials))


def outcome(new: tuple[int, int], old: tuple[int, int], **terms: object) -> Check:
    return check(runs(*old), runs(*new, first=100), Terms(scores=SCORE, **terms))


def test_a_rate_is_compared_by_exact_intervals() -> None:
    found = outcome((10, 12), (20, 24), effect=0.2)
    (row,) = found.rows
    ours, theirs = (
        stats.binomtest(*of).proportion_ci(0.975, "exact") for of in ((10, 12), (20, 24))
    )
    assert (row.low, row.high) == pytest.approx((ours.low - theirs.high, ours.high - theirs.low))
    assert (found.unit, found.outcome) == (1.0, "undecided")


@pytest.mark.parametrize(
    ("new", "effect", "outcomes_"),
    [((30, 30), 0.5, "pass"), ((30, 30), 0.1, "undecided"), ((4, 30), 0.2, "fail")],
)
def test_outcomes_on_rates(new: tuple[int, int], effect: float, outcomes_: str) -> None:
    """30 of 30 successes rule out a loss of half, against 24 of 24, and not one of a tenth."""
    found = outcome(new, (24, 24), effect=effect)
    assert found.outcome == outcomes_
    assert found.rows[0].low < found.rows[0].difference < 0 or new == (30, 30)


def test_a_loss_is_shown_by_fisher_s_test() -> None:
    for new in ((6, 12), (3, 12), (9, 12)):
        want = stats.fisher_exact([[new[0], 12 - new[0]], [20, 4]], "less").pvalue
        assert outcome(new, (20, 24)).rows[0].p_worse == pytest.approx(want, abs=0.01)


def test_failures_of_which_fewer_are_better() -> None:
    up = check(runs(20, 24), runs(10, 12, 100), Terms(scores=SCORE))
    down = check(runs(4, 24), runs(2, 12, 100), Terms(scores=SCORE, higher_is_better=False))
    (gain,), (loss,) = up.rows, down.rows
    assert (loss.low, loss.high) == pytest.approx((-gain.high, -gain.low))
    assert (up.outcome, up.verdict) == (down.outcome, down.verdict)


def test_identical_runs_and_runs_without_any_success_are_as_ever() -> None:
    same = check(runs(20, 24), runs(20, 24), Terms(scores=SCORE))
    assert (same.identical, same.rows[0].low, same.rows[0].high) == (True, 0.0, 0.0)
    assert outcome((0, 12), (0, 24)).rows[0].high == 0.0


def test_a_diverged_run_is_a_failure() -> None:
    """Whatever the curves are, of which the score counts the outcome."""
    values = np.tile([-200.0, -3.0], (23, 1))
    solved = {"solved": lambda steps, values: float(values[-1] > -5)}
    old = from_user(np.vstack([values, [[-200.0, -9.0]]]))
    new = Curves(from_user(values, seeds=range(100, 123)).runs, {123: "NaN"})
    (row,) = check(old, new, Terms(scores=solved, unit=1.0)).rows
    assert (row.now, row.difference) == (23 / 24, 0.0)


def test_a_baseline_that_always_succeeds_plans_for_failures() -> None:
    """Its spread is not 0, so that four seeds do not pretend to see a loss of a fifth."""
    test = plan_check(runs(24, 24), Terms(scores=SCORE, effect=0.1))
    assert learned(runs(24, 24)) == (0.0, test.unit) == (0.0, 1.0)
    assert test.design.caught["solved"] > 0
    assert test.design.stages.seeds[-1] > 4

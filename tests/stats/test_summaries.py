"""Statistics of one set of scores against scipy.stats, definitions and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from ablations import stats

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("n", [2, 3, 8, 50])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_a_mean_has_students_interval(n: int, level: float) -> None:
    scores = RNG.normal(size=(3, n))
    result = stats.mean(scores, level)
    center, error = scores.mean(axis=-1), scipy.stats.sem(scores, axis=-1)
    np.testing.assert_allclose(result.value, center)
    low, high = scipy.stats.t.interval(1 - level, n - 1, center, error)
    np.testing.assert_allclose((result.low, result.high), (low, high))
    assert stats.mean(scores[0], level).low == pytest.approx(low[0])


@pytest.mark.parametrize("statistic", [stats.mean, lambda scores: stats.aggregate([scores])])
def test_estimates_move_and_stretch_with_the_scores(statistic) -> None:
    one, none = statistic([4.0]), statistic([])
    assert one.value == 4.0
    assert np.isnan([one.low, one.high, none.value, none.low, none.high]).all()
    scores = RNG.exponential(size=30)
    moved = np.array([*vars(statistic(3 * scores + 7)).values()])
    assert moved == pytest.approx(3 * np.array([*vars(statistic(scores)).values()]) + 7)
    for same in (0.1, 3.7):
        result = statistic(np.full(20, same))
        assert [*vars(result).values()] == pytest.approx([same] * 3, rel=1e-15)


@pytest.mark.parametrize(("k", "n"), [(0, 7), (7, 7), (3, 20), (51, 500)])
def test_the_interval_of_a_rate_is_the_exact_one(k: int, n: int) -> None:
    want = scipy.stats.binomtest(k, n).proportion_ci(0.9, "exact")
    result = stats.rate(k, n, 0.1)
    assert (result.low, result.high) == pytest.approx((want.low, want.high), abs=1e-9)
    assert result.value == k / n


def test_no_trial_leaves_a_rate_open_and_impossible_counts_are_refused() -> None:
    result = stats.rate(0, 0)
    assert math.isnan(result.value)
    assert (result.low, result.high) == (0.0, 1.0)
    with pytest.raises(ValueError, match="5 successes of 4 trials"):
        stats.rate(5, 4)


@pytest.mark.parametrize("trials", [(7, 7), (5, 12), (7, 5), (40, 40), (320, 160)])
def test_fishers_p_is_scipys(trials: tuple[int, int]) -> None:
    for events in itertools.product(range(6), range(6)):
        table = [[k, n - k] for k, n in zip(events, trials, strict=True)]
        expected = scipy.stats.fisher_exact(table).pvalue
        assert stats.fisher_p(events, trials) == pytest.approx(expected)


# Sample efficiency


@pytest.mark.parametrize(
    ("steps", "values", "expected"),
    [
        ([10, 20, 30, 40], [0, 5, 6, 9], 20),
        ([10, 20, 30, 40], [math.nan, 4, math.nan, 5], 40),
        ([10, 20, 30, 40], [0, 1, 2, 3], math.inf),
        ([10, 20, 30, 40], [6, 7, 8, 9], 10),
        ([1, 2], [5.5, 6], 1),
        ([], [], math.inf),
        # Where a run stays.
        (range(1, 11), [0, 0, 9, 0, 0, 0, 5, 6, 6, 6], 7),
        (range(1, 11), [0, 0, 6, 6, 4.5, 6, 6, 6, 6, 6], 3),
        (range(1, 11), [0, 0, 6, 6, 0, 0, 0, 0, 0, 0], math.inf),
    ],
)
def test_steps_to_a_threshold_of_5(steps, values, expected) -> None:
    assert stats.steps_to(list(steps), values, 5) == expected


def test_crossings_are_those_of_the_isotonic_fit() -> None:
    random = np.random.default_rng(5)
    steps = np.cumsum(random.integers(1, 9, 60)).astype(float)
    for _ in range(50):
        values = 0.02 * steps + random.normal(size=60)
        fit = scipy.optimize.isotonic_regression(values, weights=np.diff(steps, prepend=0)).x
        reached = np.flatnonzero(fit >= 2.5)
        expected = steps[reached[0]] if len(reached) else math.inf
        assert stats.steps_to(steps, values, 2.5) == expected


def test_runs_that_never_get_there_count() -> None:
    never = math.inf
    result = stats.median_time([10, 20, 30, 40, never, never, never, never])
    assert (result.value, result.low, result.high) == (never, 10, never)
    assert stats.median_time([10, 20, 30, never]).value == 25
    assert math.isnan(stats.median_time([10, 20]).low)
    assert math.isnan(stats.median_time([]).value)


@pytest.mark.parametrize("n", [6, 8, 20, 50])
def test_the_interval_of_a_median_is_the_innermost_that_the_binomial_allows(n: int) -> None:
    result = stats.median_time(range(n))
    low, high = result.low, result.high
    cdf = scipy.stats.binom(n, 0.5).cdf
    assert cdf(high) - cdf(low) >= 0.95 > cdf(high - 1) - cdf(low + 1)
    assert low + high == n - 1

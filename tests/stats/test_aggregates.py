"""The IQM and aggregates over tasks against rliable's numbers, closed forms and simulated truth."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from shapes_of_returns import SHAPES

from ablations import stats

# rliable 1.2.0 with pandas 2, on 8 runs of 3 tasks; intervals from 50,000 (improvement: 5,000)
# replicates of its own random state.
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "rliable.json").read_text())
PUBLISHED = {"IQM": "iqm", "mean": "mean", "median": "median", "optimality gap": "optimality_gap"}
NUMBERS = st.floats(-1e3, 1e3, allow_nan=False, width=32)


def sample(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


# The IQM


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 10, 20, 50])
def test_the_iqm_is_scipys_trimmed_mean(n: int) -> None:
    scores = sample(3 * n).reshape(3, n)
    trimmed = scipy.stats.trim_mean(scores, 0.25, axis=-1)
    np.testing.assert_allclose(stats.aggregate([scores], replicates=99).value, trimmed)
    outliers = [-1e9, -1e9, 3, 4, 5, 6, 1e9, 1e9]
    assert stats.aggregate([outliers], replicates=99).value == 4.5


@given(arrays(np.float64, st.integers(2, 12), elements=NUMBERS))
@settings(max_examples=60, deadline=None)
def test_an_interval_holds_the_iqm_whatever_the_order(scores: np.ndarray) -> None:
    result = stats.aggregate([scores], replicates=500)
    assert result.low <= result.value + 1e-9 <= result.high + 2e-9
    moved = np.random.default_rng(1).permutation(scores)
    assert stats.aggregate([moved], replicates=500) == result


@pytest.mark.parametrize("n", [9, 40])
def test_the_interval_is_that_of_a_plain_bootstrap(n: int) -> None:
    """Its quantiles are widened to Student's."""
    scores = np.sort(sample(n))
    drawn = scores[np.random.default_rng([20261, n]).integers(0, n, (10_000, n))]
    for name, each, wide in (
        ("IQM", scipy.stats.trim_mean(drawn, 0.25, axis=1), 1.0),
        ("mean", drawn.mean(axis=1), math.sqrt(n / (n - 1))),
    ):
        tail = scipy.stats.norm.cdf(-scipy.stats.t.ppf(0.975, n - 1) * wide)
        result = stats.aggregate([scores], name)
        assert (result.low, result.high) == pytest.approx((*np.quantile(each, [tail, 1 - tail]),))


def test_rows_are_summarized_as_they_are_alone() -> None:
    scores = sample(40 * 8).reshape(40, 8)
    together = stats.aggregate([scores], replicates=500)
    alone = [stats.aggregate([row], replicates=500) for row in scores]
    np.testing.assert_allclose(together.low, [each.low for each in alone], rtol=1e-12)
    assert stats.aggregate([scores[3]]) == stats.aggregate([scores[3]], "IQM")


# Aggregates over tasks


@pytest.mark.parametrize("name", PUBLISHED)
def test_aggregates_and_their_intervals_are_those_of_rliable(name: str) -> None:
    result = stats.aggregate(GOLDEN["x"], name)
    assert result.value == pytest.approx(GOLDEN[PUBLISHED[name]], rel=1e-12)
    # At the level at which the widened quantile is the normal one, as rliable's is.
    wide = 1.0 if name == "IQM" else math.sqrt(8 / 7)
    plain = stats.aggregate(GOLDEN["x"], name, level=2 * scipy.stats.t.sf(1.959964 / wide, 7))
    ends = GOLDEN["intervals"][PUBLISHED[name]]
    assert (plain.low, plain.high) == pytest.approx(ends, abs=0.006)
    assert result.low < plain.low < plain.high < result.high


def test_profiles_and_chances_of_improvement_are_those_of_rliable() -> None:
    chance = stats.improvement(GOLDEN["x"], GOLDEN["y"]).value
    assert chance == pytest.approx(GOLDEN["probability_of_improvement"], rel=1e-12)
    share, low, high = stats.profile(GOLDEN["x"], GOLDEN["thresholds"])
    np.testing.assert_allclose(share, GOLDEN["profile"])
    assert np.all((low <= share) & (share <= high))
    assert np.all(np.diff(share) <= 0)
    share, low, high = stats.profile([[0.0, 1.0, 1.0, 2.0], [0.0, 2.0]], [1.0])
    assert low < share == 0.375 < high


def test_the_order_of_runs_is_irrelevant_and_pairs_move_together() -> None:
    random = np.random.default_rng(2)
    x, y = random.normal(size=(2, 3, 8))
    order = random.permutation(8)
    for name in stats.AGGREGATES:
        moved = stats.aggregate(x[:, order], name, replicates=500)
        there = stats.aggregate(x, name, replicates=500)
        assert [*vars(moved).values()] == pytest.approx([*vars(there).values()], rel=1e-12)
    there = stats.improvement(x, y)
    again = stats.improvement(x[:, order], y[:, order])
    assert [*vars(again).values()] == pytest.approx([*vars(there).values()], abs=1e-12)
    back = stats.improvement(y, x)
    turned = [1 - back.value, 1 - back.high, 1 - back.low]
    assert turned == pytest.approx([*vars(there).values()], abs=1e-12)


def test_few_runs() -> None:
    one = [[0.5], [0.7]]
    assert stats.aggregate(one).value == pytest.approx(0.6)
    assert np.isnan([stats.aggregate(one).low, stats.improvement(one, one).low]).all()
    assert np.isnan(stats.profile(one, [0.1])[1:]).all()
    assert math.isnan(stats.aggregate([[0.5, 0.6], []]).value)
    three = [np.array([0.1, 0.2, 0.4]), np.array([1.0, 1.5, 1.1, 0.9])]
    t = scipy.stats.t.ppf(0.975, 2)
    reach = t * math.hypot(*(scipy.stats.sem(scores) for scores in three)) / 2
    center = np.mean([three[0].mean(), np.sort(three[1])[1:3].mean()])
    result = stats.aggregate(three)
    assert (result.low, result.high) == pytest.approx((center - reach, center + reach))
    assert stats.aggregate([[0.9, 1.1, 1.3]], "optimality gap").low == 0  # no gap is negative


def test_unpaired_runs_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        stats.improvement([[1.0, 2.0]], [[1.0]])
    with pytest.raises(ValueError, match="per task"):
        stats.aggregate([1.0, 2.0])


@pytest.mark.parametrize("shape", ["normal", "half collapse", "ceiling with atom", "skewed down"])
@pytest.mark.parametrize(("tasks", "n"), [(2, 8), (5, 8), (2, 20)])
def test_the_interval_of_an_aggregate_covers_93_to_97_percent(shape, tasks, n) -> None:
    random, trials = np.random.default_rng([9, n]), 700
    truth = scipy.stats.trim_mean(SHAPES[shape](random, (300_000,)), 0.25) + (tasks - 1) / 2
    # Tasks of different difficulty: the aggregate moves by the mean of what they add.
    scores = SHAPES[shape](random, (trials, tasks, n)) + np.arange(tasks)[:, None]
    result = stats.aggregate(list(scores.swapaxes(0, 1)), replicates=800)
    error = math.sqrt(0.05 * 0.95 / trials)
    hits = np.mean((result.low <= truth) & (truth <= result.high))
    assert 0.93 - 2 * error < hits < 0.97 + 2.2 * error


# Probability of improvement


def test_the_bounds_of_a_probability_of_improvement_solve_the_score_equation() -> None:
    """With Hanley and McNeil's variance, by another root finder."""
    x, y = np.random.default_rng(12).normal(size=(2, 3, 8))
    result = stats.improvement(x + 0.5, y)
    quantile = scipy.stats.t.ppf(0.975, 7)

    def excess(theta: float) -> float:
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        variance = theta * (1 - theta) * (1 + 7 * spread) / 64 / 3
        return (result.value - theta) ** 2 - quantile**2 * variance

    solve = scipy.optimize.brentq
    expected = solve(excess, 0, result.value), solve(excess, result.value, 1)
    assert (result.low, result.high) == pytest.approx(expected, abs=1e-9)


def test_even_a_clean_sweep_leaves_a_probability_of_improvement_open() -> None:
    few = stats.improvement([np.arange(8.0) + 100], [np.arange(8.0)])
    assert few.value == few.high == 1
    assert 0.6 < few.low < 0.75
    assert few.low < stats.improvement([np.arange(50.0) + 100], [np.arange(50.0)]).low < 1

"""Aggregates over tasks against rliable's own numbers, closed forms and simulated truth."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from shapes_of_returns import SHAPES

from ablations.report.statistics import (
    aggregate,
    aggregate_interval,
    interval,
    iqm,
    performance_profile,
    probability_of_improvement,
)

# rliable 1.2.0 with pandas 2, on 8 runs of 3 tasks; intervals from 50,000 (improvement: 5,000)
# replicates of its own random state.
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "rliable.json").read_text())
PUBLISHED = ("iqm", "mean", "median", "optimality_gap")


@pytest.mark.parametrize("statistic", PUBLISHED)
def test_aggregates_are_those_of_rliable(statistic: str) -> None:
    assert aggregate(GOLDEN["x"], statistic) == pytest.approx(GOLDEN[statistic], rel=1e-12)


@pytest.mark.parametrize("statistic", PUBLISHED)
def test_unwidened_intervals_are_those_of_rliable(statistic: str) -> None:
    found = aggregate_interval(GOLDEN["x"], statistic, widened=False)
    assert found == pytest.approx(GOLDEN["intervals"][statistic], abs=0.006)
    low, high = aggregate_interval(GOLDEN["x"], statistic)
    assert low < found[0] < found[1] < high


def test_probability_of_improvement_is_that_of_rliable() -> None:
    chance, _, _ = probability_of_improvement(GOLDEN["x"], GOLDEN["y"])
    assert chance == pytest.approx(GOLDEN["probability_of_improvement"], rel=1e-12)


def test_performance_profiles_are_those_of_rliable() -> None:
    share, low, high = performance_profile(GOLDEN["x"], GOLDEN["thresholds"])
    np.testing.assert_allclose(share, GOLDEN["profile"])
    assert np.all(low <= share)
    assert np.all(share <= high)
    assert np.all(np.diff(share) <= 0)


def test_one_task_has_the_interval_of_its_iqm() -> None:
    scores = np.random.default_rng(1).normal(size=9)
    low, high = interval(scores)
    assert aggregate_interval([scores]) == pytest.approx((low, high))
    assert aggregate([scores]) == aggregate([scores], "iqm") == pytest.approx(iqm(scores))


def test_the_order_of_runs_is_irrelevant_and_pairs_move_together() -> None:
    random = np.random.default_rng(2)
    x, y = random.normal(size=(2, 3, 8))
    order = random.permutation(8)
    for statistic in (*PUBLISHED, "task_iqm"):
        there = aggregate_interval(list(x), statistic, replicates=500)
        assert there == aggregate_interval(list(x[:, order]), statistic, replicates=500)
    chance, low, high = probability_of_improvement(list(x), list(y))
    again = probability_of_improvement(list(x[:, order]), list(y[:, order]))
    assert again == pytest.approx((chance, low, high), abs=1e-12)
    turned = probability_of_improvement(list(y), list(x))
    assert turned == pytest.approx((1 - chance, 1 - high, 1 - low), abs=1e-12)


def test_few_runs() -> None:
    one = [[0.5], [0.7]]
    assert aggregate(one) == pytest.approx(0.6)
    assert all(map(math.isnan, aggregate_interval(one)))
    assert all(map(math.isnan, probability_of_improvement(one, one)[1:]))
    assert np.isnan(performance_profile(one, [0.1])[1:]).all()
    assert math.isnan(aggregate([[0.5, 0.6], []]))
    three = [np.array([0.1, 0.2, 0.4])]
    reach = scipy.stats.t.ppf(0.975, 2) * scipy.stats.sem(three[0])
    center = three[0].mean()
    assert aggregate_interval(three) == pytest.approx((center - reach, center + reach))
    good = [np.array([0.9, 1.1, 1.3])]
    assert aggregate_interval(good, "optimality_gap")[0] == 0  # no gap is negative


def test_unpaired_runs_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        probability_of_improvement([[1.0, 2.0]], [[1.0]])
    with pytest.raises(ValueError, match="per task"):
        aggregate([1.0, 2.0])


@pytest.mark.parametrize("shape", ["normal", "half collapse", "ceiling with atom", "skewed down"])
@pytest.mark.parametrize(("tasks", "n"), [(2, 8), (5, 8), (2, 20)])
def test_the_interval_of_an_aggregate_covers_93_to_97_percent(
    shape: str, tasks: int, n: int
) -> None:
    random = np.random.default_rng([9, n])
    generate = SHAPES[shape]
    truth = scipy.stats.trim_mean(generate(random, (300_000,)), 0.25)
    trials = 700
    hits = 0
    for scores in generate(random, (trials, tasks, n)):
        # Tasks of different difficulty: the aggregate moves by the mean of what they add.
        low, high = aggregate_interval(list(scores + np.arange(tasks)[:, None]), replicates=800)
        hits += low <= truth + (tasks - 1) / 2 <= high
    error = math.sqrt(0.05 * 0.95 / trials)
    assert 0.93 - 2 * error < hits / trials < 0.97 + 2.2 * error


def test_the_bounds_of_a_probability_of_improvement_solve_the_score_equation() -> None:
    """With Hanley and McNeil's variance, by another root finder."""
    random = np.random.default_rng(12)
    x, y = random.normal(size=(2, 3, 8))
    chance, low, high = probability_of_improvement(list(x + 0.5), list(y))
    quantile = scipy.stats.t.ppf(0.975, 7)

    def excess(theta: float) -> float:
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        variance = theta * (1 - theta) * (1 + 7 * spread) / 64 / 3
        return (chance - theta) ** 2 - quantile**2 * variance

    expected = scipy.optimize.brentq(excess, 0, chance), scipy.optimize.brentq(excess, chance, 1)
    assert (low, high) == pytest.approx(expected, abs=1e-9)


def test_even_a_clean_sweep_leaves_a_probability_of_improvement_open() -> None:
    low = probability_of_improvement([np.arange(8.0) + 100], [np.arange(8.0)])
    assert low[0] == low[2] == 1
    assert 0.6 < low[1] < 0.75
    more = probability_of_improvement([np.arange(50.0) + 100], [np.arange(50.0)])
    assert low[1] < more[1] < 1


@pytest.mark.parametrize("shape", ["normal", "half collapse", "ceiling with atom", "skewed down"])
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
def test_the_interval_of_a_probability_of_improvement_covers(shape: str, shift: float) -> None:
    random = np.random.default_rng(10)
    large = SHAPES[shape](random, (2, 3_000))
    shift *= min(3.0, float(large.std()))
    truth = float(np.mean(np.sign(large[0, :, None] + shift - large[1]) / 2 + 0.5))
    trials = 500
    hits = 0
    for x, y in SHAPES[shape](random, (trials, 2, 2, 8)):
        _, low, high = probability_of_improvement(list(x + shift), list(y))
        hits += low <= truth <= high
    assert hits / trials > 0.93

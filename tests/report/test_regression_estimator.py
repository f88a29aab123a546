"""The regression estimator against its formula, least squares and limits; spreads against SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from ablations.report.statistics import (
    compare,
    interval,
    paired,
    regress,
    summary,
    worst_quarter,
)

RNG = np.random.default_rng(11)


def drawn(n: int, extra: int, rho: float, shift: float = 0.3) -> tuple[np.ndarray, ...]:
    """Return a variant `[n]`, its baseline `[n]` and all of the baseline `[n + extra]`."""
    rng = np.random.default_rng(n + extra)
    whole = rng.normal(size=n + extra)
    noise = rng.normal(size=n)
    return shift + rho * whole[:n] + math.sqrt(1 - rho**2) * noise, whole[:n], whole


def by_least_squares(y: np.ndarray, x: np.ndarray, whole: np.ndarray) -> tuple[float, float, float]:
    """Return the prediction at the mean of all seeds minus that mean, its error and degrees: the
    error of a fitted line at a point, from the covariance of its coefficients."""
    n = len(y)
    matrix = np.column_stack([np.ones(n), x])
    coefficients, (left,), *_ = np.linalg.lstsq(matrix, y, rcond=None)
    covariance = left / (n - 2) * np.linalg.inv(matrix.T @ matrix)
    at = np.array([1.0, whole.mean()])
    own = at @ covariance @ at
    shared = (coefficients[1] - 1) ** 2 * whole.var(ddof=1) / len(whole)
    degrees = (own + shared) ** 2 / (own**2 / (n - 2) + shared**2 / (len(whole) - 1))
    return at @ coefficients - whole.mean(), math.sqrt(own + shared), degrees


CASES = [(10, 5, 0.0), (30, 90, 0.5), (120, 360, 0.9), (40, 1, -0.3)]


@pytest.mark.parametrize(("n", "extra", "rho"), CASES)
def test_it_is_a_fitted_line_at_the_mean_of_all_seeds(n: int, extra: int, rho: float) -> None:
    agree_with_least_squares(n, extra, rho)


def agree_with_least_squares(n: int, extra: int, rho: float) -> None:
    y, x, whole = drawn(n, extra, rho)
    center, error, degrees = by_least_squares(y, x, whole)
    found = regress(y, x, whole, margin=0.5, level=0.01)
    reach = scipy.stats.t.isf(0.005, degrees) * error
    assert found.n == n
    assert (found.difference, found.low, found.high) == pytest.approx(
        (center, center - reach, center + reach)
    )
    assert found.deviation == pytest.approx(error * math.sqrt(n))
    assert found.p == pytest.approx(2 * scipy.stats.t.sf(abs(center) / error, degrees))
    assert found.p_equivalent == pytest.approx(
        scipy.stats.t.cdf((abs(center) - 0.5) / error, degrees)
    )


# Each a usual mistake, made in a part of the statistic.
MUTATIONS: dict[str, tuple[str, Callable]] = {
    "quantiles of another level": ("student_quantile", lambda v, p, real: real(v, 2 * p)),
    "the normal distribution": ("student_quantile", lambda v, p, real: real(1e6, p)),
    "one side": ("student_cdf", lambda v, t, real: real(v, t) / 2),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_oracle_sees_usual_mistakes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, mistake = MUTATIONS[name]
    real = getattr(paired, where)
    monkeypatch.setattr(paired, where, lambda *given: mistake(*given, real))
    with pytest.raises(AssertionError):
        agree_with_least_squares(10, 5, 0.0)


def test_without_further_seeds_it_is_nearly_the_paired_difference() -> None:
    y, x, _ = drawn(60, 0, 0.5)
    ours, paired = regress(y, x, x), compare(y, x)
    assert ours.difference == pytest.approx(paired.difference)
    assert ours.high - ours.low == pytest.approx(paired.high - paired.low, rel=0.02)


def test_further_seeds_narrow_the_interval_most_where_scores_are_independent() -> None:
    for rho, most in ((0.0, 0.8), (0.5, 0.95)):
        y, x, whole = drawn(120, 1080, rho)
        ours, paired = regress(y, x, whole), compare(y, x)
        assert (ours.high - ours.low) / (paired.high - paired.low) < most


def test_it_moves_and_scales_with_the_scores_at_any_size() -> None:
    y, x, whole = drawn(30, 30, 0.4)
    plain = regress(y, x, whole)
    for scale in (1e-300, 3.0, 1e300):
        moved = regress(scale * y, scale * x, scale * whole)
        assert moved.difference / scale == pytest.approx(plain.difference)
        assert moved.low / scale == pytest.approx(plain.low)
    both = regress(y + 50, x + 50, whole + 50)
    assert (both.low, both.high) == pytest.approx((plain.low, plain.high))


def test_a_baseline_at_a_ceiling_tells_its_mean_alone() -> None:
    y, whole = RNG.normal(size=12), np.ones(40)
    found = regress(y, whole[:12], whole)
    low, high = scipy.stats.t.interval(0.95, 11, y.mean() - 1, scipy.stats.sem(y))
    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize("n", [0, 1, 7])
def test_few_pairs_are_compared_as_pairs(n: int) -> None:
    y, x, whole = drawn(n, 20, 0.3)
    assert regress(y, x, whole) == compare(y, x)


def test_equal_differences_have_no_interval() -> None:
    x = np.arange(20.0)
    assert regress(x[:10] + 1, x[:10], x) == compare(x[:10] + 1, x[:10])


def test_means_over_tasks_are_regressed() -> None:
    first, second = drawn(20, 20, 0.2), drawn(20, 60, 0.7)
    both = [np.stack([a, b[: len(a)]]) for a, b in zip(first, second, strict=True)]
    whole = regress(*both)
    alone = regress(*(one.mean(axis=0) for one in both))
    assert (whole.difference, whole.low) == pytest.approx((alone.difference, alone.low))


# Spreads


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 21, 120])
def test_interquartile_range_and_worst_quarter(n: int) -> None:
    scores = RNG.normal(size=(3, n))
    assert summary(scores, "iqr") == pytest.approx(scipy.stats.iqr(scores, axis=-1))
    for row, *found in zip(scores, *worst_quarter(scores), strict=True):
        lowest = sorted(row)[: math.ceil(n / 4)]
        mean = sum(lowest) / len(lowest)
        assert found[0] == pytest.approx(mean)
        if n < 5:
            assert np.isnan(found[1:]).all()
            continue
        # The variance of the tail and of where it ends, as Manistre and Hancock write it.
        k, end = len(lowest), (sorted(row)[len(lowest) - 1] + sorted(row)[len(lowest)]) / 2
        tail = sum((x - mean) ** 2 for x in lowest) / k
        variance = (tail + (1 - k / n) * (end - mean) ** 2) / k * n / (n - 1)
        reach = scipy.stats.t.isf(0.025, k - 1) * math.sqrt(variance)
        assert found[1:] == pytest.approx([mean - reach, mean + reach])


def test_their_intervals_move_as_the_scores_do() -> None:
    scores = RNG.exponential(size=30)
    low, high = interval(scores, "iqr")
    assert low < summary(scores, "iqr") < high
    assert interval(3 * scores + 7, "iqr") == (pytest.approx(3 * low), pytest.approx(3 * high))
    assert np.isnan(interval(scores[:7], "iqr")).all()
    assert interval(np.full(20, 3.7), "iqr") == (0.0, 0.0)
    ends = np.array(worst_quarter(scores))
    assert np.array(worst_quarter(3 * scores + 7)) == pytest.approx(3 * ends + 7)
    assert np.array(worst_quarter(np.full(20, 3.7))) == pytest.approx(3.7)

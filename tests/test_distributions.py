"""Distributions against scipy.special and exact forms, far into the tails."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.special as oracle
from scipy import stats

from ablations.distributions import (
    chi_squared_quantile,
    fisher_p,
    normal_cdf,
    normal_quantile,
    student_cdf,
    student_quantile,
)

FREEDOMS = (1, 1.5, 2, 2.7, 3, 4, 5, 7, 7.3, 10, 19, 30, 63, 100, 199.9, 200, 365.2, 1000, 10_000)
TAIL = np.logspace(-12, -0.31, 100)
LEVELS = np.concatenate([TAIL, 1 - TAIL])


def test_the_normal_distribution_is_that_of_scipy() -> None:
    z = np.concatenate([np.linspace(-37, 9, 2000), [0.0, np.inf]])
    np.testing.assert_allclose(normal_cdf(z), oracle.ndtr(z), rtol=1e-12)
    assert normal_cdf(z.reshape(2, -1)).shape == (2, 1001)
    assert (float(normal_cdf(-np.inf)), float(normal_cdf(0))) == (0, 0.5)
    np.testing.assert_allclose(
        [normal_quantile(float(p)) for p in LEVELS], oracle.ndtri(LEVELS), rtol=1e-12
    )


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_students_distribution_is_that_of_scipy(freedom: float) -> None:
    t = np.concatenate([-np.logspace(-3, 6, 100), [0], np.logspace(-3, 2, 50)])
    t = t[oracle.stdtr(freedom, t) > 1e-300]
    np.testing.assert_allclose(
        [student_cdf(freedom, float(x)) for x in t], oracle.stdtr(freedom, t), rtol=1e-11
    )
    np.testing.assert_allclose(
        [student_quantile(freedom, float(p)) for p in LEVELS],
        oracle.stdtrit(freedom, LEVELS),
        rtol=1e-11,
    )


def test_students_distribution_has_its_closed_forms() -> None:
    for t in (-1e9, -30.0, -1.0, -1e-9, 0.0, 0.7, 1e4):
        cauchy = 0.5 + math.atan(t) / math.pi if t > -1 else math.atan(-1 / t) / math.pi
        assert student_cdf(1, t) == pytest.approx(cauchy, rel=1e-14)
    for p in (1e-9, 0.2, 0.4999, 0.5, 0.9):
        two = (2 * p - 1) / math.sqrt(2 * p * (1 - p))
        assert student_quantile(2, p) == pytest.approx(two, rel=1e-12, abs=1e-15)
    assert student_quantile(1e7, 0.025) == pytest.approx(normal_quantile(0.025), rel=1e-6)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_chi_squared_quantiles_are_those_of_scipy(freedom: float) -> None:
    found = chi_squared_quantile(freedom, LEVELS)
    np.testing.assert_allclose(found, 2 * oracle.gammaincinv(freedom / 2, LEVELS), rtol=1e-10)
    assert chi_squared_quantile(freedom, LEVELS.reshape(2, -1)).shape == (2, 100)


@pytest.mark.parametrize("trials", [(7, 7), (5, 12), (40, 40), (320, 160)])
def test_fishers_p_is_scipys(trials: tuple[int, int]) -> None:
    for events in itertools.product(range(0, 6), range(0, 6)):
        if events[0] <= trials[0] and events[1] <= trials[1]:
            table = [[k, n - k] for k, n in zip(events, trials, strict=True)]
            assert fisher_p(events, trials) == pytest.approx(stats.fisher_exact(table).pvalue)

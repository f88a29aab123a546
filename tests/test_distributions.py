"""Distributions against exact forms, and Fisher's test against scipy's."""

from __future__ import annotations

import itertools
import math

import pytest
from scipy import stats

from ablations.distributions import fisher_p, normal_quantile, student_cdf, student_quantile


def test_students_distribution_has_its_closed_forms() -> None:
    for t in (-1e9, -30.0, -1.0, -1e-9, 0.0, 0.7, 1e4):
        cauchy = 0.5 + math.atan(t) / math.pi if t > -1 else math.atan(-1 / t) / math.pi
        assert student_cdf(1, t) == pytest.approx(cauchy, rel=1e-14, abs=1e-9)
    for p in (1e-9, 0.2, 0.4999, 0.5, 0.9):
        two = (2 * p - 1) / math.sqrt(2 * p * (1 - p))
        assert student_quantile(2, p) == pytest.approx(two, rel=1e-12, abs=1e-15)
    assert student_quantile(1e7, 0.025) == pytest.approx(normal_quantile(0.025), rel=1e-6)


@pytest.mark.parametrize("trials", [(7, 7), (5, 12), (40, 40), (320, 160)])
def test_fishers_p_is_scipys(trials: tuple[int, int]) -> None:
    for events in itertools.product(range(0, 6), range(0, 6)):
        if events[0] <= trials[0] and events[1] <= trials[1]:
            table = [[k, n - k] for k, n in zip(events, trials, strict=True)]
            assert fisher_p(events, trials) == pytest.approx(stats.fisher_exact(table).pvalue)

"""Success rates, against scipy, enumeration and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from ablations.report.statistics.rates import (
    compare_outcomes,
    is_outcome,
    mcnemar_p,
    paired_rates,
    rate_interval,
)


@pytest.mark.parametrize(("k", "n"), [(0, 0), (0, 7), (7, 7), (3, 20), (51, 500)])
def test_an_interval_of_a_rate_is_scipy_s(k: int, n: int) -> None:
    if n:
        want = stats.binomtest(k, n).proportion_ci(0.9, "exact")
        assert rate_interval(k, n, 0.1) == pytest.approx((want.low, want.high), abs=1e-9)
    else:
        assert rate_interval(k, n, 0.1) == (0.0, 1.0)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (5, 0), (3, 9), (30, 28)])
def test_mcnemar_is_the_sign_test(gained: int, lost: int) -> None:
    n = gained + lost
    assert mcnemar_p(gained, lost) == pytest.approx(stats.binomtest(gained, n).pvalue if n else 1)


@pytest.mark.parametrize("rates", [(0.3, 0.3), (0.5, 0.2), (0.05, 0.0), (0.6, 0.35)])
def test_a_difference_of_paired_rates_is_covered_exactly(rates: tuple[float, float]) -> None:
    """By the exact distribution of 14 pairs: each end misses at most half of the level."""
    pairs, level, (gain, loss) = 14, 0.1, rates
    below = above = 0.0
    for gained, lost in itertools.product(range(pairs + 1), repeat=2):
        if gained + lost <= pairs:
            counts = [gained, lost, pairs - gained - lost]
            chance = stats.multinomial.pmf(counts, pairs, [gain, loss, 1 - gain - loss])
            low, high = paired_rates(gained, lost, pairs, level)
            below += chance * (low > gain - loss)
            above += chance * (high < gain - loss)
    assert max(below, above) <= level / 2


def test_the_interval_leaves_0_out_nearly_where_mcnemar_rejects() -> None:
    for gained, lost in itertools.product(range(12), repeat=2):
        low, high = paired_rates(gained, lost, 40, 0.05)
        assert low <= (gained - lost) / 40 <= high
        if low > 0 or high < 0:
            assert mcnemar_p(gained, lost) < 0.05
        elif mcnemar_p(gained, lost) < 0.04:
            pytest.fail(f"{gained} gained and {lost} lost are no difference?")
        swapped = paired_rates(lost, gained, 40, 0.05)
        assert swapped == pytest.approx((-high, -low))


def test_unpaired_outcomes_are_covered() -> None:
    for p, q in ((0.5, 0.5), (0.9, 0.3)):
        missed = 0.0
        for k, m in itertools.product(range(9), range(12)):
            ours, theirs = [1.0] * k + [0.0] * (8 - k), [1.0] * m + [0.0] * (11 - m)
            found = compare_outcomes(ours, theirs, paired=False, level=0.1)
            chance = stats.binom.pmf(k, 8, p) * stats.binom.pmf(m, 11, q)
            missed += chance * (not found.low <= p - q <= found.high)
        assert missed <= 0.1


def test_what_is_an_outcome() -> None:
    assert is_outcome([0, 1, 1.0, True])
    assert not is_outcome([0, 0.5])
    assert not is_outcome([])
    assert not is_outcome([0, np.nan])

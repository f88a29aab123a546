"""Success rates and evaluations paired by item, against scipy, enumeration and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from ablations.distributions import beta_cdf, beta_quantile
from ablations.report.statistics.items import compare_items, mean_of_items
from ablations.report.statistics.rates import (
    compare_outcomes,
    is_outcome,
    mcnemar_p,
    paired_rates,
    rate_interval,
)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.5, 7), (30, 2), (400, 600), (1, 5000)])
def test_beta_is_scipy_s(a: float, b: float) -> None:
    for p in (1e-6, 0.01, 0.5, 0.975, 1 - 1e-9):
        x = stats.beta.ppf(p, a, b)
        assert beta_cdf(a, b, x) == pytest.approx(p, rel=1e-9, abs=1e-13)
        assert beta_quantile(a, b, p) == pytest.approx(x, rel=1e-7, abs=1e-13)
    assert (beta_cdf(a, b, 0.0), beta_cdf(a, b, 1.0)) == (0.0, 1.0)


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


def test_single_items_of_numbers_have_the_paired_t_interval() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 30))
    found = compare_items(a, b, level=0.1)
    test = stats.ttest_rel(a, b)
    interval = test.confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.p == pytest.approx(test.pvalue)


def test_equal_clusters_have_the_t_interval_of_their_means() -> None:
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 24))
    clusters = [name for name in "abcdefgh" for _ in range(3)]
    found = compare_items(a, b, clusters)
    means = (a - b).reshape(8, 3).mean(axis=1)
    interval = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (found.n, found.low, found.high) == (
        8,
        pytest.approx(interval.low),
        pytest.approx(interval.high),
    )


def test_clustered_intervals_cover_where_those_of_items_do_not() -> None:
    """Clusters of 2 to 12 items that gain or lose together."""
    random, covered = np.random.default_rng(2), np.zeros(2)
    sizes = np.resize([2, 4, 12, 6], 40)
    clusters = np.repeat(np.arange(40), sizes)
    for _ in range(400):
        together = random.normal(size=40)[clusters] + 0.5 * random.normal(size=len(clusters))
        for at, given in enumerate((clusters, None)):
            found = compare_items(together, np.zeros(len(clusters)), given, 0.05)
            covered[at] += found.low <= 0 <= found.high
    assert covered[0] / 400 > 0.91
    assert covered[1] / 400 < 0.7


def test_means_of_items() -> None:
    found = mean_of_items([1, 1, 0, 1])
    assert (found.low, found.high) == pytest.approx(tuple(rate_interval(3, 4)))
    found = mean_of_items([0.5, 1.0, 0.0, 0.5])
    assert found.difference == 0.5
    assert mean_of_items([1.0], ["a"]).low == pytest.approx(0.025)
    assert mean_of_items([0.5, 1.0], ["a", "a"]).low is None

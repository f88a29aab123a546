"""Power and numbers of seeds against the noncentral t, simulation and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from ablations import stats

NAN = math.nan


@pytest.mark.parametrize("level", [0.05, 0.005, 0.001])
@pytest.mark.parametrize("n", [3, 8, 20, 100])
def test_without_a_margin_power_is_that_of_the_noncentral_t(n: int, level: float) -> None:
    critical = scipy.stats.t.ppf(1 - level / 2, n - 1)
    for difference in (0.3, -1.0):
        law = scipy.stats.nct(n - 1, difference * np.sqrt(n))
        expected = law.sf(critical) + law.cdf(-critical)
        assert stats.power(n, difference, 1.0, level=level) == pytest.approx(expected, abs=0.004)
    assert stats.power(n, 0.0, 1.0, level=level) == pytest.approx(level, abs=0.004)


@pytest.mark.parametrize(
    ("n", "difference", "margin"), [(8, 0.0, 1.2), (20, 0.3, 0.8), (5, 0.5, 2)]
)
def test_power_is_that_of_simulation(n: int, difference: float, margin: float) -> None:
    pairs = np.random.default_rng(12).normal(difference, 1, (40_000, n))
    reach = scipy.stats.t.ppf(0.975, n - 1) * scipy.stats.sem(pairs, axis=1)
    decided = (np.abs(pairs.mean(1)) > reach) | (np.abs(pairs.mean(1)) + reach < margin)
    found = stats.power(n, [difference, -difference], 1.0, margin)
    assert found == pytest.approx(np.mean(decided), abs=0.01)


def test_seeds_are_the_fewest_that_decide() -> None:
    for difference, margin, level in ((0.5, NAN, 0.05), (0.0, 0.5, 0.05), (0.25, 0.5, 0.005)):
        needed = int(stats.seeds_needed(difference, 1.0, margin, level))
        assert stats.power(needed, difference, 1.0, margin, level) >= 0.8
        assert stats.power(needed - 1, difference, 1.0, margin, level) < 0.8
    assert stats.seeds_needed(5.0, 1.0, fewest=9) == 9
    assert stats.seeds_needed(0.0, 1.0, margin=0.5) == stats.seeds_needed(0.0, 2.0, margin=1.0)
    assert stats.seeds_needed(0.5, 1.0, chance=0.9) > stats.seeds_needed(0.5, 1.0)
    assert stats.seeds_needed(0.028019, 1.0) == 10_000
    for unknown in ((0.028018, 1.0), (1.0, 0.0), (NAN, 1.0), (1.0, NAN)):
        assert math.isnan(stats.seeds_needed(*unknown))


@pytest.mark.parametrize("n", [5, 8, 20])
def test_the_interval_of_a_deviation_is_the_chi_squared_one(n: int) -> None:
    ends = scipy.stats.chi2.ppf([0.95, 0.05], n - 1)
    expected = tuple(2.0 * np.sqrt((n - 1) / ends))
    assert stats.sd_interval(n, 2.0, 0.1) == pytest.approx(expected)


@pytest.mark.parametrize("n", [5, 20])
def test_four_of_five_changes_without_effect_pass_at_the_smallest_margin(n: int) -> None:
    a, b = np.random.default_rng(n).normal(0, 3.0, (2, 40_000, n))
    pooled = np.sqrt((a.var(axis=1, ddof=1) + b.var(axis=1, ddof=1)) / 2)
    low = a.mean(1) - b.mean(1) - scipy.stats.t.isf(0.05, 2 * n - 2) * pooled * math.sqrt(2 / n)
    margin = stats.smallest_margin(n, 3.0, 0.05)
    assert np.mean(low > -margin) == pytest.approx(0.8, abs=0.01)

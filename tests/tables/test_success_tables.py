"""Comparisons of successes: exact intervals and tests, and no change where scores are others."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from memory import runs_of

from ablations.comparison import compare
from ablations.tables import comparison

BASE = [1.0, *[0.0] * 10, 1.0]
RATES = {"base": BASE, "more": [1.0] * 12, "like": [1.0, 0.0, 0.0, 1.0, *[0.0] * 8]}
OTHERS = {name: np.arange(12) + k / 7 for k, name in enumerate(RATES)}
SENTENCE = "Success rates on push have exact intervals."


def test_rates_and_their_differences_are_those_of_scipy() -> None:
    rates = {("push", name): values for name, values in RATES.items()}
    runs = runs_of(rates | {("reacher", name): values for name, values in OTHERS.items()})
    rows = compare(runs).set_index(["task", "variant"])
    for variant, values in RATES.items():
        row, of = rows.loc[("push", variant)], scipy.stats.binomtest(int(sum(values)), 12)
        ends = of.proportion_ci(0.95, "exact")
        assert (row["mean"], row.mean_low, row.mean_high) == pytest.approx((np.mean(values), *ends))
        if variant == "base":
            continue
        gained, lost = (int(np.sum(np.sign(np.subtract(values, BASE)) == side)) for side in (1, -1))
        pairs = scipy.stats.binomtest(gained, gained + lost)
        level = 0.025 / 4
        assert (row.level, row.p) == pytest.approx((level, pairs.pvalue))
        # From scipy's intervals of the share of gains among pairs that differ, and of their share.
        theta = pairs.proportion_ci(1 - 0.9 * level, "exact")
        q = scipy.stats.binomtest(gained + lost, 12).proportion_ci(1 - 0.05 * level, "exact")
        low, high = (2 * end - 1 for end in theta)
        expected = low * q[low < 0], high * q[high > 0]
        assert (row.difference_low, row.difference_high) == pytest.approx(expected, abs=1e-9)
    assert SENTENCE in comparison(runs).attrs["caption"]
    ends = scipy.stats.t.interval(0.95, 11, 5.5, scipy.stats.sem(np.arange(12)))
    row = rows.loc[("reacher", "base")]
    assert (row.mean_low, row.mean_high) == pytest.approx(ends), "of other scores Student's"


@pytest.mark.parametrize("values", [[0.0] * 12, [0.5, *[1.0] * 11]], ids=["only 0", "others"])
def test_other_scores_are_compared_as_ever(values: list[float]) -> None:
    base = np.array(BASE) * any(values)
    frame = comparison(runs_of({("push", "base"): base, ("push", "more"): values}))
    assert SENTENCE not in frame.attrs["caption"]


def test_pairs_that_are_all_equal_have_an_interval_of_their_rates() -> None:
    row = compare(runs_of({("push", name): BASE for name in ("base", "same")})).iloc[1]
    most = scipy.stats.beta.ppf(1 - 0.00125, 1, 12)
    assert (row.difference_low, row.difference_high) == pytest.approx((-most, most))

"""Comparisons of successes: exact intervals and tests, and no change where scores are others."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from memory import runs_of
from synthetic import realistic

from ablations.comparison import compare
from ablations.runs import Runs
from ablations.tables import comparison

BASE = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
RATES = {
    ("push", "base"): BASE,
    ("push", "more"): [1.0] * 12,
    ("push", "like"): [1.0, 0.0, 0.0, 1.0, *[0.0] * 8],
}
SENTENCE = "Success rates on push have exact intervals."


def test_rates_and_their_differences_are_those_of_scipy() -> None:
    runs = runs_of(RATES)
    rows = compare(runs).set_index("variant")
    for (_, variant), values in RATES.items():
        row, of = rows.loc[variant], scipy.stats.binomtest(int(sum(values)), 12)
        ends = of.proportion_ci(0.95, "exact")
        assert (row["mean"], row.mean_low, row.mean_high) == pytest.approx((np.mean(values), *ends))
        if variant == "base":
            continue
        gained, lost = (int(np.sum(np.sign(np.subtract(values, BASE)) == side)) for side in (1, -1))
        p = scipy.stats.binomtest(gained, gained + lost).pvalue
        assert (row.level, row.p, row.p_adjusted) == pytest.approx((0.025, p, min(1.0, 2 * p)))
        # From scipy's intervals of the share of gains among pairs that differ, and of their share.
        theta = scipy.stats.binomtest(gained, gained + lost).proportion_ci(1 - 0.9 * 0.025, "exact")
        q = scipy.stats.binomtest(gained + lost, 12).proportion_ci(1 - 0.05 * 0.025, "exact")
        low, high = (2 * end - 1 for end in theta)
        expected = low * q[low < 0], high * q[high > 0]
        assert (row.difference_low, row.difference_high) == pytest.approx(expected, abs=1e-9)
    assert (rows.verdict["more"], rows.verdict["like"]) == ("better", "inconclusive")
    assert rows.best["more"]
    assert not rows.tied["base"]
    assert SENTENCE in comparison(runs).attrs["caption"]


def test_pairs_that_are_all_equal_have_an_interval_of_their_rates() -> None:
    row = compare(runs_of({("push", name): BASE for name in ("base", "same")})).iloc[1]
    most = scipy.stats.beta.ppf(1 - 0.00125, 1, 12)
    assert (row.difference_low, row.difference_high) == pytest.approx((-most, most))


@pytest.mark.parametrize("values", [[0.0] * 12, [0.5, *[1.0] * 11]], ids=["only 0", "others"])
def test_other_scores_are_compared_as_ever(values: list[float]) -> None:
    base = np.array(BASE) * (0 if not any(values) else 1)
    frame = comparison(runs_of({("push", "base"): base, ("push", "more"): np.array(values)}))
    assert SENTENCE not in frame.attrs["caption"]
    row = frame.set_index("variant").loc["more"]
    ends = scipy.stats.t.interval(0.95, 11, np.mean(values), scipy.stats.sem(values) or np.nan)
    assert (row.mean_low, row.mean_high) == pytest.approx(ends, nan_ok=True) or not any(values)


def test_tasks_of_successes_beside_others(study) -> None:
    others = realistic(12, 2, ("reacher",))
    rates = {("push", "standard"): BASE, ("push", "brax"): [1.0] * 12}
    plan, results = study(rates | others, units={"reacher": 30.0})
    rows = compare(Runs.read(results, plan)).set_index(["task", "variant"])
    alone = compare(Runs.read(*study(others, units={"reacher": 30.0}, name="alone")[::-1]))
    expected = alone.set_index(["task", "variant"]).loc[("reacher", "brax")]
    row = rows.loc[("reacher", "brax")]
    assert (row.p, row["mean"], row.mean_low) == (expected.p, expected["mean"], expected.mean_low)
    assert rows.p["push", "brax"] == pytest.approx(2 * 0.5**10)
    lengths = comparison(Runs.read(results, plan, "training/length"))
    assert "Success rates" not in lengths.attrs["caption"]

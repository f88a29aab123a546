"""Tables of successes: exact intervals and tests, and no change where scores are anything else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from synthetic import realistic

from ablations.core.verdict import Verdict
from ablations.report.results import Results
from ablations.report.statistics.rates import are_successes, fewer_successes
from ablations.report.tables import table
from ablations.report.tables.pairings import Pairing

BASE = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
MORE = [1.0] * 12
LIKE = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
RATES = {("push", "base"): BASE, ("push", "more"): MORE, ("push", "like"): LIKE}
SENTENCE = "are successes of runs and judged exactly"


def pairs_of(values, baseline) -> tuple[int, int]:
    ours, theirs = np.array(values), np.array(baseline)
    return int(np.sum(ours > theirs)), int(np.sum(ours < theirs))


def test_rates_and_their_differences_are_scipy_s(study) -> None:
    plan, results = study(RATES, margin=0.1, margin_in_metric=True)
    made = table(Results(plan, results))
    for (task, variant), values in RATES.items():
        row, of = made.entry(task, variant), stats.binomtest(int(sum(values)), 12)
        assert row.mean == pytest.approx(np.mean(values))
        assert (row.low, row.high) == pytest.approx(of.proportion_ci(0.95, "exact"), abs=1e-9)
        if variant == "base":
            continue
        gained, lost = pairs_of(values, BASE)
        p = stats.binomtest(gained, gained + lost).pvalue
        assert row.level == 0.025
        assert row.p == pytest.approx(p)
        assert row.p_adjusted == pytest.approx(min(1.0, 2 * p))
        # By the definition of `paired_rates`, from scipy's intervals of its two parts.
        level = row.level
        theta = stats.binomtest(gained, gained + lost).proportion_ci(1 - 0.9 * level, "exact")
        q = stats.binomtest(gained + lost, 12).proportion_ci(1 - 0.05 * level, "exact")
        ends = [2 * end - 1 for end in theta]
        want = ends[0] * q[ends[0] < 0], ends[1] * q[ends[1] > 0]
        assert (row.difference_low, row.difference_high) == pytest.approx(want, abs=1e-9)
    assert made.entry("push", "more").verdict is Verdict.BETTER_UNDECIDED
    assert made.entry("push", "like").verdict is Verdict.UNDECIDED
    assert made.entry("push", "more").best
    assert not made.entry("push", "base").tied
    assert SENTENCE in made.caption
    assert "Their joint intervals hold" in made.caption
    assert "t-test" not in made.caption
    assert "bootstrap" not in made.caption


def test_pairs_that_are_all_equal_have_an_interval_of_their_rates(study) -> None:
    equal = {("push", name): BASE for name in ("base", "same")}
    plan, results = study(equal, margin=0.9, margin_in_metric=True, noise=0.1)
    made = table(Results(plan, results))
    row, most = made.entry("push", "same"), stats.beta.ppf(1 - 0.00125, 1, 12)
    assert (row.difference_low, row.difference_high) == pytest.approx((-most, most))
    assert row.verdict is Verdict.EQUIVALENT
    assert not any("pairs are equal" in note for note in made.notes)


def test_a_simultaneous_interval_covers_by_enumeration() -> None:
    """All outcomes of 8 pairs, at the level of one of three comparisons."""
    pairs, level = 8, 0.05 / 3
    for gain, loss in ((0.3, 0.3), (0.5, 0.0), (0.05, 0.4)):
        missed = 0.0
        for gained, lost in itertools.product(range(pairs + 1), repeat=2):
            rest = pairs - gained - lost
            if rest < 0:
                continue
            ours = np.repeat([1.0, 0.0, 1.0], [gained, lost, rest])
            theirs = np.repeat([0.0, 1.0, 1.0], [gained, lost, rest])
            found = Pairing(
                ("push",), "v", "b", None, (ours,), (theirs,), successes=True, level=level
            ).compare()
            chance = stats.multinomial.pmf(
                [gained, lost, rest], pairs, [gain, loss, 1 - gain - loss]
            )
            missed += chance * (not found.low <= gain - loss <= found.high)
        assert missed <= level


@pytest.mark.parametrize("values", [[0.0] * 12, [0.5, *MORE[1:]]], ids=["only 0", "not only 0, 1"])
def test_other_scores_are_judged_as_ever(study, values: list[float]) -> None:
    base = [0.0] * 12 if not any(values) else BASE
    plan, results = study({("push", "base"): base, ("push", "more"): values}, noise=0.1)
    made = table(Results(plan, results))
    assert SENTENCE not in made.caption
    assert "joint t intervals" in made.caption


def test_a_metric_that_is_no_score_has_no_successes(study) -> None:
    plan, results = study(RATES)
    made = table(Results(plan, results), metric="training/length")
    assert SENTENCE not in made.caption


def test_tasks_of_successes_are_named_beside_others(study) -> None:
    others = realistic(12, 2, ("reacher",))
    rates = {("push", "standard"): BASE, ("push", "brax"): MORE}
    plan, results = study(rates | others, units={"reacher": 30.0})
    made = table(Results(plan, results))
    alone = table(Results(*study(others, units={"reacher": 30.0}, name="alone")))
    assert f"Scores of 0 and 1 on push {SENTENCE}" in made.caption
    assert "joint t intervals" in made.caption
    row, want = made.entry("reacher", "brax"), alone.entry("reacher", "brax")
    assert (row.low, row.p, row.mean) == (want.low, want.p, want.mean)
    assert made.entry("push", "brax").p == pytest.approx(2 * 0.5**10)


def test_variants_below_another_by_mcnemar() -> None:
    """Of three pairs at 5%: one that loses 8 of 8 is below, one that loses 5 of 5 is not."""
    best = np.ones(8)
    some, none = np.repeat([0.0, 1.0], [5, 3]), np.zeros(8)
    assert list(fewer_successes([best, some, none])) == [False, False, True]
    lacking = np.where(np.arange(8) < 4, np.nan, none)
    assert not fewer_successes([best, some, lacking]).any()
    assert not fewer_successes([best]).any()


def test_what_is_a_success() -> None:
    assert are_successes([0, 1])
    assert not are_successes([0, 0])
    assert not are_successes([1, 0.5])
    assert not are_successes([])

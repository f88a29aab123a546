"""Statistics against scipy.stats, closed forms and identities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from shapes_of_returns import SHAPES

from ablations.report.statistics import (
    Comparison,
    compare,
    holm,
    interval,
    iqm,
    judge,
    power_of_difference,
    power_of_equivalence,
    seeds_for_effect,
    seeds_to_decide,
    summary,
    verdict,
    wilcoxon,
)

NUMBERS = st.floats(-1e3, 1e3, allow_nan=False, width=32)


def sample(n: int, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, n)


# Summaries and intervals


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 10, 20, 50])
def test_summaries_are_those_of_numpy_and_scipy(n: int) -> None:
    scores = sample(3 * n).reshape(3, n)
    np.testing.assert_allclose(iqm(scores), scipy.stats.trim_mean(scores, 0.25, axis=-1))
    np.testing.assert_allclose(summary(scores, "mean"), scores.mean(-1))
    np.testing.assert_allclose(summary(scores, "median"), np.median(scores, -1))


def test_iqm_ignores_a_quarter_of_the_seeds_at_each_end() -> None:
    assert iqm([1, 2, 3, 4, 5, 6, 7, 8]) == 4.5
    assert iqm([-1e9, -1e9, 3, 4, 5, 6, 1e9, 1e9]) == 4.5
    assert np.isnan(iqm([]))


@given(arrays(np.float64, st.integers(2, 12), elements=NUMBERS))
@settings(max_examples=60, deadline=None)
def test_interval_holds_the_statistic_whatever_the_order(scores: np.ndarray) -> None:
    low, high = interval(scores, replicates=500)
    assert low <= iqm(scores) + 1e-9 <= high + 2e-9
    shuffled = np.random.default_rng(1).permutation(scores)
    assert interval(shuffled, replicates=500) == (low, high)


def test_interval_moves_and_stretches_with_the_scores() -> None:
    scores = sample(8)
    low, high = interval(scores)
    moved = interval(10 * scores + 3)
    np.testing.assert_allclose(moved, (10 * low + 3, 10 * high + 3))
    np.testing.assert_allclose(interval(-scores), (-high, -low), atol=0.05)


def test_interval_is_the_same_alone_and_beside_others() -> None:
    scores = sample(400 * 8).reshape(400, 8)
    together = np.stack(interval(scores))
    alone = np.stack([interval(row) for row in scores[::57]], axis=1)
    np.testing.assert_allclose(together[:, ::57], alone, rtol=1e-12)


def test_interval_of_a_large_normal_sample_is_the_textbook_one() -> None:
    scores = sample(500)
    low, high = interval(scores, "mean")
    reach = 1.96 * scores.std(ddof=1) / np.sqrt(500)
    assert (low, high) == pytest.approx((scores.mean() - reach, scores.mean() + reach), abs=4e-3)


def test_interval_of_few_seeds_is_the_t_interval_and_of_one_none() -> None:
    scores = sample(3)
    reach = scipy.stats.t.ppf(0.975, 2) * scipy.stats.sem(scores)
    assert interval(scores) == pytest.approx((scores.mean() - reach, scores.mean() + reach))
    assert np.isnan(interval([4.0])).all()


def test_identical_scores_have_an_interval_of_no_width() -> None:
    assert interval(np.full(8, 0.1)) == (0.1, 0.1)


def test_interval_is_that_of_a_plain_bootstrap() -> None:
    """The matrix of weights against resampling, sorting and trimming one by one."""
    scores = np.sort(sample(9))
    random = np.random.default_rng([20261, 9])
    means = [iqm(scores[index]) for index in random.integers(0, 9, (10_000, 9))]
    tail = scipy.stats.norm.cdf(-scipy.stats.t.ppf(0.975, 8))
    np.testing.assert_allclose(interval(scores), np.quantile(means, [tail, 1 - tail]))


# Comparisons


def test_a_comparison_agrees_with_scipy() -> None:
    a, b, margin = sample(10, 1, 0.4), sample(10, 2), 0.7
    found = compare(a, b, margin)
    paired = scipy.stats.ttest_rel(a, b)
    low, high = paired.confidence_interval(0.95)
    assert found.difference == pytest.approx((a - b).mean())
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.p == pytest.approx(paired.pvalue)
    assert found.wilcoxon_p == pytest.approx(scipy.stats.wilcoxon(a - b, method="exact").pvalue)
    upper = scipy.stats.ttest_1samp(a - b, margin, alternative="less").pvalue
    lower = scipy.stats.ttest_1samp(a - b, -margin, alternative="greater").pvalue
    assert found.p_equivalent == pytest.approx(max(upper, lower))
    u = scipy.stats.mannwhitneyu(a, b).statistic
    assert found.probability_of_improvement == pytest.approx(u / 100)


@given(arrays(np.float64, (2, 7), elements=NUMBERS))
@settings(max_examples=60, deadline=None)
def test_exchanging_the_two_only_turns_the_sign(scores: np.ndarray) -> None:
    there, back = compare(*scores, 1.0), compare(*scores[::-1], 1.0)
    assert there.difference == -back.difference
    assert there.low == -back.high
    assert (there.p, there.wilcoxon_p, there.p_equivalent) == (
        back.p,
        back.wilcoxon_p,
        back.p_equivalent,
    )
    assert there.probability_of_improvement == pytest.approx(1 - back.probability_of_improvement)


def test_pairing_removes_what_the_seeds_share() -> None:
    shared = 100 * sample(8, 3)
    found = compare(shared + 1 + 0.1 * sample(8, 4), shared + 0.1 * sample(8, 5))
    assert found.p < 1e-5 < scipy.stats.ttest_ind(shared + 1, shared).pvalue


def test_identical_scores_are_equal_and_nothing_divides_by_zero() -> None:
    scores = sample(8)
    found = compare(scores, scores.copy(), 0.01)
    assert found.identical
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert verdict(found, 1.0) == "equivalent"
    assert found.probability_of_improvement == 0.5
    assert seeds_to_decide(found, 0.01) is None


def test_one_constant_difference_has_the_p_of_a_sign_test() -> None:
    found = compare(sample(8) + 0.5, sample(8), 1.0)
    assert found.low == found.difference == found.high == pytest.approx(0.5)
    assert (found.p, found.p_equivalent) == (2**-7, 2**-8)
    assert not found.identical
    assert compare(sample(8) + 0.5, sample(8), 0.1).p_equivalent == 1


def test_one_seed_says_a_difference_and_nothing_more() -> None:
    found = compare([3.0], [1.0], 0.5)
    assert (found.n, found.difference) == (1, 2.0)
    assert found.low is found.high is found.p is found.wilcoxon_p is found.p_equivalent is None
    assert compare([], []).difference is None


def test_unpaired_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        compare([1.0, 2.0], [1.0])


@pytest.mark.parametrize("tied", [False, True])
def test_wilcoxon_is_the_permutation_test_over_all_sign_flips(tied: bool) -> None:
    differences = np.array([1.0, -2, 3, 3, 5, -1, 4, 0]) if tied else sample(8, 6, 0.6)
    kept = differences[differences != 0]
    ranks = scipy.stats.rankdata(np.abs(kept))
    flips = np.array(list(itertools.product([0, 1], repeat=len(kept)))) @ ranks
    seen = ranks[kept > 0].sum()
    expected = min(1.0, 2 * min(np.mean(flips <= seen), np.mean(flips >= seen)))
    assert wilcoxon(differences) == pytest.approx(expected)


def test_smallest_wilcoxon_p_at_eight_seeds() -> None:
    assert wilcoxon(np.arange(1.0, 9)) == pytest.approx(2 / 256)
    assert wilcoxon(np.zeros(5)) == 1


# Holm


def test_holm_by_hand() -> None:
    adjusted = holm([0.01, 0.04, 0.03, np.nan, 0.005])
    np.testing.assert_allclose(adjusted, [0.03, 0.06, 0.06, np.nan, 0.02])


@given(arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 1)))
def test_holm_lies_between_the_raw_p_and_bonferroni_and_keeps_the_order(p: np.ndarray) -> None:
    adjusted = holm(p)
    assert np.all(adjusted >= p)
    assert np.all(adjusted <= np.minimum(1, len(p) * p) + 1e-15)
    assert np.all(np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0)


def test_eight_seeds_can_reach_significance_under_holm() -> None:
    """Where Wilcoxon cannot: over 10 comparisons its smallest adjusted p is .078."""
    found = compare(sample(8, 1) + 3, sample(8, 2), None)
    assert holm([found.p, *[0.9] * 9])[0] < 0.05 < holm([found.wilcoxon_p, *[0.9] * 9])[0]


# Verdicts


@pytest.mark.parametrize(
    ("difference", "p_holm", "p_equivalent", "said"),
    [
        (1.0, 0.01, 0.9, "better"),
        (-1.0, 0.01, 0.9, "worse"),
        (1.0, 0.06, 0.9, "undecided"),
        (0.1, 0.9, 0.02, "equivalent"),
        (0.1, 0.9, 0.03, "undecided"),
        (0.1, 0.01, 0.02, "equivalent"),
        (1.0, 0.01, None, "better"),
        (0.0, None, None, "undecided"),
    ],
)
def test_verdicts(
    difference: float, p_holm: float | None, p_equivalent: float | None, said: str
) -> None:
    assert verdict(Comparison(8, difference, p_equivalent=p_equivalent), p_holm) == said


# Power


def test_power_of_difference_is_that_of_the_noncentral_t() -> None:
    critical = scipy.stats.t.ppf(0.975, 9)
    expected = scipy.stats.nct.sf(critical, 9, 0.8 * np.sqrt(10))
    assert power_of_difference(10, -0.8, 1.0) == pytest.approx(expected)
    assert power_of_difference(10, 0.0, 1.0) == pytest.approx(0.025)


@pytest.mark.parametrize("shape", ["normal", "near ceiling", "half collapse", "ceiling with atom"])
@pytest.mark.parametrize(("n", "effect"), [(8, 0.0), (10, 1.2), (20, 0.6), (50, 0.4)])
def test_power_predictions_hold_within_five_points(shape: str, n: int, effect: float) -> None:
    """Against simulated studies: effect and margin in standard deviations of the differences."""
    random = np.random.default_rng([7, n])
    a, b = SHAPES[shape](random, (2, 4_000, n))
    pairs = a - b
    deviation = float(pairs.std())
    pairs += effect * deviation
    margin = 1.2 * deviation
    found = [judge(row, margin) for row in pairs]
    decided = np.mean([verdict(one, None) == "equivalent" for one in found])
    predicted = power_of_equivalence(n, effect * deviation, deviation, margin)
    assert predicted == pytest.approx(decided, abs=0.05)
    if effect:
        excluded = np.mean([one.p < 0.05 for one in found])
        assert power_of_difference(n, effect * deviation, deviation) == pytest.approx(
            excluded, abs=0.05
        )


@pytest.mark.parametrize("shape", ["skewed up", "skewed down", "quarter collapse", "heavy tails"])
@pytest.mark.parametrize(("n", "effect"), [(8, 0.0), (20, 0.6)])
def test_power_is_never_promised_too_high(shape: str, n: int, effect: float) -> None:
    """Log-normal and heavy-tailed returns decide more often than said, by up to 10 points."""
    random = np.random.default_rng([8, n])
    pairs = np.subtract(*SHAPES[shape](random, (2, 1_500, n)))
    deviation = float(pairs.std())
    pairs += effect * deviation
    margin = 1.2 * deviation
    found = [judge(row, margin) for row in pairs]
    decided = np.mean([verdict(one, None) == "equivalent" for one in found])
    surplus = power_of_equivalence(n, effect * deviation, deviation, margin) - decided
    assert -0.11 < surplus < 0.05
    if effect:
        excluded = np.mean([one.p < 0.05 for one in found])
        surplus = power_of_difference(n, effect * deviation, deviation) - excluded
        assert -0.11 < surplus < 0.05


def test_seeds_to_decide_is_the_smallest_number_that_does() -> None:
    found = Comparison(8, 0.2, deviation=1.0)
    needed = seeds_to_decide(found, None)
    assert power_of_difference(needed, 0.2, 1.0) >= 0.8 > power_of_difference(needed - 1, 0.2, 1.0)
    sooner = seeds_to_decide(found, 1.0)
    assert power_of_equivalence(sooner, 0.2, 1.0, 1.0) >= 0.8
    assert power_of_equivalence(sooner - 1, 0.2, 1.0, 1.0) < 0.8
    assert sooner < needed < seeds_to_decide(found, None, comparisons=6)


def test_seeds_to_decide_knows_when_to_give_up() -> None:
    assert seeds_to_decide(Comparison(8, 1e-6, deviation=1.0), None) is None
    assert seeds_to_decide(Comparison(1, 0.5), 1.0) is None
    assert seeds_to_decide(Comparison(8, 5.0, deviation=1.0), None) == 9


def test_equivalent_means_that_the_interval_lies_within_the_margin() -> None:
    random = np.random.default_rng(8)
    for pairs in random.normal(0.2, 1.0, (300, 9)):
        found = judge(pairs, 1.0)
        inside = found.low > -1.0 and found.high < 1.0
        assert (verdict(found, None) == "equivalent") == inside


def test_seeds_for_an_effect_do_not_depend_on_those_there_are() -> None:
    needed = seeds_for_effect(0.5, 1.0)
    assert power_of_difference(needed, 0.5, 1.0) >= 0.8 > power_of_difference(needed - 1, 0.5, 1.0)
    assert seeds_to_decide(Comparison(5, 0.5, deviation=1.0), None) == needed
    assert seeds_to_decide(Comparison(99, 0.5, deviation=1.0), None) == 100
    assert seeds_for_effect(1e-6, 1.0) is None
    assert seeds_for_effect(0.0, 1.0, margin=0.5) == seeds_for_effect(0.0, 2.0, margin=1.0)
    with pytest.raises(ValueError, match="positive"):
        seeds_for_effect(1.0, 0.0)

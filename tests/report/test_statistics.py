"""Statistics against scipy.stats, closed forms and identities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ablations.report.statistics import (
    Comparison,
    chances,
    compare,
    deviations,
    interval,
    iqm,
    judge,
    most_differing,
    not_the_best,
    seeds_for,
    seeds_to_decide,
    summary,
    verdict,
    wilcoxon,
)
from ablations.report.statistics.paired import EXACT
from ablations.report.statistics.summaries import Statistic
from ablations.report.statistics.unpaired import compare_unpaired

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


@pytest.mark.parametrize(("n", "statistic"), [(9, "iqm"), (9, "mean"), (40, "iqm"), (40, "mean")])
def test_interval_is_that_of_a_plain_bootstrap(n: int, statistic: Statistic) -> None:
    """The matrix of weights against resampling, sorting and trimming one by one."""
    scores = np.sort(sample(n))
    random = np.random.default_rng([20261, n])
    drawn = scores[random.integers(0, n, (10_000, n))]
    quantile = scipy.stats.t.ppf(0.975, n - 1) * (
        np.sqrt(n / (n - 1)) if statistic == "mean" else 1
    )
    tail = scipy.stats.norm.cdf(-quantile)
    each = drawn.mean(axis=1) if statistic == "mean" else scipy.stats.trim_mean(drawn, 0.25, axis=1)
    expected = np.quantile(each, [tail, 1 - tail])
    np.testing.assert_allclose(interval(scores, statistic), expected)


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
    assert (there.low is None and back.high is None) or there.low == -back.high
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


def test_one_seed_says_a_difference_and_nothing_more() -> None:
    found = compare([3.0], [1.0], 0.5)
    assert (found.n, found.difference) == (1, 2.0)
    assert found.low is found.high is found.p is found.wilcoxon_p is found.p_equivalent is None
    assert compare([], []).difference is None


def test_unpaired_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        compare([1.0, 2.0], [1.0])


@pytest.mark.parametrize("power", [-300, -90, 80, 160, 306])
def test_unpaired_scores_are_compared_at_every_scale(power: int) -> None:
    ours, theirs = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 9.0, 4.0])
    expected = scipy.stats.ttest_ind(ours, theirs, equal_var=False)
    interval = expected.confidence_interval(0.95)
    found = compare_unpaired(ours * 10.0**power, theirs * 10.0**power)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.low == pytest.approx(interval.low * 10.0**power, rel=1e-9, abs=0)
    assert found.high == pytest.approx(interval.high * 10.0**power, rel=1e-9, abs=0)


def test_of_unpaired_scores_too_far_apart_nothing_is_said() -> None:
    found = compare_unpaired([1e308, 1.6e308], [-1e308, -1.6e308])
    assert found.difference is found.low is found.high is None


@pytest.mark.parametrize("tied", [False, True])
def test_wilcoxon_is_the_permutation_test_over_all_sign_flips(tied: bool) -> None:
    differences = np.array([1.0, -2, 3, 3, 5, -1, 4, 0]) if tied else sample(8, 6, 0.6)
    kept = differences[differences != 0]
    ranks = scipy.stats.rankdata(np.abs(kept))
    flips = np.array(list(itertools.product([0, 1], repeat=len(kept)))) @ ranks
    seen = ranks[kept > 0].sum()
    expected = min(1.0, 2 * min(np.mean(flips <= seen), np.mean(flips >= seen)))
    assert wilcoxon(differences) == pytest.approx(expected)


@pytest.mark.parametrize("tied", [False, True])
def test_wilcoxon_of_many_is_the_normal_approximation(tied: bool) -> None:
    differences = np.random.default_rng(4).normal(0.12, 1.0, 400)
    differences = differences.round(1) if tied else differences
    differences = differences[differences != 0]
    theirs = scipy.stats.wilcoxon(differences, correction=True, method="approx").pvalue
    assert wilcoxon(differences) == pytest.approx(theirs)
    few = differences[:EXACT]
    assert wilcoxon(few) == pytest.approx(
        scipy.stats.wilcoxon(few, method="approx").pvalue, abs=2e-3
    )


def test_smallest_wilcoxon_p_at_eight_seeds() -> None:
    assert wilcoxon(np.arange(1.0, 9)) == pytest.approx(2 / 256)
    assert wilcoxon(np.zeros(5)) == 1


def test_the_interval_is_student_s_at_its_level() -> None:
    pairs = sample(9, 3, 0.4)
    for level in (0.05, 0.01, 0.05 / 24):
        found = judge(pairs, level=level)
        expected = scipy.stats.t.interval(1 - level, 8, pairs.mean(), scipy.stats.sem(pairs))
        assert (found.low, found.high) == pytest.approx(expected)
        assert (found.low > 0 or found.high < 0) == (found.p < level)


# Ties


def test_equal_pairs_have_no_interval_and_prove_nothing() -> None:
    found = compare(sample(8), sample(8), 0.01)
    assert (found.difference, found.low, found.high, found.p) == (0, None, None, 1)
    assert (found.p_equivalent, found.probability_of_improvement) == (None, 0.5)
    assert verdict(found, 0.01) == "undecided"
    assert seeds_to_decide(found, 0.01) == (None, None, None)


def test_one_constant_difference_has_the_p_of_a_sign_test() -> None:
    found = compare(sample(8) + 0.5, sample(8), 1.0)
    assert (found.difference, found.low) == (pytest.approx(0.5), None)
    assert (found.p, found.p_equivalent) == (2**-7, None)
    assert verdict(found, 0.1) == verdict(found, None) == "better, by an undecided amount"
    strict = compare(sample(8) + 0.5, sample(8), 1.0, level=0.005)
    assert verdict(strict, 0.1) == "undecided"


@pytest.mark.parametrize("n", [2, 5, 8, 50])
def test_equal_pairs_bound_the_share_of_seeds_that_differ(n: int) -> None:
    """The upper end of Clopper and Pearson's interval of a share that was never seen."""
    expected = scipy.stats.binomtest(0, n).proportion_ci(0.95).high
    assert most_differing(n) == pytest.approx(expected)


# Verdicts


@pytest.mark.parametrize(
    ("low", "high", "margin", "said"),
    [
        (1.1, 2.0, 1.0, "better"),
        (-2.0, -1.1, 1.0, "worse"),
        (0.1, 2.0, 1.0, "better, by an undecided amount"),
        (-1.5, -0.5, 1.0, "worse, by an undecided amount"),
        (-0.5, 0.5, 1.0, "equivalent"),
        (0.1, 0.9, 1.0, "equivalent"),
        (-0.5, 1.0, 1.0, "undecided"),
        (-2.0, 2.0, 1.0, "undecided"),
        (0.1, 0.9, None, "better, by an undecided amount"),
        (-0.1, 0.9, None, "undecided"),
    ],
)
def test_where_the_interval_lies_decides_the_word(
    low: float, high: float, margin: float | None, said: str
) -> None:
    assert verdict(Comparison(8, (low + high) / 2, low, high), margin) == said


@given(st.floats(-3, 3), st.floats(0.01, 3), st.floats(0.01, 3), st.sampled_from([0.5, 2.0, 4.0]))
def test_a_verdict_does_not_depend_on_units_and_turns_with_the_sign(
    center: float, reach: float, margin: float, unit: float
) -> None:
    def said(factor: float) -> str:
        ends = sorted((factor * (center - reach), factor * (center + reach)))
        return verdict(Comparison(8, factor * center, *ends), abs(factor) * margin)

    turned = {"better": "worse", "worse": "better"}
    word, comma, amount = said(1.0).partition(",")
    assert said(unit) == said(1.0)
    assert said(-unit) == turned.get(word, word) + comma + amount


@pytest.mark.parametrize("comparisons", [1, 4, 12])
def test_all_words_of_a_family_are_right_at_once(comparisons: int) -> None:
    """Truths at 0, at the margin and beyond; a word is false if it says what is not so."""
    random = np.random.default_rng(9)
    margin, studies, wrong = 1.0, 1_500, 0
    truths = np.resize([0.0, margin, -margin, 0.4, 2 * margin], comparisons)
    for _ in range(studies):
        false = False
        for truth in truths:
            found = judge(random.normal(truth, 0.8, 8), margin, level=0.05 / comparisons)
            said = verdict(found, margin)
            false |= said == "equivalent" and abs(truth) >= margin
            false |= said.startswith("better") and truth <= 0
            false |= said.startswith("worse") and truth >= 0
            false |= said == "better" and truth <= margin
            false |= said == "worse" and truth >= -margin
        wrong += false
    assert wrong / studies <= 0.05 + 2 * 0.0056


# The best


@pytest.mark.parametrize("k", [4, 8, 16])
def test_variants_that_are_equal_all_keep_the_mark(k: int) -> None:
    random = np.random.default_rng([10, k])
    trials = 400
    shared = random.normal(size=(trials, 1, 8))
    wrong = sum(np.any(not_the_best(rows)) for rows in shared + random.normal(size=(trials, k, 8)))
    assert wrong / trials <= 0.05 + 2 * 0.011


def test_the_mark_is_lost_where_another_is_clearly_better() -> None:
    random = np.random.default_rng(11)
    rows = random.normal(size=(4, 8)) + np.array([0.0, 0.0, 6.0, 6.0])[:, None]
    assert not_the_best(rows).tolist() == [True, True, False, False]
    assert not_the_best(rows[:1]).tolist() == [False]


def test_pairs_are_those_of_the_paired_t_test_shared_over_all() -> None:
    rows = np.random.default_rng(12).normal(size=(5, 8)) + 0.7 * np.arange(5)[:, None]
    p = {
        (i, j): scipy.stats.ttest_rel(rows[i], rows[j], alternative="less").pvalue
        for i in range(5)
        for j in range(5)
        if i != j
    }
    expected = [any(p[i, j] < 0.025 / 10 for j in range(5) if j != i) for i in range(5)]
    assert any(expected)
    assert not all(expected)
    assert not_the_best(rows).tolist() == expected


def test_a_pair_uses_the_seeds_that_both_have() -> None:
    rows = np.array([[0.0, 1, 2, 3, np.nan, np.nan], [5, 6.1, 7, 8, 9, np.nan]])
    assert not_the_best(rows).tolist() == [True, False]
    rows[0, :4] = np.nan
    assert not_the_best(rows).tolist() == [False, False]


# Power


@pytest.mark.parametrize("level", [0.05, 0.005, 0.001])
@pytest.mark.parametrize("n", [3, 8, 20, 100])
def test_the_chance_of_a_difference_is_that_of_the_noncentral_t(n: int, level: float) -> None:
    critical = scipy.stats.t.ppf(1 - level / 2, n - 1)
    for difference in (0.0, 0.3, -1.0):
        law = scipy.stats.nct(n - 1, difference * np.sqrt(n)) if difference else None
        law = law or scipy.stats.t(n - 1)
        expected = law.sf(critical) + law.cdf(-critical)
        assert chances(n, difference, 1.0, None, level).differs == pytest.approx(
            expected, abs=0.004
        )


@pytest.mark.parametrize(
    ("n", "difference", "margin"), [(8, 0.0, 1.2), (20, 0.3, 0.8), (5, 0.5, 2)]
)
def test_the_chances_of_verdicts_are_those_of_simulation_and_disjoint(
    n: int, difference: float, margin: float
) -> None:
    pairs = np.random.default_rng(12).normal(difference, 1, (40_000, n))
    reach = scipy.stats.t.ppf(0.975, n - 1) * scipy.stats.sem(pairs, axis=1)
    differs = np.abs(pairs.mean(1)) > reach
    inside = np.abs(pairs.mean(1)) + reach < margin
    found = chances(n, difference, 1.0, margin)
    assert found.differs == pytest.approx(np.mean(differs), abs=0.01)
    assert found.equivalent == pytest.approx(np.mean(inside & ~differs), abs=0.01)
    assert found.decides == pytest.approx(np.mean(inside | differs), abs=0.01)


def test_seeds_are_the_fewest_that_decide() -> None:
    for effect, margin, level in ((0.5, None, 0.05), (0.0, 0.5, 0.05), (0.25, 0.5, 0.005)):
        needed = seeds_for(effect, 1.0, margin, level)
        assert chances(needed, effect, 1.0, margin, level).decides >= 0.8
        assert chances(needed - 1, effect, 1.0, margin, level).decides < 0.8
    assert seeds_for(1e-6, 1.0) is None
    assert seeds_for(5.0, 1.0, fewest=9) == 9
    assert seeds_for(0.0, 1.0, margin=0.5) == seeds_for(0.0, 2.0, margin=1.0)
    with pytest.raises(ValueError, match="positive"):
        seeds_for(1.0, 0.0)


@pytest.mark.parametrize("n", [5, 8, 20])
def test_the_interval_of_a_deviation_is_the_chi_squared_one(n: int) -> None:
    low, high = deviations(n, 2.0, 0.1)
    ends = scipy.stats.chi2.ppf([0.95, 0.05], n - 1)
    assert (low, high) == pytest.approx(tuple(2.0 * np.sqrt((n - 1) / ends)))


@pytest.mark.parametrize("n", [5, 8, 20])
def test_nine_of_ten_ranges_of_seeds_for_an_effect_hold_the_truth(n: int) -> None:
    random = np.random.default_rng([13, n])
    truth = seeds_for(0.5, 1.0, 0.5)
    hits = 0
    for pairs in random.normal(size=(200, n)):
        spreads = deviations(n, judge(pairs).deviation, 0.1)
        low, high = (seeds_for(0.5, spread, 0.5) for spread in spreads)
        hits += low <= truth <= (high or 10**9)
    assert hits / 200 > 0.9 - 2 * 0.021


@pytest.mark.parametrize(("n", "difference"), [(5, 0.0), (8, 0.25), (20, 0.4)])
def test_nine_of_ten_ranges_of_undecided_comparisons_hold_the_truth(
    n: int, difference: float
) -> None:
    random = np.random.default_rng([14, n])
    margin = 0.5
    truth = max(n + 1, seeds_for(difference, 1.0, margin))
    hits, trials = 0, 0
    while trials < 60:
        found = judge(random.normal(difference, 1.0, n), margin)
        if verdict(found, margin) == "undecided":
            low, seen, high = seeds_to_decide(found, margin)
            assert n < low <= (seen or 10**9)
            hits += low <= truth <= (high or 10**9)
            trials += 1
    assert hits / trials > 0.9 - 2 * 0.039


def test_without_a_margin_no_number_of_seeds_is_sure_to_decide() -> None:
    found = judge(sample(8, 5))
    assert seeds_to_decide(found, None).high is None
    assert seeds_to_decide(Comparison(1, 0.5), 1.0) == (None, None, None)

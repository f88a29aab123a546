"""Differences, verdicts and exact rates against scipy.stats, least squares and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ablations import stats
from ablations.stats import Difference, decide

NAN = math.nan
NUMBERS = st.floats(-1e3, 1e3, allow_nan=False, width=32)


def sample(n: int, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, n)


def ends(result: Difference) -> tuple[float, float, float]:
    return result.difference, result.low, result.high


# Verdicts

CASES = [  # ends, margin: the verdict; where more runs of the variant failed; of the baseline
    ((-0.5, 0.5), 1.0, "equivalent", "failed", "inconclusive"),
    ((0.1, 0.9), 1.0, "equivalent", "failed", "inconclusive"),
    ((-0.9, -0.1), 1.0, "equivalent", "failed", "inconclusive"),
    ((0.0, 0.0), 1.0, "equivalent", "failed", "inconclusive"),
    ((-0.5, 1.0), 1.0, "inconclusive", "failed", "inconclusive"),  # an end at the margin
    ((-1.0, 0.5), 1.0, "inconclusive", "failed", "inconclusive"),
    ((-2.0, 2.0), 1.0, "inconclusive", "failed", "inconclusive"),
    ((0.0, 2.0), 1.0, "inconclusive", "failed", "inconclusive"),  # an end at 0
    ((-2.0, 0.0), 1.0, "inconclusive", "failed", "inconclusive"),
    ((0.1, 1.0), 1.0, "better", "failed", "better"),
    ((0.1, 2.0), 1.0, "better", "failed", "better"),
    ((1.1, 2.0), 1.0, "better", "failed", "better"),
    ((-1.0, -0.1), 1.0, "worse", "worse", "inconclusive"),
    ((-2.0, -0.1), 1.0, "worse", "worse", "inconclusive"),
    ((-2.0, -1.1), 1.0, "worse", "worse", "inconclusive"),
    ((-0.1, 0.9), NAN, "inconclusive", "failed", "inconclusive"),
    ((0.1, 0.9), NAN, "better", "failed", "better"),
    ((-0.9, -0.1), NAN, "worse", "worse", "inconclusive"),
    ((0.0, 0.0), NAN, "inconclusive", "failed", "inconclusive"),
    ((NAN, NAN), 1.0, "inconclusive", "failed", "inconclusive"),
    ((NAN, NAN), NAN, "inconclusive", "failed", "inconclusive"),
]


@pytest.mark.parametrize(("interval", "margin", "verdict", "failed", "baseline_failed"), CASES)
def test_the_interval_and_the_failures_decide(
    interval, margin, verdict, failed, baseline_failed
) -> None:
    assert decide(*interval, margin) == verdict
    for more in (1, 3):
        assert decide(*interval, margin, more) == failed
        assert decide(*interval, margin, -more) == baseline_failed
    turned = {"better": "worse", "worse": "better"}
    assert decide(-interval[1], -interval[0], margin) == turned.get(verdict, verdict)
    assert decide(*(10 * end for end in interval), 10 * margin) == verdict


# Paired and unpaired scores


@pytest.mark.parametrize("level", [0.05, 0.01, 0.05 / 24])
def test_paired_and_unpaired_differences_are_scipys(level: float) -> None:
    a, b, c = sample(10, 1, 0.4), sample(10, 2), sample(13, 3)
    for result, test, center, n in (
        (stats.paired(a, b, level), scipy.stats.ttest_rel(a, b), (a - b).mean(), 10),
        (stats.welch(a, c, level), scipy.stats.ttest_ind(a, c, equal_var=False), None, 10),
    ):
        low, high = test.confidence_interval(1 - level)
        assert ends(result) == pytest.approx((center or a.mean() - c.mean(), low, high))
        assert (result.n, result.p) == (n, pytest.approx(test.pvalue))
        assert (result.low > 0 or result.high < 0) == (result.p < level)
        half = (result.high - result.low) / 2
        t = scipy.stats.t.isf(level / 2, result.freedom)
        assert half == pytest.approx(t * result.sd / math.sqrt(n))
    found = stats.paired(a, b)
    assert found.sd == pytest.approx((a - b).std(ddof=1))
    assert stats.share_above(a, c) == pytest.approx(scipy.stats.mannwhitneyu(a, c).statistic / 130)


@given(arrays(np.float64, (2, 7), elements=NUMBERS))
@settings(max_examples=60, deadline=None)
def test_exchanging_the_two_only_turns_the_sign(scores: np.ndarray) -> None:
    for compare in (stats.paired, stats.welch):
        there, back = compare(*scores), compare(*scores[::-1])
        assert there.difference == -back.difference
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low), nan_ok=True)
        assert (there.p, there.sign()) == (pytest.approx(back.p, nan_ok=True), -back.sign())


def test_means_over_tasks_are_compared() -> None:
    a, b, every = (
        np.random.default_rng(k).normal(size=(2, n)) for k, n in ((1, 9), (2, 9), (3, 30))
    )
    assert stats.paired(a, b) == stats.paired(a.mean(axis=0), b.mean(axis=0))
    both = stats.control_variate(a, b, np.concatenate([b, every], axis=1))
    alone = [of.mean(axis=0) for of in (a, b, np.concatenate([b, every], axis=1))]
    assert ends(both) == pytest.approx(ends(stats.control_variate(*alone)))


def test_a_mean_of_tasks_combines_their_errors() -> None:
    """Of two tasks it is half of Welch's difference to the negative of the second."""
    first, second = sample(10, 1, 0.4), sample(6, 2)
    each = [stats.of_differences(scores) for scores in (first, second)]
    both = stats.mean_of_tasks(each, 0.01)
    welch = scipy.stats.ttest_ind(first, -second, equal_var=False)
    center = (first.mean() + second.mean()) / 2
    assert ends(both) == pytest.approx((center, *np.divide(welch.confidence_interval(0.99), 2)))
    assert (both.n, both.p, both.freedom) == (6, *map(pytest.approx, (welch.pvalue, welch.df)))
    assert both.sd == pytest.approx(math.hypot(each[0].sd, each[1].sd) / 2)
    same = stats.mean_of_tasks(each[:1] * 3)
    assert (same.difference, same.freedom) == pytest.approx((each[0].difference, 27))
    assert same.sd == pytest.approx(each[0].sd / math.sqrt(3))
    unknown = stats.mean_of_tasks([each[0], stats.of_differences([1.0])])
    assert (unknown.n, unknown.difference) == (1, pytest.approx((first.mean() + 1) / 2))
    assert math.isnan(unknown.low)


@pytest.mark.parametrize("compare", [stats.paired, stats.welch])
def test_one_seed_gives_a_difference_and_nothing_more(compare) -> None:
    assert repr(compare([3.0], [1.0])) == repr(Difference(1, 2.0))
    for nothing in (compare([], []), compare([math.inf, 1.0], [1.0, 2.0])):
        assert repr(nothing) == repr(Difference(nothing.n))
    assert decide(*ends(compare([3.0], [1.0]))[1:], 0.5) == "inconclusive"
    assert repr(stats.outcomes([1.0], [0.0])) == repr(Difference(1, 1.0))


def test_scores_of_other_shapes_are_refused() -> None:
    for compare in (stats.paired, stats.outcomes):
        with pytest.raises(ValueError, match="one shape"):
            compare([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match=r"\[n\] and \[m\]"):
        stats.welch([[1.0]], [2.0])


def test_scores_too_far_apart_for_a_float_have_no_difference() -> None:
    for compare in (stats.paired, stats.welch):
        assert repr(compare([1e308, 1.6e308], [-1e308, -1.6e308])) == repr(Difference(2))


@pytest.mark.parametrize("compare", [stats.paired, stats.welch])
def test_differences_that_are_all_the_same_have_no_interval(compare) -> None:
    """Equal runs prove nothing; a constant difference has the p of a sign test."""
    same = np.full(8, 0.1) if compare is stats.welch else sample(8)
    equal = compare(same, same)
    assert (equal.difference, equal.p, equal.sd, equal.sign()) == (0.0, 1.0, 0.0, 0)
    moved = compare(same + 0.5, same)
    assert (moved.difference, moved.p, moved.sd) == (pytest.approx(0.5), 2**-7, 0.0)
    assert (moved.sign(), moved.sign(0.005)) == (1, 0)
    for result in (equal, moved):
        assert math.isnan(result.low)
        assert math.isnan(result.high)


# A baseline with more seeds


def drawn(n: int, extra: int, rho: float, shift: float = 0.3) -> tuple[np.ndarray, ...]:
    """Return a variant `[n]`, its baseline `[n]` and all of the baseline `[n + extra]`."""
    rng = np.random.default_rng(n + extra)
    every = rng.normal(size=n + extra)
    noise = rng.normal(size=n)
    return shift + rho * every[:n] + math.sqrt(1 - rho**2) * noise, every[:n], every


@pytest.mark.parametrize(
    ("n", "extra", "rho"), [(10, 5, 0.0), (30, 90, 0.5), (120, 360, 0.9), (40, 1, -0.3)]
)
def test_a_control_variate_is_a_fitted_line_at_the_mean_of_all_seeds(
    n: int, extra: int, rho: float
) -> None:
    """The error is that of a fitted line at a point, from the covariance of its coefficients."""
    y, x, every = drawn(n, extra, rho)
    matrix = np.column_stack([np.ones(n), x])
    coefficients, (left,), *_ = np.linalg.lstsq(matrix, y, rcond=None)
    at = np.array([1.0, every.mean()])
    own = at @ (left / (n - 2) * np.linalg.inv(matrix.T @ matrix)) @ at
    shared = (coefficients[1] - 1) ** 2 * every.var(ddof=1) / len(every)
    freedom = (own + shared) ** 2 / (own**2 / (n - 2) + shared**2 / (len(every) - 1))
    center, error = at @ coefficients - every.mean(), math.sqrt(own + shared)
    result = stats.control_variate(y, x, every, level=0.01)
    reach = scipy.stats.t.isf(0.005, freedom) * error
    assert ends(result) == pytest.approx((center, center - reach, center + reach))
    assert (result.n, result.sd) == (n, pytest.approx(error * math.sqrt(n)))
    assert result.p == pytest.approx(2 * scipy.stats.t.sf(abs(center) / error, freedom))


def test_a_control_variate_moves_and_scales_with_the_scores() -> None:
    scores = drawn(30, 30, 0.4)
    plain = ends(stats.control_variate(*scores))
    for scale in (1e-9, 3.0, 1e9):
        scaled = stats.control_variate(*(scale * of for of in scores))
        assert np.array(ends(scaled)) / scale == pytest.approx(plain)
    assert ends(stats.control_variate(*(of + 50 for of in scores))) == pytest.approx(plain)


def test_a_baseline_at_a_ceiling_gives_its_mean_alone() -> None:
    y, every = sample(12), np.ones(40)
    found = stats.control_variate(y, every[:12], every)
    low, high = scipy.stats.t.interval(0.95, 11, y.mean() - 1, scipy.stats.sem(y))
    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize("n", [0, 1, 7])
def test_few_pairs_and_equal_differences_are_compared_as_pairs(n: int) -> None:
    y, x, every = drawn(n, 20, 0.3)
    assert repr(stats.control_variate(y, x, every)) == repr(stats.paired(y, x))
    x = np.arange(20.0)
    moved = stats.control_variate(x[:10] + 1, x[:10], x)
    assert repr(moved) == repr(stats.paired(x[:10] + 1, x[:10]))


# Outcomes


def of_counts(gained: int, lost: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    ours, theirs = np.zeros((2, pairs))
    ours[:gained], theirs[gained : gained + lost] = 1, 1
    return ours, theirs


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (5, 0), (3, 9), (30, 28)])
def test_the_p_of_paired_outcomes_is_the_sign_test_of_the_pairs_that_differ(gained, lost) -> None:
    n, result = gained + lost, stats.outcomes(*of_counts(gained, lost, 60))
    if not n:
        assert (result.difference, result.p) == (0.0, 1.0)
        return
    test = scipy.stats.binomtest(gained, n)
    assert result.p == pytest.approx(test.pvalue)
    theta, q = test.proportion_ci(1 - 0.045), scipy.stats.binomtest(n, 60).proportion_ci(1 - 0.0025)
    products = [(2 * end - 1) * chance for end in theta for chance in q]
    assert (result.low, result.high) == pytest.approx((min(products[:2]), max(products[2:])))


@pytest.mark.parametrize("rates", [(0.3, 0.3), (0.5, 0.2), (0.05, 0.0), (0.6, 0.35)])
def test_a_difference_of_paired_rates_is_covered_exactly(rates: tuple[float, float]) -> None:
    """By the exact distribution of 14 pairs: each end misses at most half of the level."""
    pairs, level, (gain, loss) = 14, 0.1, rates
    below = above = 0.0
    for gained, lost in itertools.product(range(pairs + 1), repeat=2):
        if gained + lost <= pairs:
            counts = [gained, lost, pairs - gained - lost]
            chance = scipy.stats.multinomial.pmf(counts, pairs, [gain, loss, 1 - gain - loss])
            result = stats.outcomes(*of_counts(gained, lost, pairs), level)
            below += chance * (result.low > gain - loss)
            above += chance * (result.high < gain - loss)
    assert max(below, above) <= level / 2


def test_the_interval_leaves_0_out_nearly_where_mcnemar_rejects() -> None:
    for gained, lost in itertools.product(range(12), repeat=2):
        result = stats.outcomes(*of_counts(gained, lost, 40))
        assert result.low <= (gained - lost) / 40 <= result.high
        if result.p < 0.04:
            assert result.sign() == np.sign(gained - lost), (gained, lost)
        elif result.p > 0.05:
            assert result.sign() == 0
        swapped = stats.outcomes(*of_counts(lost, gained, 40))
        assert (swapped.low, swapped.high) == pytest.approx((-result.high, -result.low))


def test_unpaired_outcomes_are_covered() -> None:
    for p, q in ((0.5, 0.5), (0.9, 0.3)):
        missed = 0.0
        for k, m in itertools.product(range(9), range(12)):
            ours, theirs = [1.0] * k + [0.0] * (8 - k), [1.0] * m + [0.0] * (11 - m)
            result = stats.outcomes(ours, theirs, 0.1, by_seed=False)
            chance = scipy.stats.binom.pmf(k, 8, p) * scipy.stats.binom.pmf(m, 11, q)
            missed += chance * (not result.low <= p - q <= result.high)
            a, b = (stats.rate(*of, 0.05) for of in ((k, 8), (m, 11)))
            assert (result.low, result.high) == (a.low - b.high, a.high - b.low)
        assert 0 < missed <= 0.1


def test_the_p_of_a_loss_is_half_the_level_at_which_the_interval_excludes_it() -> None:
    ours, theirs = of_counts(3, 5, 30)
    p = stats.loss_p(ours, theirs, 0.3)
    for level, excluded in ((2.02 * p, True), (1.98 * p, False)):
        low = stats.outcomes(ours, theirs, level, by_seed=False).low
        assert (low > -0.3) == excluded


def test_what_is_an_outcome() -> None:
    assert stats.is_outcome([0, 1, 1.0, True])
    for other in ([0, 0.5], [], [0, np.nan]):
        assert not stats.is_outcome(other)
    assert stats.are_successes([0, 1])
    assert not stats.are_successes([0, 0])


# The best


def test_the_mark_is_lost_where_another_is_clearly_better() -> None:
    random = np.random.default_rng(11)
    rows = random.normal(size=(4, 8)) + np.array([0.0, 0.0, 6.0, 6.0])[:, None]
    assert stats.not_the_best(rows).tolist() == [True, True, False, False]
    assert stats.not_the_best(rows[:1]).tolist() == [False]


def test_pairs_are_those_of_the_paired_t_test_shared_over_all() -> None:
    rows = np.random.default_rng(12).normal(size=(5, 8)) + 0.7 * np.arange(5)[:, None]
    p = np.array(
        [[scipy.stats.ttest_rel(a, b, alternative="less").pvalue for b in rows] for a in rows]
    )
    expected = np.any(p < 0.025 / 10, axis=1).tolist()
    assert any(expected)
    assert not all(expected)
    assert stats.not_the_best(rows).tolist() == expected
    two = scipy.stats.ttest_rel(rows[0], rows[4]).pvalue
    for level, marked in ((1.001 * two, True), (0.999 * two, False)):
        assert stats.not_the_best(rows[[0, 4]], level).any() == marked


def test_a_pair_uses_the_seeds_that_both_have() -> None:
    rows = np.array([[0.0, 1, 2, 3, np.nan, np.nan], [5, 6.1, 7, 8, 9, np.nan]])
    assert stats.not_the_best(rows).tolist() == [True, False]
    rows[0, :4] = np.nan
    assert stats.not_the_best(rows).tolist() == [False, False]
    for n, is_below in ((5, False), (6, True)):  # by the sign test where all differ by one number
        constant = np.arange(2 * n).reshape(2, n) % n + np.array([[0.0], [1.0]])
        assert stats.not_the_best(constant).tolist() == [is_below, False]


def test_outcomes_are_marked_by_mcnemars_test() -> None:
    rows = np.stack([np.ones(9), np.zeros(9), np.arange(9) % 2, np.arange(9) < 3]).astype(float)
    rows[0, 8] = np.nan
    marked = stats.not_the_best(rows, exact=True)
    assert marked.tolist() == [False, True, False, False]

"""Factorial effects against regression and closed forms; sample efficiency."""

from __future__ import annotations

import collections
import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from ablations.errors import UserError
from ablations.report.statistics import (
    Design,
    design,
    effects,
    median_steps,
    steps_to_threshold,
)
from ablations.studies import fraction

COUPLED = {"torso": "shared", "gradient_clip": "global_norm"}
SETS = {
    f"{name}_{c}": {"value_coefficient": c, **extra}
    for name, extra in (("separate", {}), ("coupled", COUPLED))
    for c in (0.25, 0.5, 1.0)
}


def test_a_factorial_is_recognised_and_what_changes_together_is_one_factor() -> None:
    found = design(SETS, "separate_0.25")
    assert found.factors == {
        "value_coefficient": ("0.25", "0.5", "1"),
        "torso, gradient_clip": ("default, default", "shared, global_norm"),
    }
    assert found.shape == (3, 2)
    assert found.variants["coupled_1.0"] == (2, 1)


def test_the_baseline_is_the_reference_wherever_it_stands() -> None:
    found = design(SETS, "coupled_1.0")
    assert found.variants["coupled_1.0"] == (0, 0)
    assert found.factors["value_coefficient"][0] == "1"


@pytest.mark.parametrize(
    "sets",
    [
        {v: s for v, s in SETS.items() if v != "coupled_0.5"},
        {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}},
        {**SETS, "again": {"value_coefficient": 0.25}},
        {"a": {}},
    ],
)
def test_what_is_no_full_factorial_is_none(sets: dict) -> None:
    assert design(sets, next(iter(sets))) is None


def simulated(levels: tuple[int, ...], n: int = 6, seed: int = 0) -> tuple[np.ndarray, Design]:
    factors = {f"f{i}": tuple(map(str, range(k))) for i, k in enumerate(levels)}
    places = list(itertools.product(*map(range, levels)))
    variants = {f"v{i}": place for i, place in enumerate(places)}
    return np.random.default_rng(seed).normal(size=(n, len(places))), Design(factors, variants)


def test_two_by_two_by_hand() -> None:
    y, factorial = simulated((2, 2))
    a, b, both = effects(y, factorial)
    y = y.reshape(-1, 2, 2)
    np.testing.assert_allclose(
        a.comparison.difference, np.mean((y[:, 1, 0] - y[:, 0, 0] + y[:, 1, 1] - y[:, 0, 1]) / 2)
    )
    contrast = y[:, 1, 1] - y[:, 0, 1] - y[:, 1, 0] + y[:, 0, 0]
    assert both.factors == ("f0", "f1")
    assert both.comparison.p == pytest.approx(scipy.stats.ttest_1samp(contrast, 0).pvalue)
    assert b.comparison.n == 6


def test_effects_are_the_coefficients_of_a_regression() -> None:
    """Sum-to-zero coding of the other factors makes a coefficient the mean over their levels."""
    y, factorial = simulated((3, 2, 2), seed=1)
    found = {(e.factors, e.levels): e.comparison.difference for e in effects(y, factorial)}
    levels = np.array(list(itertools.product(range(3), range(2), range(2))))
    first = [levels[:, 0] == k for k in (1, 2)]
    second, third = (levels[:, j] - 0.5 for j in (1, 2))
    columns = [np.ones(12), *first, second, third, *(f * second for f in first)]
    columns += [*(f * third for f in first), second * third]
    matrix = np.array(columns, dtype=float).T
    fitted, *_ = np.linalg.lstsq(matrix, y.mean(axis=0), rcond=None)
    expected = {
        (("f0",), ("1",)): fitted[1],
        (("f0",), ("2",)): fitted[2],
        (("f0", "f1"), ("1", "1")): fitted[5],
        (("f0", "f1"), ("2", "1")): fitted[6],
        (("f0", "f2"), ("2", "1")): fitted[8],
        (("f1", "f2"), ("1", "1")): fitted[9],
    }
    for place, value in expected.items():
        assert found[place] == pytest.approx(value), place
    assert len(found) == 4 + 2 + 2 + 1


def test_an_additive_truth_has_no_interaction() -> None:
    y, factorial = simulated((3, 2))
    shared = y[:, :1] + np.add.outer([0, 1, 3], [0, 10]).ravel()
    found = effects(shared, factorial, margin=0.1)
    assert [e.comparison.difference for e in found] == pytest.approx([1, 3, 10, 0, 0])
    assert found[-1].comparison.difference == pytest.approx(0)
    assert found[-1].margin == 0.1


def test_without_a_complete_seed_there_are_effects_without_numbers() -> None:
    y, factorial = simulated((3, 2, 2), n=0)
    found = effects(y, factorial, margin=0.1)
    assert [len(e.factors) for e in found] == [1] * 4 + [2] * 5
    assert {(e.comparison.n, e.comparison.difference, e.comparison.p) for e in found} == {
        (0, None, None)
    }


def test_scores_of_another_shape_are_refused() -> None:
    y, factorial = simulated((2, 2))
    with pytest.raises(ValueError, match="shape"):
        effects(y[:, :1], factorial)


# Fractions


CHANGES = {f"c{k}": {f"x{k}": 1} for k in range(15)}


def levels_of(changes: dict) -> tuple[list[str], np.ndarray]:
    made = fraction(changes)
    rows = [
        [int(key in one.sets) for sets in changes.values() for key in sets] for one in made.values()
    ]
    return list(made), np.array(rows)


@pytest.mark.parametrize(("changes", "runs"), [(4, 8), (15, 32), (16, 32), (17, 64)])
def test_in_a_fraction_the_levels_of_every_three_changes_meet_equally_often(
    changes: int, runs: int
) -> None:
    names, rows = levels_of({f"c{k}": {f"x{k}": 1} for k in range(changes)})
    assert names[0] == "baseline"
    assert not rows[0].any()
    assert rows.shape == (runs, changes)
    assert len({tuple(row) for row in rows}) == runs
    for three in itertools.combinations(range(changes), 3):
        met = collections.Counter(tuple(row) for row in rows[:, three])
        assert len(met) == 8, three
        assert set(met.values()) == {runs // 8}, three


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({f"c{k}": {f"x{k}": 1} for k in range(3)}, "four changes or more, not 3"),
        ({}, "four changes or more, not 0"),
        ({f"c{k}": {f"x{k % 3}": k} for k in range(4)}, "two changes of a fraction set x0"),
    ],
)
def test_what_makes_no_fraction_is_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        fraction(changes)


def test_two_settings_of_which_some_combinations_lack_are_one_factor() -> None:
    statistics = [("all", "minibatch"), ("all", "batch"), ("group", "batch")]
    sets = {
        f"{a},{s},{c}": {"advantage": a, "statistics": s, "scope": c}
        for a, (s, c) in itertools.product(("gae", "brax"), statistics)
    }
    found = design(sets, "gae,all,minibatch")
    assert found is not None
    assert found.factors == {
        "advantage": ("gae", "brax"),
        "statistics, scope": ("all, minibatch", "all, batch", "group, batch"),
    }
    assert found.variants["brax,group,batch"] == (1, 2)
    del sets["brax,all,batch"]
    assert design(sets, "gae,all,minibatch") is None


@pytest.mark.parametrize(
    "places",
    [
        [(0, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)],
        [(i, j, (i + j) % 3) for i in range(3) for j in range(3)],
        [(i, j, k, i ^ j) for i in (0, 1) for j in (0, 1) for k in (0, 1)],
    ],
)
def test_where_an_interaction_of_two_passes_for_a_main_effect_there_is_no_design(
    places: list,
) -> None:
    sets = {f"v{n}": {f"x{i}": k for i, k in enumerate(row)} for n, row in enumerate(places)}
    assert design(sets, "v0") is None


def test_a_fraction_is_recognised_and_one_that_lacks_a_variant_is_not() -> None:
    sets = {
        name: {key: one.sets.get(key, 0) for made in CHANGES.values() for key in made}
        for name, one in fraction(CHANGES).items()
    }
    found = design(sets, "baseline")
    assert found is not None
    assert not found.full
    assert list(found.factors) == [f"x{k}" for k in range(15)]
    assert set(found.factors.values()) == {("0", "1")}
    assert found.variants["baseline"] == (0,) * 15
    del sets["mix_7"]
    assert design(sets, "baseline") is None


def test_effects_of_a_fraction_are_those_of_a_regression_whatever_pairs_do() -> None:
    """Interactions of two add nothing to a main effect, which is the mean over both levels of all
    others; the fraction tells no interaction."""
    names, rows = levels_of(CHANGES)
    factors = {f"x{k}": ("0", "1") for k in range(15)}
    factorial = Design(factors, dict(zip(names, map(tuple, rows), strict=True)))
    rng = np.random.default_rng(4)
    signs = rows - 0.5
    mains = rng.normal(size=15)
    both = np.triu(rng.normal(size=(15, 15)), 1)
    truth = signs @ mains + np.einsum("vi,ij,vj->v", signs, both, signs)
    noise = rng.normal(size=(6, 32))
    found = effects(truth + noise, factorial)
    assert [one.factors for one in found] == [(f"x{k}",) for k in range(15)]
    quiet = effects(truth + 0 * noise, factorial)
    assert [one.comparison.difference for one in quiet] == pytest.approx(list(mains))
    matrix = np.column_stack([np.ones(32), signs])
    fitted, *_ = np.linalg.lstsq(matrix, (truth + noise).mean(axis=0), rcond=None)
    assert [one.comparison.difference for one in found] == pytest.approx(list(fitted[1:]))
    contrast = (truth + noise)[:, rows[:, 3] == 1].mean(1) - (truth + noise)[
        :, rows[:, 3] == 0
    ].mean(1)
    assert found[3].comparison.p == pytest.approx(scipy.stats.ttest_1samp(contrast, 0).pvalue)


# Sample efficiency


def test_steps_to_a_threshold() -> None:
    steps = [10, 20, 30, 40]
    assert steps_to_threshold(steps, [0, 5, 6, 9], 5) == 20
    assert steps_to_threshold(steps, [math.nan, 4, math.nan, 5], 5) == 40
    assert steps_to_threshold(steps, [0, 1, 2, 3], 5) == math.inf
    assert steps_to_threshold(steps, [6, 7, 8, 9], 5) == 10
    assert steps_to_threshold([], [], 5) == math.inf


def test_a_threshold_is_reached_where_a_run_stays() -> None:
    steps = np.arange(1, 11)
    assert steps_to_threshold(steps, [0, 0, 9, 0, 0, 0, 5, 6, 6, 6], 5) == 7
    assert steps_to_threshold(steps, [0, 0, 6, 6, 4.5, 6, 6, 6, 6, 6], 5) == 3
    assert steps_to_threshold(steps, [0, 0, 6, 6, 0, 0, 0, 0, 0, 0], 5) == math.inf


def test_crossings_are_those_of_the_isotonic_fit() -> None:
    random = np.random.default_rng(5)
    steps = np.cumsum(random.integers(1, 9, 60)).astype(float)
    for _ in range(50):
        values = 0.02 * steps + random.normal(size=60)
        fit = scipy.optimize.isotonic_regression(values, weights=np.diff(steps, prepend=0)).x
        reached = np.flatnonzero(fit >= 2.5)
        expected = steps[reached[0]] if len(reached) else math.inf
        assert steps_to_threshold(steps, values, 2.5) == expected


def test_a_noisy_curve_does_not_cross_earlier() -> None:
    steps = np.arange(1, 101)
    curve = steps / 100
    random = np.random.default_rng(6)
    noisy = curve + 0.3 * random.normal(size=(400, 100))
    crossings = [steps_to_threshold(steps, row, 0.5) for row in noisy]
    first = [steps[np.argmax(row >= 0.5)] for row in noisy]
    assert np.median(crossings) == pytest.approx(50, abs=2)
    assert np.median(first) < 25


def test_runs_that_never_get_there_count() -> None:
    found = median_steps([10, 20, 30, 40, math.inf, math.inf, math.inf, math.inf])
    assert (found.n, found.reached, found.median, found.low) == (8, 4, math.inf, 10)
    assert median_steps([10, 20, 30, math.inf]).median == 25
    assert median_steps([10, 20]).low is None
    assert median_steps([]).median is None


@pytest.mark.parametrize("n", [6, 8, 20, 50])
def test_the_interval_of_a_median_is_the_binomial_one(n: int) -> None:
    found = median_steps(range(n))
    low, high = found.low, found.high
    inside = scipy.stats.binom.cdf(high, n, 0.5) - scipy.stats.binom.cdf(low, n, 0.5)
    assert inside >= 0.95
    narrower = scipy.stats.binom.cdf(high - 1, n, 0.5) - scipy.stats.binom.cdf(low + 1, n, 0.5)
    assert narrower < 0.95
    assert low + high == n - 1

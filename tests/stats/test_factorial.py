"""Factorials and fractions: designs by brute force, effects against regression and NumPy loops."""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
from functools import cache

import numpy as np
import pytest
import scipy.stats

from ablations.errors import UserError
from ablations.stats import factorial as stats
from ablations.stats.factorial import Design
from ablations.studies import fraction

COUPLED = {"torso": "shared", "gradient_clip": "global_norm"}
SETS = {
    f"{name}_{c}": {"value_coefficient": c, **extra}
    for name, extra in (("separate", {}), ("coupled", COUPLED))
    for c in (0.25, 0.5, 1.0)
}


def changes_of(count: int) -> dict:
    return {f"c{k}": {f"x{k}": 1} for k in range(count)}


@cache
def made(count: int, size: int | None = None, doubled: bool = False) -> tuple[Design, np.ndarray]:
    """Return the fraction of so many changes and its levels `[settings, changes]`."""
    variants = fraction(changes_of(count), size=size, doubled=doubled)
    rows = np.array([[int(f"x{k}" in v.sets) for k in range(count)] for v in variants.values()])
    factors = {f"x{k}": ("0", "1") for k in range(count)}
    return Design(factors, dict(zip(variants, map(tuple, rows.tolist()), strict=True))), rows


def products(rows: np.ndarray, several: int) -> dict[tuple[int, ...], np.ndarray]:
    signs = 2 * rows - 1
    columns = itertools.combinations(range(rows.shape[1]), several)
    return {of: signs[:, of].prod(axis=1) for of in columns}


def ends(difference) -> tuple[float, float, float]:
    return difference.difference, difference.low, difference.high


# Which designs there are


def test_a_factorial_is_recognised_and_what_changes_together_is_one_factor() -> None:
    design = stats.design(SETS, "separate_0.25")
    assert design.factors == {
        "value_coefficient": ("0.25", "0.5", "1"),
        "torso, gradient_clip": ("default, default", "shared, global_norm"),
    }
    assert (design.shape, design.full) == ((3, 2), True)
    assert design.variants["coupled_1.0"] == (2, 1)
    turned = stats.design(SETS, "coupled_1.0")
    assert turned.variants["coupled_1.0"] == (0, 0)
    assert turned.factors["value_coefficient"][0] == "1"


FIRST = [1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0]  # of Plackett and Burman
TWELVE = [[0] * 11, *(FIRST[-k:] + FIRST[:-k] for k in range(11))]


def of_levels(levels: list) -> dict:
    return {f"v{n}": {f"x{i}": k for i, k in enumerate(row)} for n, row in enumerate(levels)}


@pytest.mark.parametrize(
    "sets",
    [
        {v: s for v, s in SETS.items() if v != "coupled_0.5"},
        {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}},
        {**SETS, "again": {"value_coefficient": 0.25}},
        {"a": {}},
        {f"{v}{k}": of.sets for v, of in fraction(changes_of(8)).items() for k in "ab"},
        # An interaction of two would pass for a main effect.
        of_levels([(0, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)]),
        of_levels([(i, j, (i + j) % 3) for i in range(3) for j in range(3)]),
        of_levels([(i, j, k, i ^ j) for i in (0, 1) for j in (0, 1) for k in (0, 1)]),
        # Of the levels of three factors all combinations occur, but not equally often.
        of_levels(
            [
                (d, d ^ c, d ^ a, d ^ b, c ^ a & b)
                for a, b, c, d in itertools.product((0, 1), repeat=4)
            ]
        ),
        # Three levels, and interactions that are aliased in part.
        of_levels([(*p, sum(p) % 3) for p in itertools.product(range(3), repeat=3)]),
        of_levels(TWELVE + [[1 - c for c in row] for row in TWELVE]),
    ],
)
def test_what_is_no_factorial_has_no_design(sets: dict) -> None:
    assert stats.design(sets, next(iter(sets))) is None


def test_two_settings_of_which_some_combinations_lack_are_one_factor() -> None:
    pairs = [("all", "minibatch"), ("all", "batch"), ("group", "batch")]
    sets = {
        f"{a},{s},{c}": {"advantage": a, "statistics": s, "scope": c}
        for a, (s, c) in itertools.product(("gae", "brax"), pairs)
    }
    design = stats.design(sets, "gae,all,minibatch")
    assert design.factors == {
        "advantage": ("gae", "brax"),
        "statistics, scope": ("all, minibatch", "all, batch", "group, batch"),
    }
    assert design.variants["brax,group,batch"] == (1, 2)
    del sets["brax,all,batch"]
    assert stats.design(sets, "gae,all,minibatch") is None


def test_a_fraction_is_recognised_and_one_that_lacks_a_variant_is_not() -> None:
    names = [f"x{k}" for k in range(15)]
    sets = {
        variant: {name: made_of.sets.get(name, 0) for name in names}
        for variant, made_of in fraction(changes_of(15)).items()
    }
    design = stats.design(sets, "baseline")
    assert not design.full
    assert (list(design.factors), set(design.factors.values())) == (names, {("0", "1")})
    assert design.variants["baseline"] == (0,) * 15
    del sets["mix_7"]
    assert stats.design(sets, "baseline") is None


@pytest.mark.parametrize(("changes", "runs"), [(4, 8), (15, 32), (16, 32), (17, 64)])
def test_in_a_fraction_the_levels_of_every_three_changes_meet_equally_often(changes, runs) -> None:
    design, rows = made(changes)
    assert next(iter(design.variants)) == "baseline"
    assert not rows[0].any()
    assert rows.shape == (runs, changes)
    assert len({tuple(row) for row in rows}) == runs
    for three in itertools.combinations(range(changes), 3):
        met = collections.Counter(tuple(row) for row in rows[:, three])
        assert (len(met), set(met.values())) == (8, {runs // 8}), three


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        (changes_of(3), {}, "at least four changes, not 3"),
        ({f"c{k}": {f"x{k % 3}": k} for k in range(4)}, {}, "two changes of a fraction set x0"),
        (changes_of(22), {"size": 126}, "expected a power of two from 64 to "),
        (changes_of(5), {"size": "16"}, "size='16'"),
        (changes_of(5), {"size": 64}, "size=64 of a fraction of 5 changes"),
        (changes_of(4), {"size": 16, "doubled": True}, "from 8 to 8"),
        (changes_of(6), {"size": 32, "doubled": True}, "cannot be doubled: use size=64"),
    ],
)
def test_what_makes_no_fraction_is_refused(changes: dict, options: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        fraction(changes, **options)


@pytest.mark.parametrize("doubled", [False, True])
def test_no_fraction_repeats_a_setting(doubled: bool) -> None:
    made_some = 0
    for count, power in itertools.product(range(4, 25), range(3, 8)):
        with contextlib.suppress(UserError):
            variants = fraction(changes_of(count), size=2**power, doubled=doubled)
            settings = {frozenset(variant.sets) for variant in variants.values()}
            assert len(settings) == len(variants) == 2 ** (power + doubled)
            made_some += 1
    assert made_some > 20


# Aliases


def aliased(rows: np.ndarray) -> int:
    """Count the pairs of interactions of two that are one column."""
    columns = np.array(list(products(rows, 2).values()))
    return int((np.abs(np.triu(columns @ columns.T, 1)) == len(rows)).sum())


@pytest.mark.parametrize(
    ("changes", "size"), [(5, None), (8, None), (15, None), (24, None), (11, 64), (22, 128)]
)
def test_aliases_are_the_interactions_whose_columns_are_equal_or_opposite(changes, size) -> None:
    design, rows = made(changes, size)
    rows = np.abs(rows - np.eye(1, changes, dtype=int))  # the first turned: some are opposite
    groups = stats.aliases(
        Design(design.factors, dict(zip(design.variants, map(tuple, rows), strict=True)))
    )
    columns = products(rows, 2)
    group_of = {pair: (k, sign) for k, group in enumerate(groups) for pair, sign in group.items()}
    pairs = list(group_of)
    assert sorted(pairs) == list(columns)
    assert all(next(iter(group.values())) == 1 for group in groups)
    for a, b in itertools.combinations(pairs, 2):
        same = group_of[a][0] == group_of[b][0]
        expected = group_of[a][1] * group_of[b][1] if same else 0
        assert np.mean(columns[a] * columns[b]) == expected, (a, b)


@pytest.mark.parametrize(("changes", "size"), [(22, 128), (11, 64)])
def test_a_larger_fraction_aliases_fewer_and_leaves_more_columns(changes: int, size: int) -> None:
    (_, small), (design, large) = made(changes), made(changes, size)
    assert len({tuple(row) for row in large.tolist()}) == len(large) == size
    assert aliased(large) < aliased(small) / 2
    assert len(stats.unused_columns(design)) >= size / 2 - changes


def test_a_doubled_fraction_holds_the_first_and_halves_its_aliases() -> None:
    once, twice = (
        fraction(changes_of(22), size=128),
        fraction(changes_of(22), size=128, doubled=True),
    )
    assert {name: twice[name] for name in once} == once
    _, rows = made(22, 128, doubled=True)
    assert len({tuple(row) for row in rows.tolist()}) == len(rows) == 256
    assert aliased(rows) <= aliased(rows[:128]) / 2
    assert not any(column.sum() for column in products(rows, 3).values()), "resolution IV"


def test_letters_leave_out_the_mean() -> None:
    names = stats.letters(30)
    assert (names[:3], names[24:27]) == (("A", "B", "C"), ("Z", "A1", "B1"))
    assert "I" not in names


@pytest.mark.parametrize("changes", [5, 17, 24])
def test_unused_columns_are_those_that_no_two_details_have(changes: int) -> None:
    design, rows = made(changes)
    columns = stats.unused_columns(design)
    assert len(columns) == len(rows) - 1 - changes - len(stats.aliases(design))
    threes = products(rows, 3).values()
    assert all(any(np.array_equal(column, three) for three in threes) for column in columns)
    used = [np.ones(len(rows)), *products(rows, 1).values(), *products(rows, 2).values()]
    assert not np.any(columns @ np.array(used).T)
    assert np.array_equal(columns @ columns.T, len(rows) * np.eye(len(columns)))


# Effects by seed


def simulated(levels: tuple[int, ...], n: int = 6, seed: int = 0) -> tuple[np.ndarray, Design]:
    factors = {f"f{i}": tuple(map(str, range(k))) for i, k in enumerate(levels)}
    rows = list(itertools.product(*map(range, levels)))
    variants = {f"v{i}": row for i, row in enumerate(rows)}
    return np.random.default_rng(seed).normal(size=(n, len(rows))), Design(factors, variants)


def test_two_by_two_by_hand() -> None:
    y, design = simulated((2, 2))
    effects = {of: stats.effect(y, weights) for of, weights in stats.contrasts(design).items()}
    assert list(effects) == [((0, 1),), ((1, 1),), ((0, 1), (1, 1))]
    a, _, both = effects.values()
    y = y.reshape(-1, 2, 2)
    change = (y[:, 1, 0] - y[:, 0, 0] + y[:, 1, 1] - y[:, 0, 1]) / 2
    contrast = y[:, 1, 1] - y[:, 0, 1] - y[:, 1, 0] + y[:, 0, 0]
    for effect, values in ((a, change), (both, contrast)):
        test = scipy.stats.ttest_1samp(values, 0)
        expected = (values.mean(), *test.confidence_interval())
        assert ends(effect) == pytest.approx(expected)
        assert (effect.n, effect.p) == (6, pytest.approx(test.pvalue))


def test_effects_are_the_coefficients_of_a_regression() -> None:
    """Sum-to-zero coding of the other factors makes a coefficient the mean over their levels."""
    y, design = simulated((3, 2, 2), seed=1)
    contrasts = stats.contrasts(design)
    effects = [stats.effect(y, weights).difference for weights in contrasts.values()]
    levels = np.array(design.columns).T
    first = [(levels[:, 0] == k) - 1 / 3 for k in (1, 2)]
    second, third = (levels[:, j] - 0.5 for j in (1, 2))
    columns = [np.ones(12), *first, second, third, *(f * second for f in first)]
    columns += [*(f * third for f in first), second * third]
    fitted, *_ = np.linalg.lstsq(np.array(columns, float).T, y.mean(axis=0), rcond=None)
    changes = [((0, 1),), ((0, 2),), ((1, 1),), ((2, 1),)]
    changes += [((0, k), (other, 1)) for other in (1, 2) for k in (1, 2)]
    assert list(contrasts) == [*changes, ((1, 1), (2, 1))]
    assert effects == pytest.approx(list(fitted[1:]))


def test_an_additive_truth_has_no_interaction() -> None:
    y, design = simulated((3, 2))
    additive = y[:, :1] + np.add.outer([0, 1, 3], [0, 10]).ravel()
    effects = [stats.effect(additive, of) for of in stats.contrasts(design).values()]
    assert [of.difference for of in effects] == pytest.approx([1, 3, 10, 0, 0])
    assert [of.sd for of in effects] == [0] * 5


def test_no_complete_seed_gives_no_number_and_another_shape_is_refused() -> None:
    y, design = simulated((3, 2, 2), n=0)
    (first, *_) = stats.contrasts(design).values()
    none = stats.effect(y, first)
    assert (none.n, math.isnan(none.difference)) == (0, True)
    for refuse in (lambda of: stats.effect(of, first), lambda of: stats.placebos(of, design, 1)):
        with pytest.raises(ValueError, match="shape"):
            refuse(y[:, :1])


def test_effects_of_a_fraction_are_those_of_a_regression_whatever_pairs_do() -> None:
    """Interactions of two add nothing to a main effect, the mean over both levels of all others."""
    design, rows = made(15)
    rng = np.random.default_rng(4)
    mains, both = rng.normal(size=15), np.triu(rng.normal(size=(15, 15)), 1)
    truth = (rows - 0.5) @ mains + np.einsum("vi,ij,vj->v", rows - 0.5, both, rows - 0.5)
    y = truth + rng.normal(size=(6, 32))
    matrix = np.column_stack([np.ones(32), rows - 0.5])
    fitted, *_ = np.linalg.lstsq(matrix, y.mean(axis=0), rcond=None)
    for scores, expected in ((np.tile(truth, (6, 1)), mains), (y, fitted[1:])):
        effects = stats.fraction_effects(scores, design)[0]
        assert [effect.difference for effect in effects] == pytest.approx(list(expected))


# Effects of fractions, with the error of a fraction


def scores_of(rows: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    """Return scores `[n, settings]` with main effects, interactions of two, seeds and noise."""
    rng = np.random.default_rng(seed)
    signs, k = rows - 0.5, rows.shape[1]
    truth = signs @ rng.normal(size=k)
    truth += np.einsum("vi,ij,vj->v", signs, np.triu(rng.normal(size=(k, k)), 1), signs)
    return truth + rng.normal(size=(n, 1)) + rng.normal(size=(n, len(rows)))


def by_loops(y: np.ndarray, rows: np.ndarray) -> tuple[list[float], float, float, int]:
    """Return main effects, the variance of a setting's mean between seeds, that about mains and
    interactions of two, and the degrees of the latter, each by its definition."""
    n, settings = y.shape
    means = [sum(y[s, v] for s in range(n)) / n for v in range(settings)]
    mains = []
    for i in range(rows.shape[1]):
        high = [means[v] for v in range(settings) if rows[v, i]]
        low = [means[v] for v in range(settings) if not rows[v, i]]
        mains.append(sum(high) / len(high) - sum(low) / len(low))
    grand, between = sum(means) / settings, 0.0
    for s in range(n):
        block = sum(y[s]) / settings
        between += sum((y[s, v] - block - means[v] + grand) ** 2 for v in range(settings))
    columns = [np.ones(settings), *products(rows, 1).values(), *products(rows, 2).values()]
    model = np.array(columns).T
    left = np.array(means) - model @ np.linalg.pinv(model) @ np.array(means)
    unused = settings - np.linalg.matrix_rank(model)
    pooled = between / ((n - 1) * (settings - 1)) / n if n > 1 else math.nan
    return mains, pooled, float(left @ left) / unused, int(unused)


@pytest.mark.parametrize(  # seeds; an interaction of three
    ("n", "third"), [(1, 0.0), (2, 0.0), (3, 0.0), (8, 0.0), (4, 3.0)]
)
def test_effects_and_their_errors_are_those_of_loops(n: int, third: float) -> None:
    design, rows = made(24)
    y = scores_of(rows, n) + third * products(rows[:, [1, 2, 4]], 3)[0, 1, 2]
    mains, between, left, unused = by_loops(y, rows)
    effects, _, residual = stats.fraction_effects(y, design, level=0.05)
    assert [e.difference for e in effects] == pytest.approx(mains)
    assert unused == 8
    lacks = n == 1 or left > between
    assert residual.lacks_fit == lacks
    assert not third or lacks
    variance, freedom = (left, 8) if lacks else (between, residual.freedom)
    assert residual.variance == pytest.approx(variance)
    assert (n - 1) * 20 < freedom <= (n - 1) * 63 or lacks
    for k, (effect, center) in enumerate(zip(effects, mains, strict=True)):
        each = y[:, rows[:, k] == 1].mean(axis=1) - y[:, rows[:, k] == 0].mean(axis=1)
        error = max(scipy.stats.sem(each) if n > 1 else 0.0, math.sqrt(4 * variance / 64))
        reach = scipy.stats.t.isf(0.025 / 24, freedom) * error
        found = effect
        assert ends(found) == pytest.approx((center, center - reach, center + reach))
        assert found.p == pytest.approx(2 * scipy.stats.t.sf(abs(center) / error, freedom))


def test_degrees_of_freedom_follow_how_the_variances_of_settings_differ() -> None:
    """Satterthwaite's, by his formula; equal variances have all degrees."""
    spread = np.where(np.arange(64) % 7 == 0, 9.0, 1.0)
    y = np.random.default_rng(5).normal(size=(6, 64)) * spread
    y -= y.mean(axis=0)  # no lack of fit
    variances = (y - y.mean(axis=1, keepdims=True)).var(axis=0, ddof=1)
    expected = 7 * variances.sum() ** 2 / (variances**2).sum()
    assert 5 < expected < 5 * 63 / 2
    assert stats.fraction_effects(y, made(24)[0])[2].freedom == pytest.approx(expected)


def test_an_effect_that_differs_between_seeds_has_its_own_error() -> None:
    design, rows = made(24)
    n, k = 8, 5
    y = scores_of(rows, n)
    y += 2 * np.random.default_rng(7).normal(size=(n, 1)) * (rows[:, k] - 0.5)
    each = y[:, rows[:, k] == 1].mean(axis=1) - y[:, rows[:, k] == 0].mean(axis=1)
    effects, _, residual = stats.fraction_effects(y, design, level=0.05)
    reach = scipy.stats.t.isf(0.025 / 24, residual.freedom) * scipy.stats.sem(each)
    expected = (each.mean(), each.mean() - reach, each.mean() + reach)
    assert ends(effects[k]) == pytest.approx(expected)
    widths = [e.high - e.low for e in effects]
    assert sorted(widths)[-1] == widths[k] > 2 * sorted(widths)[-2]


def test_an_aliased_interaction_is_the_signed_sum_of_its_pairs() -> None:
    design, rows = made(24)
    both = np.triu(np.random.default_rng(3).normal(size=(24, 24)), 1)
    y = np.einsum("vi,ij,vj->v", rows - 0.5, both, rows - 0.5)[None].repeat(2, 0)
    mains, groups, _ = stats.fraction_effects(y, design)
    assert [e.difference for e in mains] == pytest.approx([0] * 24, abs=1e-12)
    assert len(groups) == 31
    for alias, difference in groups:
        expected = sum(sign * both[pair] for pair, sign in alias.items())
        assert difference.difference == pytest.approx(expected)


def test_with_few_contrasts_to_spare_one_seed_has_no_interval_and_two_have() -> None:
    design, rows = made(15)  # of whose 32 settings one contrast is left
    for n, lacks in ((1, True), (2, False)):
        mains, groups, residual = stats.fraction_effects(scores_of(rows, n), design)
        found = [*mains, *(difference for _, difference in groups)]
        assert not residual.lacks_fit
        assert math.isnan(residual.variance) == lacks
        assert {math.isnan(of.low) for of in found} == {lacks}
        assert not any(math.isnan(of.difference) for of in found)


def test_no_seed_has_no_effect_and_equal_seeds_no_interval() -> None:
    design, rows = made(24)
    mains, groups, _ = stats.fraction_effects(np.zeros((0, 64)), design)
    for of in (*mains, *(difference for _, difference in groups)):
        assert of.n == 0
        assert math.isnan(of.difference)
    y = np.repeat(((2.0 * rows - 1) @ np.arange(24.0))[None], 3, axis=0)
    mains, _, residual = stats.fraction_effects(y, design)
    assert residual.variance < 1e-20
    assert [e.difference for e in mains] == pytest.approx(list(np.arange(24.0) * 2))
    assert all(math.isnan(e.low) for e in mains)


def test_effects_follow_the_scores_and_no_order() -> None:
    """Of tasks their means; seeds, units and names of settings do not matter."""
    design, rows = made(24)
    y = scores_of(rows, 4)

    def of(scores, design=design) -> np.ndarray:
        return np.array([ends(e) for e in stats.fraction_effects(scores, design)[0]])

    plain = of(y)
    assert of(7 + 3 * y[::-1]) == pytest.approx(3 * plain)
    assert of(y + 100 * np.arange(4)[:, None]) == pytest.approx(plain, abs=1e-6)
    order = np.random.default_rng(1).permutation(64)
    variants = list(design.variants.items())
    shuffled = Design(design.factors, dict(variants[k] for k in order))
    assert of(y[:, order], shuffled) == pytest.approx(plain)
    tasks = np.array([y, scores_of(rows, 4, seed=1)])
    assert of(tasks) == pytest.approx(of(tasks.mean(axis=0)))
    assert of(tasks)[:, 0] == pytest.approx((plain[:, 0] + of(tasks[1])[:, 0]) / 2)


def test_equal_variances_have_all_degrees_of_freedom() -> None:
    design, rows = made(5)
    signs = np.prod(2 * rows[:, :3] - 1, axis=1)
    assert stats.fraction_effects([signs, -signs], design)[2].freedom == 15


# Controls


def test_placebos_are_judged_as_details_of_scores_with_which_they_do_nothing() -> None:
    """The first split by hand: half of the runs of each side are those of the first seeds."""
    design, rows = made(24)
    y = scores_of(rows, 9)
    judged = stats.placebos(y, design, 3)
    assert judged.shape == (4, 25, 3)
    assert np.isfinite(judged).all()
    changed, rest = y[:4], y[4:8]
    for k in range(24):
        on = rows[:, k] == 1
        above, below = [changed[:, on], rest[:, ~on]], [changed[:, ~on], rest[:, on]]
        expected = np.mean([half.mean() for half in above]) - np.mean([h.mean() for h in below])
        assert judged[0, 1 + k, 0] == pytest.approx(expected)
    assert judged[0, 0, 0] == pytest.approx(changed.mean() - rest.mean())
    mains, _, _ = stats.fraction_effects((changed - rest) / 2, design, 0.05 * 24 / 25)
    assert judged[0, 1:] == pytest.approx(np.array([ends(e) for e in mains]))
    three = 50 * np.prod(2 * rows[:, [0, 3, 7]] - 1, axis=1)
    assert stats.placebos(y + three, design, 3) == pytest.approx(judged), "of no settings' own"


def test_a_planted_loss_moves_the_estimate_of_a_placebo_and_no_error() -> None:
    design, rows = made(24)
    y = scores_of(rows, 8)
    changed = np.concatenate([np.tile(rows[:, 5] == 1, (4, 1)), np.tile(rows[:, 5] == 0, (4, 1))])
    moved = stats.placebos(y - 0.2 * changed, design, 0)[0] - stats.placebos(y, design, 0)[0]
    expected = np.zeros((25, 3))
    expected[6] = -0.2
    assert moved == pytest.approx(expected, abs=1e-12)


def test_intervals_of_placebos_seldom_exclude_0_whatever_the_details_do() -> None:
    design, rows = made(24)
    for n in (2, 8):
        y = 20 * scores_of(rows, 1) + np.random.default_rng(n).standard_t(4, size=(n, len(rows)))
        judged = stats.placebos(y, design, 500)[1:]
        false = ((judged[..., 1] > 0) | (judged[..., 2] < 0)).any(axis=1)
        assert false.mean() <= 0.05 + 1.64 * math.sqrt(0.05 * 0.95 / 500)
    small, few = made(5)
    assert np.isnan(stats.placebos(scores_of(few, 2), small, 1)[..., 1]).all(), "no error is left"


@pytest.mark.parametrize("n", [1, 4])
def test_an_unused_column_is_judged_by_what_the_others_leave(n: int) -> None:
    design, rows = made(24)
    columns = stats.unused_columns(design)
    y = scores_of(rows, n) + 9 * columns[2] / 2
    judged = stats.unused_effects(y, design)
    estimates = columns @ y.mean(axis=0) * 2 / 64
    assert [of.difference for of in judged] == pytest.approx(list(estimates))
    left = math.sqrt(np.mean(np.delete(estimates, 2) ** 2))
    found = judged.pop(2)
    if n == 1:
        reach = scipy.stats.t.ppf(1 - 0.05 / 24 / 2, 7) * left
        assert found.low == pytest.approx(estimates[2] - reach)
    assert found.low > 0
    assert all(of.low < 0 < of.high for of in judged)

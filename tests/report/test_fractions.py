"""Fractions of a factorial: aliases by brute force, effects and their errors by NumPy loops."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from ablations.errors import UserError
from ablations.report.statistics import Design, design, effects, fractions, paired
from ablations.report.statistics.fractions import (
    Alias,
    aliases,
    dummy_details,
    fraction_effects,
    letters,
    resolution,
    unused_columns,
    unused_effects,
)
from ablations.studies import fraction
from ablations.studies.what_matters import VARIANTS


def made(changes: int, size: int | None = None) -> tuple[Design, np.ndarray]:
    """Return the fraction of so many changes and its levels `[settings, changes]`."""
    settings = fraction({f"c{k}": {f"x{k}": 1} for k in range(changes)}, size=size)
    rows = np.array(
        [[int(f"x{k}" in one.sets) for k in range(changes)] for one in settings.values()]
    )
    factors = {f"x{k}": ("0", "1") for k in range(changes)}
    return Design(factors, dict(zip(settings, map(tuple, rows.tolist()), strict=True))), rows


@pytest.mark.parametrize(
    ("changes", "size"), [(5, None), (8, None), (15, None), (24, None), (11, 64), (22, 128)]
)
def test_aliases_are_the_interactions_whose_columns_are_equal_or_opposite(
    changes: int, size: int | None
) -> None:
    factorial, rows = made(changes, size)
    signs = 2 * rows - 1
    groups = aliases(factorial)
    assert groups is not None
    pairs = [pair for group in groups for pair in group.pairs]
    assert sorted(pairs) == list(itertools.combinations(range(changes), 2))
    group_of = {
        pair: (k, s) for k, g in enumerate(groups) for pair, s in zip(g.pairs, g.signs, strict=True)
    }
    for a, b in itertools.combinations(pairs, 2):
        overlap = np.mean(signs[:, a[0]] * signs[:, a[1]] * signs[:, b[0]] * signs[:, b[1]])
        same = group_of[a][0] == group_of[b][0]
        assert overlap == (group_of[a][1] * group_of[b][1] if same else 0), (a, b)


def test_the_resolution_is_that_of_the_shortest_word() -> None:
    assert resolution(made(5)[0]) == 4
    assert resolution(made(24)[0]) == 4
    assert resolution(made(22, 128)[0]) == 4
    assert resolution(made(6, 64)[0]) == 7  # all combinations
    half = {f"v{k}": (*p, sum(p) % 2) for k, p in enumerate(itertools.product((0, 1), repeat=5))}
    assert resolution(Design({f"x{k}": ("0", "1") for k in range(6)}, half)) == 6
    assert len(aliases(Design({f"x{k}": ("0", "1") for k in range(6)}, half)) or []) == 15


@pytest.mark.parametrize(("changes", "size"), [(22, 128), (11, 64), (24, 256)])
def test_a_larger_fraction_aliases_fewer_and_leaves_more_columns(changes: int, size: int) -> None:
    """Of no fewer settings than it says, none twice; its first is the baseline."""

    def words(rows: np.ndarray) -> int:
        signs = 2 * rows - 1
        products = [signs[:, of].prod(axis=1) for of in itertools.combinations(range(changes), 2)]
        gram = np.array(products) @ np.array(products).T
        return int((np.abs(np.triu(gram, 1)) == len(rows)).sum())

    (_, small), (factorial, large) = made(changes), made(changes, size)
    assert len({tuple(row) for row in large.tolist()}) == len(large) == size
    assert not large[0].any()
    assert (large.mean(axis=0) == 0.5).all()
    assert words(large) < words(small) / 2
    assert len(unused_columns(factorial)) >= size / 2 - changes
    with pytest.raises(UserError, match=f"has {len(small)} variants or a higher power of two"):
        made(changes, size - 2)
    with pytest.raises(UserError, match="not '16'"):
        fraction({f"c{k}": {f"x{k}": 1} for k in range(5)}, size="16")
    with pytest.raises(UserError, match="up to all 32 combinations, not 64"):
        made(5, 64)


def test_a_doubled_fraction_keeps_its_settings_and_parts_most_aliases() -> None:
    changes = {f"c{k}": {f"x{k}": 1} for k in range(22)}
    once, twice = fraction(changes, size=128), fraction(changes, size=128, doubled=True)
    assert {name: twice[name] for name in once} == once
    rows = [frozenset(one.sets) for one in twice.values()]
    assert len(set(rows)) == len(rows) == 256
    signs = np.array([[1 if f"x{k}" in row else -1 for k in range(22)] for row in rows])

    def aliases_of(rows: np.ndarray) -> int:
        of = itertools.combinations(range(22), 4)
        return sum(abs(int(rows[:, four].prod(axis=1).sum())) == len(rows) for four in of)

    assert aliases_of(signs) <= aliases_of(signs[:128]) / 2
    with pytest.raises(UserError, match="up to 8, to be doubled, not 16"):
        fraction({f"c{k}": {f"x{k}": 1} for k in range(4)}, size=16, doubled=True)
    with pytest.raises(UserError, match="would repeat its settings; take size=64"):
        fraction({f"c{k}": {f"x{k}": 1} for k in range(6)}, size=32, doubled=True)
    for of in itertools.combinations(range(22), 3):
        assert signs[:, of].prod(axis=1).sum() == 0, "resolution IV"


@pytest.mark.parametrize("doubled", [False, True])
def test_no_fraction_repeats_a_setting(doubled: bool) -> None:
    made_some = 0
    for count, power in itertools.product(range(4, 25), range(3, 8)):
        changes = {f"c{k}": {f"x{k}": 1} for k in range(count)}
        with contextlib.suppress(UserError):
            variants = fraction(changes, size=2**power, doubled=doubled)
            assert len(variants) == 2 ** (power + doubled)
            assert len({frozenset(one.sets) for one in variants.values()}) == len(variants)
            made_some += 1
    assert made_some > 20


def test_interactions_that_are_aliased_in_part_or_of_more_levels_are_not_told() -> None:
    twelve = [[int(c) for c in row] for row in _plackett_burman()]
    folded = twelve + [[1 - c for c in row] for row in twelve]
    factors = {f"x{k}": ("0", "1") for k in range(11)}
    assert aliases(Design(factors, {f"v{k}": tuple(r) for k, r in enumerate(folded)})) is None
    three = {f"v{k}": p for k, p in enumerate(itertools.product(range(3), repeat=2))}
    assert aliases(Design({"a": ("0", "1", "2"), "b": ("0", "1", "2")}, three)) is None


def _plackett_burman() -> list[list[int]]:
    first = [1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0]
    return [first[-k:] + first[:-k] for k in range(11)] + [[0] * 11]


def scores_of(rows: np.ndarray, n: int, seed: int = 0, *, pairs: bool = True) -> np.ndarray:
    """Return scores `[n, settings]` with main effects, interactions of two, seeds and noise."""
    rng = np.random.default_rng(seed)
    signs, k = rows - 0.5, rows.shape[1]
    truth = signs @ rng.normal(size=k)
    if pairs:
        both = np.triu(rng.normal(size=(k, k)), 1)
        truth += np.einsum("vi,ij,vj->v", signs, both, signs)
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
    signs = 2.0 * rows - 1
    columns = [np.ones(settings), *signs.T]
    columns += [
        signs[:, i] * signs[:, j] for i, j in itertools.combinations(range(rows.shape[1]), 2)
    ]
    model = np.array(columns).T
    left = np.array(means) - model @ np.linalg.pinv(model) @ np.array(means)
    unused = settings - np.linalg.matrix_rank(model)
    pooled = between / ((n - 1) * (settings - 1)) / n if n > 1 else math.nan
    return mains, pooled, float(left @ left) / unused if unused else math.nan, int(unused)


CASES = [(1, 0.0), (2, 0.0), (3, 0.0), (8, 0.0), (4, 3.0)]  # seeds; an interaction of three


@pytest.mark.parametrize(("n", "third"), CASES)
def test_effects_and_their_errors_are_those_of_loops(n: int, third: float) -> None:
    agree_with_loops(n, third)


def agree_with_loops(n: int, third: float) -> None:
    factorial, rows = made(24)
    signs = 2.0 * rows - 1
    y = scores_of(rows, n) + third * signs[:, 1] * signs[:, 2] * signs[:, 4]
    mains, between, left, unused = by_loops(y, rows)
    found, _, residual = fraction_effects(y, factorial, level=0.05)
    assert [one.comparison.difference for one in found] == pytest.approx(mains)
    assert (residual.unused, residual.seeds) == (8, n) == (unused, n)
    lacks = n == 1 or left > between
    assert residual.lacks_fit == lacks
    assert not third or lacks
    variance, freedom = (left, 8) if lacks else (between, residual.freedom)
    assert residual.variance == pytest.approx(variance)
    assert (n - 1) * 20 < freedom <= (n - 1) * 63 or lacks
    for k, (one, center) in enumerate(zip(found, mains, strict=True)):
        c = one.comparison
        each = y[:, rows[:, k] == 1].mean(axis=1) - y[:, rows[:, k] == 0].mean(axis=1)
        own = scipy.stats.sem(each) if n > 1 else 0.0
        error = max(own, math.sqrt(4 * variance / 64))
        reach = scipy.stats.t.isf(0.025 / 24, freedom) * error
        assert (c.low, c.high) == pytest.approx((center - reach, center + reach))
        assert c.p == pytest.approx(2 * scipy.stats.t.sf(abs(center) / error, freedom))


def test_what_two_details_explain_is_the_span_of_their_products() -> None:
    """Of orthogonal columns as of any others: of resolution III a product is a main effect."""
    third = {
        f"v{k}": (*p, (p[0] + p[1]) % 2) for k, p in enumerate(itertools.product((0, 1), repeat=3))
    }
    for places in (third, made(8)[0].variants, made(6, 32)[0].variants):
        rows = np.array([*places.values()])
        signs = 2 * rows - 1
        pairs = itertools.combinations(range(signs.shape[1]), 2)
        model = [np.ones(len(rows)), *signs.T, *(signs[:, of].prod(axis=1) for of in pairs)]
        basis = fractions._explained(tuple(places.values()))
        np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
        assert basis.shape[1] == np.linalg.matrix_rank(np.array(model))
        np.testing.assert_allclose(
            basis @ (basis.T @ np.array(model).T), np.array(model).T, atol=1e-9
        )


def test_an_effect_that_differs_between_seeds_has_its_own_error() -> None:
    factorial, rows = made(24)
    n, k = 8, 5
    y = scores_of(rows, n)
    y += 2 * np.random.default_rng(7).normal(size=(n, 1)) * (rows[:, k] - 0.5)
    each = y[:, rows[:, k] == 1].mean(axis=1) - y[:, rows[:, k] == 0].mean(axis=1)
    found, _, residual = fraction_effects(y, factorial, level=0.05)
    reach = scipy.stats.t.isf(0.025 / 24, residual.freedom) * scipy.stats.sem(each)
    low, high = each.mean() - reach, each.mean() + reach
    assert (found[k].comparison.low, found[k].comparison.high) == pytest.approx((low, high))
    widths = [one.comparison.high - one.comparison.low for one in found]
    assert sorted(widths)[-1] == widths[k] > 2 * sorted(widths)[-2]


def test_an_aliased_interaction_is_the_signed_sum_of_its_pairs() -> None:
    factorial, rows = made(24)
    rng = np.random.default_rng(3)
    signs, both = rows - 0.5, np.triu(rng.normal(size=(24, 24)), 1)
    y = np.einsum("vi,ij,vj->v", signs, both, signs)[None].repeat(2, 0)
    mains, groups, _ = fraction_effects(y, factorial)
    assert [one.comparison.difference for one in mains] == pytest.approx([0] * 24, abs=1e-12)
    assert len(groups) == 31
    for one in groups:
        assert isinstance(one.of, Alias)
        of = sum(s * both[pair] for pair, s in zip(one.of.pairs, one.of.signs, strict=True))
        assert one.comparison.difference == pytest.approx(of)


def test_with_few_contrasts_to_spare_one_seed_has_no_interval_and_two_have() -> None:
    factorial, rows = made(15)  # of whose 32 settings one contrast is left
    found, groups, residual = fraction_effects(scores_of(rows, 1), factorial)
    assert math.isnan(residual.variance)
    assert residual.unused == 1
    assert {one.comparison.low for one in (*found, *groups)} == {None}
    assert all(one.comparison.difference for one in found)
    found, _, residual = fraction_effects(scores_of(rows, 2), factorial)
    assert not residual.lacks_fit
    assert all(one.comparison.low is not None for one in found)


def test_no_seed_has_no_effect_and_equal_seeds_no_interval() -> None:
    factorial, rows = made(24)
    found, groups, _ = fraction_effects(np.zeros((0, 64)), factorial)
    assert {(one.comparison.n, one.comparison.difference) for one in (*found, *groups)} == {
        (0, None)
    }
    signs = 2.0 * rows - 1
    y = np.repeat((signs @ np.arange(24.0))[None], 3, axis=0)
    found, _, residual = fraction_effects(y, factorial)
    assert residual.variance < 1e-20
    assert [one.comparison.difference for one in found] == pytest.approx(list(np.arange(24.0) * 2))
    assert {one.comparison.low for one in found} == {None}


def test_of_several_tasks_the_means_are_judged() -> None:
    factorial, rows = made(24)
    both = np.array([scores_of(rows, 3, seed) for seed in (0, 1)])
    whole, _, _ = fraction_effects(both, factorial)
    parts = [fraction_effects(y, factorial)[0] for y in both]
    for one, first, second in zip(whole, *parts, strict=True):
        halves = first.comparison.difference, second.comparison.difference
        assert one.comparison.difference == pytest.approx(np.mean(halves))


def test_seeds_and_names_may_stand_in_any_order_and_units_do_not_matter() -> None:
    factorial, rows = made(24)
    y = scores_of(rows, 4)
    ends = [(c.comparison.low, c.comparison.high) for c in fraction_effects(y, factorial)[0]]
    again = fraction_effects(7 + 3 * y[::-1], factorial)[0]
    assert np.array([(c.comparison.low, c.comparison.high) for c in again]) == pytest.approx(
        3 * np.array(ends)
    )
    order = np.random.default_rng(1).permutation(64)
    places = list(factorial.variants.items())
    shuffled = Design(factorial.factors, dict(places[k] for k in order))
    again = fraction_effects(y[:, order], shuffled)[0]
    assert np.array([(c.comparison.low, c.comparison.high) for c in again]) == pytest.approx(
        np.array(ends)
    )


# Each a usual mistake, made in a part of the statistic: the oracle must see it.
MUTATIONS: dict[str, tuple[str, Callable]] = {
    "seeds are no blocks": (
        "_residual",
        lambda y, means, kept, real: real(
            y + 9 * np.arange(len(y))[:, None] ** 2 * (np.arange(64) % 2), means, kept
        ),
    ),
    "the error of one seed": (
        "_residual",
        lambda y, means, model, real: replace(
            real(y, means, model), variance=len(y) * real(y, means, model).variance
        ),
    ),
    "interactions of two in the error": (
        "_explained",
        lambda places, real: np.linalg.qr(np.column_stack([np.ones(64), np.array(places)]))[0],
    ),
    "a fraction of the level for nobody": ("student_quantile", lambda v, p, real: real(v, 24 * p)),
    "half of an effect": ("_share", lambda chosen, real: real(chosen) / 2),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_oracle_sees_usual_mistakes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, mistake = MUTATIONS[name]
    module = paired if where == "student_quantile" else fractions
    real = getattr(module, where)
    monkeypatch.setattr(module, where, lambda *given: mistake(*given, real))
    with pytest.raises(AssertionError):
        agree_everywhere()


def agree_everywhere() -> None:
    for n, third in CASES:
        agree_with_loops(n, third)


def test_a_seed_that_is_higher_everywhere_changes_nothing() -> None:
    factorial, rows = made(24)
    y = scores_of(rows, 4)
    moved = y + 100 * np.arange(4)[:, None]
    for a, b in zip(*(fraction_effects(of, factorial)[0] for of in (y, moved)), strict=True):
        assert a.comparison.low == pytest.approx(b.comparison.low, abs=1e-6)


def test_contrasts_have_one_variance_however_the_settings_differ_in_theirs() -> None:
    """The reason to pool: over many draws, no contrast's variance is off by more than chance."""
    _, rows = made(24)
    rng = np.random.default_rng(5)
    spread = np.where(np.arange(64) % 7 == 0, 9.0, 1.0)
    y = rng.normal(size=(4000, 64)) * spread
    weights = np.array([(rows[:, i] == 1) / 32 - (rows[:, i] == 0) / 32 for i in range(24)])
    variances = (y @ weights.T).var(axis=0)
    expected = 4 * np.mean(spread**2) / 64
    assert np.abs(variances / expected - 1).max() < 0.12  # 5 standard errors


def test_names_of_factors_leave_out_the_mean() -> None:
    names = letters(30)
    assert names[:3] == ("A", "B", "C")
    assert "I" not in names
    assert len(set(names)) == 30


def test_effects_by_seed_agree_with_those_of_blocks() -> None:
    factorial, rows = made(15)
    y = scores_of(rows, 6)
    plain = [one.comparison.difference for one in effects(y, factorial)]
    assert [one.comparison.difference for one in fraction_effects(y, factorial)[0]] == (
        pytest.approx(plain)
    )


def test_dummy_details_are_judged_as_details_of_scores_with_which_they_do_nothing() -> None:
    """The first split by hand: half of the runs of each side are those of the first seeds."""
    factorial, rows = made(24)
    y = scores_of(rows, 9)
    judged = dummy_details(y, factorial, 3)
    assert judged.shape == (4, 25, 3)
    assert np.isfinite(judged).all()
    changed, rest = y[:4], y[4:8]
    for k in range(24):
        on = rows[:, k] == 1
        sides = [[changed[:, on], rest[:, ~on]], [changed[:, ~on], rest[:, on]]]
        (above, below) = (np.mean([half.mean() for half in side]) for side in sides)
        assert judged[0, 1 + k, 0] == pytest.approx(above - below)
    assert judged[0, 0, 0] == pytest.approx(changed.mean() - rest.mean())
    mains, _, _ = fraction_effects((changed - rest) / 2, factorial, 0.05 * 24 / 25)
    bounds = [(c.difference, c.low, c.high) for c in (one.comparison for one in mains)]
    assert judged[0, 1:] == pytest.approx(np.array(bounds, float))
    three = 50 * np.prod(2 * rows[:, [0, 3, 7]] - 1, axis=1)
    assert dummy_details(y + three, factorial, 3) == pytest.approx(judged), "of no settings' own"


def test_a_planted_loss_moves_the_estimate_of_a_dummy_detail_and_no_error() -> None:
    """As `controls` has it, who plants it in the intervals."""
    factorial, rows = made(24)
    y = scores_of(rows, 8)
    before = dummy_details(y, factorial, 0)[0]
    changed = np.concatenate([np.tile(rows[:, 5] == 1, (4, 1)), np.tile(rows[:, 5] == 0, (4, 1))])
    after = dummy_details(y - 0.2 * changed, factorial, 0)[0]
    moved = np.zeros((25, 3))
    moved[6] = -0.2
    assert after - before == pytest.approx(moved, abs=1e-12)


def test_dummy_details_are_seldom_told_whatever_the_details_do() -> None:
    factorial, rows = made(24)
    for n in (2, 8):
        y = 20 * scores_of(rows, 1) + np.random.default_rng(n).standard_t(4, size=(n, len(rows)))
        judged = dummy_details(y, factorial, 500)[1:]
        told = ((judged[..., 1] > 0) | (judged[..., 2] < 0)).any(axis=1)
        assert told.mean() <= 0.05 + 1.64 * math.sqrt(0.05 * 0.95 / 500)
    small = made(5)
    two = dummy_details(scores_of(small[1], 2), small[0], 1)
    assert np.isnan(two).all(), "no error is left"


@pytest.mark.parametrize("changes", [5, 17, 24])
def test_unused_columns_are_those_that_no_two_details_have(changes: int) -> None:
    factorial, rows = made(changes)
    signs = 2 * rows - 1
    names = unused_columns(factorial)
    assert len(names) == len(rows) - 1 - changes - len(aliases(factorial) or [])
    columns = [signs[:, list(of)].prod(axis=1) for of in names]
    used = [
        signs[:, list(of)].prod(axis=1)
        for m in (1, 2)
        for of in itertools.combinations(range(changes), m)
    ]
    for column in columns:
        assert column.sum() == 0
        assert not any(column @ other for other in used)
    assert all(not a @ b for a, b in itertools.combinations(columns, 2))


def test_the_unused_columns_of_what_matters_are_those_of_the_docs() -> None:
    names = sorted({name for one in VARIANTS.values() for name in one.sets})
    sets = {v: {name: one.sets.get(name) for name in names} for v, one in VARIANTS.items()}
    of_study = design(sets, "baseline")
    assert of_study is not None
    columns = [
        {list(of_study.factors)[k].split(", ")[0] for k in of} for of in unused_columns(of_study)
    ]
    docs = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text()
    for column in columns:
        (third,) = column - {"action_distribution", "advantage"}
        assert f"`{third}`" in docs


@pytest.mark.parametrize("n", [1, 4])
def test_an_unused_column_is_judged_by_what_the_others_leave(n: int) -> None:
    factorial, rows = made(24)
    y = scores_of(rows, n)
    signs = 2 * rows - 1
    names = unused_columns(factorial)
    columns = np.array([signs[:, list(of)].prod(axis=1) for of in names])
    y = y + 9 * columns[2] / 2
    judged = dict(unused_effects(y, factorial))
    estimates = columns @ y.mean(axis=0) * 2 / 64
    assert [c.difference for c in judged.values()] == pytest.approx(list(estimates))
    others = np.delete(estimates, 2)
    left = math.sqrt(np.mean(others**2))
    reach = scipy.stats.t.ppf(1 - 0.05 / 24 / 2, 7) * left
    found = judged[names[2]]
    assert found.low is not None
    if n == 1:
        assert found.low == pytest.approx(estimates[2] - reach)
    assert found.low > 0
    assert all(c.low < 0 < c.high for of, c in judged.items() if of != names[2])

"""Shares of a gap against the Shapley value itself, on games whose value is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ablations.stats.shares import attribution, shares

DETAILS = 6
EFFECTS = np.array([3.0, -1.0, 0.5, 0.0, 2.0, 0.0])  # the last detail does not act
PAIRS = {(0, 1): 4.0, (2, 3): -2.0, (0, 4): -1.5}
TRUTH = np.array([3.0 + 2.0 - 0.75, -1.0 + 2.0, 0.5 - 1.0, -1.0, 2.0 - 0.75, 0.0])


def game(switched: frozenset[int]) -> float:
    single = sum(float(EFFECTS[i]) for i in switched)
    return single + sum(v for (i, j), v in PAIRS.items() if {i, j} <= switched)


def shapley(score) -> np.ndarray:
    """By its definition: the mean marginal effect over all orders."""
    value = np.zeros(DETAILS)
    for order in itertools.permutations(range(DETAILS)):
        for k, detail in enumerate(order):
            value[detail] += score(frozenset(order[: k + 1])) - score(frozenset(order[:k]))
    return value / math.factorial(DETAILS)


def run(random: np.random.Generator, seeds: int, noise: float) -> tuple[np.ndarray, ...]:
    """What an explanation measures: each composition of a seed once, with noise of its own."""
    every = frozenset(range(DETAILS))
    columns = [], [], [], [], []
    for _ in range(seeds):
        known: dict[frozenset[int], float] = {}
        shared = random.normal()

        def value(switched: frozenset[int], known=known, shared=shared) -> float:
            acting = switched - {DETAILS - 1}  # compositions that train alike are one run
            if acting not in known:
                known[acting] = game(acting) + shared + noise * random.normal()
            return known[acting]

        order = [int(i) for i in random.permutation(DETAILS)]
        row = (
            order,
            [value(frozenset(order[:k])) for k in range(DETAILS + 1)],
            [value(frozenset(order[::-1][:k])) for k in range(DETAILS + 1)],
            [value(frozenset({i})) for i in range(DETAILS)],
            [value(every - {i}) for i in range(DETAILS)],
        )
        for column, values in zip(columns, row, strict=True):
            column.append(values)
    return tuple(map(np.array, columns))


def test_an_order_and_its_reverse_give_the_exact_value_of_pairs() -> None:
    """Whatever the order: one of two details comes first in it, the other in its reverse."""
    assert shapley(game) == pytest.approx(TRUTH)
    orders, along, back, *_ = run(np.random.default_rng(0), 5, noise=0.0)
    assert shares(orders, along, back) == pytest.approx(np.tile(TRUTH, (5, 1)))


def test_all_orders_give_the_value_where_three_details_act_together() -> None:
    def score(switched: frozenset[int]) -> float:
        return game(switched) + 5.0 * ({0, 2, 4} <= switched)

    orders = np.array(list(itertools.permutations(range(DETAILS))))
    along = [[score(frozenset(o[:k])) for k in range(DETAILS + 1)] for o in orders.tolist()]
    back = [[score(frozenset(o[::-1][:k])) for k in range(DETAILS + 1)] for o in orders.tolist()]
    each = shares(orders, along, back)
    assert each.mean(axis=0) == pytest.approx(shapley(score))
    assert np.ptp(each[:, 0]) > 1.0, "which a single order does not"


def test_shares_sum_to_the_gap_of_every_seed() -> None:
    orders, along, back, alone, without = run(np.random.default_rng(1), 7, noise=1.0)
    gaps = shares(orders, along, back).sum(axis=1)
    assert gaps == pytest.approx(along[:, -1] - along[:, 0], abs=1e-12)
    gap, made = attribution(orders, along, back, alone, without)
    total = sum(share.difference for share in made["share"])
    assert total == pytest.approx(gap.difference, abs=1e-12)
    # Of integers exactly.
    along, back = np.random.default_rng(2).integers(-1000, 1000, (2, 7, DETAILS + 1)).astype(float)
    back[:, [0, -1]] = along[:, [0, -1]]
    assert np.array_equal(shares(orders, along, back).sum(axis=1), along[:, -1] - along[:, 0])


def test_a_detail_that_does_not_act_has_exactly_nothing() -> None:
    _, made = attribution(*run(np.random.default_rng(3), 12, noise=1.0))
    assert list(made) == ["share", "alone", "removed", "interaction"]
    for *_, effect in made.values():
        assert effect.difference == 0.0
        assert math.isnan(effect.low), "no spread, so no interval"
    assert not any(math.isnan(share.low) for share in made["share"][:-1])
    orders, along, back, alone, without = run(np.random.default_rng(3), 12, noise=1.0)
    alone = along[:, :1] + np.full(DETAILS, 0.1)  # one number, but for rounding
    same = attribution(orders, along, back, alone, without)[1]["alone"][0]
    assert (same.difference, same.sd) == (pytest.approx(0.1), 0.0)


def test_alone_removed_and_their_difference() -> None:
    _, made = attribution(*run(np.random.default_rng(4), 3, noise=0.0))
    both = [sum(v for pair, v in PAIRS.items() if i in pair) for i in range(DETAILS)]
    for effects, truth in (
        (made["alone"], EFFECTS),
        (made["interaction"], both),
        (made["removed"], EFFECTS + both),
    ):
        assert [effect.difference for effect in effects] == pytest.approx(truth)


def test_intervals_hold_at_once_as_often_as_they_say() -> None:
    """Simulated with noise in every run and a seed's own level, at the fewest seeds."""
    random, repeats, held = np.random.default_rng(5), 1000, []
    for _ in range(repeats):
        gap, made = attribution(*run(random, 12, noise=1.0))
        pairs = zip((*made["share"][:-1], gap), (*TRUTH[:-1], TRUTH.sum()), strict=True)
        held.append([effect.low <= truth <= effect.high for effect, truth in pairs])
    *each, gap = np.mean(held, axis=0)
    # Three standard errors around 95%; Bonferroni's intervals may hold more often.
    error = 3 * math.sqrt(0.05 * 0.95 / repeats)
    assert np.mean(np.all([row[:-1] for row in held], axis=1)) > 0.95 - error
    assert abs(gap - 0.95) < error
    assert np.mean(each) < 0.9995, "they are not endless"

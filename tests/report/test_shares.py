"""Shares of a gap against the Shapley value itself, on games whose value is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from ablations.report.statistics import Attribution, attribution, shares

Game = Callable[[frozenset[int]], float]
DETAILS = 6


def additive(effects: np.ndarray, pairs: dict[tuple[int, int], float]) -> Game:
    """Effects of details, and of pairs that are both switched; the last detail does not act."""

    def score(switched: frozenset[int]) -> float:
        single = sum(float(effects[i]) for i in switched)
        return single + sum(v for (i, j), v in pairs.items() if {i, j} <= switched)

    return score


def shapley(score: Game, details: int) -> np.ndarray:
    """By its definition: the mean marginal effect over all orders."""
    found = np.zeros(details)
    for order in itertools.permutations(range(details)):
        for place, one in enumerate(order):
            found[one] += score(frozenset(order[: place + 1])) - score(frozenset(order[:place]))
    return found / math.factorial(details)


EFFECTS = np.array([3.0, -1.0, 0.5, 0.0, 2.0, 0.0])
PAIRS = {(0, 1): 4.0, (2, 3): -2.0, (0, 4): -1.5}
GAME = additive(EFFECTS, PAIRS)
TRUTH = np.array([3.0 + 2.0 - 0.75, -1.0 + 2.0, 0.5 - 1.0, -1.0, 2.0 - 0.75, 0.0])


def run(
    random: np.random.Generator, seeds: int, noise: float, score: Game = GAME
) -> tuple[np.ndarray, ...]:
    """What an explanation measures: each composition of a seed once, with noise of its own."""
    every = frozenset(range(DETAILS))
    orders, along, back, alone, without = [], [], [], [], []
    for _ in range(seeds):
        seen: dict[frozenset[int], float] = {}
        shared = random.normal()

        def value(
            switched: frozenset[int],
            seen: dict[frozenset[int], float] = seen,
            shared: float = shared,
        ) -> float:
            acting = switched - {DETAILS - 1}  # compositions that train alike are one cell
            if acting not in seen:
                seen[acting] = score(acting) + shared + noise * random.normal()
            return seen[acting]

        order = [int(i) for i in random.permutation(DETAILS)]
        orders.append(order)
        along.append([value(frozenset(order[:k])) for k in range(DETAILS + 1)])
        back.append([value(frozenset(order[::-1][:k])) for k in range(DETAILS + 1)])
        alone.append([value(frozenset({i})) for i in range(DETAILS)])
        without.append([value(every - {i}) for i in range(DETAILS)])
    return tuple(np.array(one) for one in (orders, along, back, alone, without))


def test_the_truth_of_these_tests_is_the_shapley_value() -> None:
    assert shapley(GAME, DETAILS) == pytest.approx(TRUTH)


def test_an_order_and_its_reverse_give_the_exact_value_of_pairs() -> None:
    """Whatever the order: one of two details comes first in it, the other in its reverse."""
    orders, along, back, *_ = run(np.random.default_rng(0), 5, noise=0.0)
    assert shares(orders, along, back) == pytest.approx(np.tile(TRUTH, (5, 1)))


def test_all_orders_give_the_value_where_three_details_act_together() -> None:
    def score(switched: frozenset[int]) -> float:
        return GAME(switched) + 5.0 * ({0, 2, 4} <= switched)

    orders = np.array(list(itertools.permutations(range(DETAILS))))
    along = [[score(frozenset(o[:k])) for k in range(DETAILS + 1)] for o in orders.tolist()]
    back = [[score(frozenset(o[::-1][:k])) for k in range(DETAILS + 1)] for o in orders.tolist()]
    found = shares(orders, along, back)
    assert found.mean(axis=0) == pytest.approx(shapley(score, DETAILS))
    assert np.ptp(found[:, 0]) > 1.0, "which a single order does not"


def test_shares_sum_to_the_gap_of_every_seed() -> None:
    orders, along, back, alone, without = run(np.random.default_rng(1), 7, noise=1.0)
    found = shares(orders, along, back)
    assert found.sum(axis=1) == pytest.approx(along[:, -1] - along[:, 0], abs=1e-12)
    made = attribution(orders, along, back, alone, without)
    total = sum(one.difference or 0.0 for one in made.shares)
    assert total == pytest.approx(made.gap.difference, abs=1e-12)


def test_in_whole_numbers_the_sum_is_exact_to_the_bit() -> None:
    random = np.random.default_rng(2)
    orders = np.array([random.permutation(DETAILS) for _ in range(4)])
    along, back = random.integers(-1000, 1000, (2, 4, DETAILS + 1)).astype(float)
    back[:, [0, -1]] = along[:, [0, -1]]
    found = shares(orders, along, back)
    assert np.array_equal(found.sum(axis=1), along[:, -1] - along[:, 0])


def test_a_detail_that_does_not_act_has_exactly_nothing() -> None:
    made = attribution(*run(np.random.default_rng(3), 12, noise=1.0))
    inert = made.shares[-1], made.alone[-1], made.removed[-1], made.interactions[-1]
    assert [one.difference for one in inert] == [0.0] * 4
    assert all(one.low is None for one in inert), "no spread, so no interval"
    assert all(one.low is not None for one in made.shares[:-1])


def test_alone_removed_and_their_difference() -> None:
    made = attribution(*run(np.random.default_rng(4), 3, noise=0.0))
    assert [one.difference for one in made.alone] == pytest.approx(EFFECTS)
    both = [sum(v for pair, v in PAIRS.items() if i in pair) for i in range(DETAILS)]
    assert [one.difference for one in made.interactions] == pytest.approx(both)
    assert [one.difference for one in made.removed] == pytest.approx(EFFECTS + both)


def test_intervals_hold_at_once_as_often_as_they_say() -> None:
    """Simulated with noise in every cell and a seed's own level, at the fewest seeds."""
    random = np.random.default_rng(5)
    repeats, held, gap_held, each = 1000, 0, 0, 0
    for _ in range(repeats):
        made = attribution(*run(random, 12, noise=1.0))
        inside = [_covers(made, i) for i in range(DETAILS - 1)]
        held += all(inside)
        each += sum(inside)
        low, high = made.gap.low, made.gap.high
        assert low is not None
        assert high is not None
        gap_held += low <= TRUTH.sum() <= high
    # three standard errors around 95%; the joint ones are Bonferroni's, which may hold more often
    assert held / repeats > 0.95 - 3 * math.sqrt(0.05 * 0.95 / repeats)
    assert abs(gap_held / repeats - 0.95) < 3 * math.sqrt(0.05 * 0.95 / repeats)
    assert each / repeats / (DETAILS - 1) < 0.9995, "they are not endless"


def _covers(made: Attribution, detail: int) -> bool:
    one = made.shares[detail]
    assert one.low is not None
    assert one.high is not None
    return bool(one.low <= TRUTH[detail] <= one.high)

"""The tests of a difference: exact, by counting every deal, and by how often they are wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ablations.regression.permutation import PRIOR_SEEDS, paired, smallest_p, unpaired


def moderated_t(ours: np.ndarray, theirs: np.ndarray) -> float:
    """As its definition says, one number at a time."""
    n, m = len(ours), len(theirs)
    ss_ours = sum((x - ours.mean()) ** 2 for x in ours)
    ss_theirs = sum((x - theirs.mean()) ** 2 for x in theirs)
    pooled = (ss_ours + ss_theirs) / (n + m - 2)
    v_ours = (ss_ours + PRIOR_SEEDS * pooled) / (n - 1 + PRIOR_SEEDS)
    v_theirs = (ss_theirs + PRIOR_SEEDS * pooled) / (m - 1 + PRIOR_SEEDS)
    return float((ours.mean() - theirs.mean()) / math.sqrt(v_ours / n + v_theirs / m))


def test_p_is_the_share_of_all_deals_that_look_as_bad() -> None:
    random = np.random.default_rng(0)
    ours, theirs = random.normal(size=(4, 2)) - 0.8, random.normal(size=(6, 2))
    together = np.concatenate([ours, theirs])
    worst = []
    for chosen in itertools.combinations(range(10), 4):
        others = [i for i in range(10) if i not in chosen]
        worst.append(
            min(moderated_t(together[list(chosen), k], together[others, k]) for k in (0, 1))
        )
    seen = [moderated_t(ours[:, k], theirs[:, k]) for k in (0, 1)]
    exact = [np.mean(np.array(worst) <= one + 1e-9) for one in seen]
    found = unpaired(ours, theirs, [1.0, 1.0], deals=100_000)
    assert found.worse_each == pytest.approx(exact, abs=0.006)
    assert found.worse == found.worse_each.min()


def test_signs_are_all_dealt_where_there_are_few() -> None:
    pairs = np.array([-1.0, -2.0, -0.5, -3.0, 0.2, -1.1])
    sums = [np.dot(signs, pairs) for signs in itertools.product((1, -1), repeat=6)]
    found = paired(pairs, [1.0])
    assert found.worse == pytest.approx(np.mean(np.array(sums) <= pairs.sum() + 1e-12))
    assert smallest_p(6, None) == 1 / 64


@pytest.mark.parametrize("shape", ["skewed", "bimodal", "ceiling"])
def test_false_alarms_are_no_more_than_the_level(shape: str) -> None:
    """4 new seeds against 10, of returns that are nothing like normal; two scores that go together.
    At most 5% of 1,000: 3.4 standard errors are 2.3%."""
    random = np.random.default_rng(1)
    alarms = 0
    for _ in range(1_000):
        raw = random.normal(size=14)
        returns = {
            "skewed": np.exp(1.5 * raw),
            "bimodal": np.where(raw > 1.0, -20.0, raw),
            "ceiling": np.minimum(raw, 0.0),
        }[shape]
        scores = np.stack([returns, returns + random.normal(size=14)], axis=1)
        alarms += unpaired(scores[:4], scores[4:], [1.0, 1.0], deals=400).worse <= 0.05
    assert 0.01 < alarms / 1_000 < 0.073


def test_a_loss_is_ruled_out_no_oftener_than_the_level_where_it_is_real() -> None:
    random = np.random.default_rng(2)
    missed = 0
    for _ in range(1_000):
        ours, theirs = random.exponential(size=(6, 1)) - 2.0, random.exponential(size=(12, 1))
        missed += unpaired(ours, theirs, [2.0], deals=400).not_lost <= 0.05
    assert 0.02 < missed / 1_000 < 0.073


def test_neither_unit_nor_offset_nor_order_matters() -> None:
    random = np.random.default_rng(3)
    ours, theirs = random.normal(size=(6, 2)), random.normal(size=(12, 2))
    plain = unpaired(ours, theirs, [0.5, 0.5])
    moved = unpaired(1e6 * ours + 1e7, 1e6 * theirs + 1e7, [5e5, 5e5])
    assert (plain.worse, plain.better, plain.not_lost) == (
        moved.worse,
        moved.better,
        moved.not_lost,
    )
    upside_down = unpaired(-ours, -theirs, [0.5, 0.5])
    assert upside_down.worse == plain.better


def test_seeds_without_any_spread() -> None:
    same = unpaired(np.ones(4), np.ones(10), [0.1])
    assert same.worse == same.better == 1.0
    lower = unpaired(np.zeros(4), np.ones(10), [0.1])
    assert lower.worse < 0.005 < lower.not_lost

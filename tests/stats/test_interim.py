"""Planned stages against published bounds, the multivariate normal, and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from scipy.stats import norm

from ablations.stats import Difference, decide, interim, of_differences


def read_pairs(pairs: np.ndarray, stages: interim.Stages, margin: float) -> Difference | None:
    """Return the difference of the stage at which these paired differences are read."""
    return interim.read(
        stages,
        len(pairs),
        lambda seeds, level: of_differences(pairs[:seeds], level),
        lambda result: decide(result.low, result.high, margin) != "inconclusive",
    )


def test_five_even_stages_have_the_published_bounds() -> None:
    """Lan and DeMets' for Pocock's kind of spending, as ldbounds and gsDesign print them."""
    levels = interim.nominal_levels.__wrapped__((0.2, 0.4, 0.6, 0.8, 1.0), 0.05)
    bounds = norm.isf(np.array(levels) / 2)
    np.testing.assert_allclose(bounds, [2.438, 2.427, 2.410, 2.397, 2.386], atol=2e-3)


@pytest.mark.parametrize("level", [0.05, 0.001])
@pytest.mark.parametrize("seeds", [(8,), (8, 12, 18), (5, 50)])
def test_no_bound_is_crossed_with_the_chance_promised(seeds: tuple[int, ...], level: float) -> None:
    stages, n = interim.design(seeds, level), np.array(seeds, float)
    correlation = np.sqrt(np.minimum.outer(n, n) / np.maximum.outer(n, n))
    bounds = norm.isf(np.array(stages.levels) / 2)
    law = scipy.stats.multivariate_normal(cov=correlation, abseps=1e-7, releps=1e-7)
    assert 1 - law.cdf(bounds, lower_limit=-bounds) == pytest.approx(level, rel=0.01)


def test_a_verdict_freezes_with_the_seeds_of_its_stage() -> None:
    random = np.random.default_rng(3)
    pairs = np.concatenate([random.normal(3, 1, 12), random.normal(-9, 1, 28)])
    stages = interim.design(interim.planned(8, 40), 0.05)
    early = read_pairs(pairs[:8], stages, 0.5)
    assert read_pairs(pairs, stages, 0.5) == early == of_differences(pairs[:8], stages.levels[0])
    assert decide(early.low, early.high, 0.5) == "better"
    late = of_differences(pairs)
    assert of_differences(pairs / 64).low == pytest.approx(late.low / 64)
    assert decide(late.low, late.high, 0.5) != "better"


def test_seeds_between_stages_are_not_read() -> None:
    pairs = np.random.default_rng(4).normal(size=40)
    stages = interim.design(interim.planned(8, 40), 0.05)
    assert read_pairs(pairs[:11], stages, 0.1) == read_pairs(pairs[:8], stages, 0.1)
    assert read_pairs(pairs[:7], stages, 0.1) is None
    assert [read_pairs(pairs[:n], stages, 0.1).n for n in (8, 12, 18)] == [8, 12, 18]
    assert interim.read(stages, 99, lambda seeds, _: seeds, lambda _: False) == 40


def test_stages_grow_by_half_up_to_the_most() -> None:
    assert interim.planned(8, 64) == (8, 12, 18, 27, 41, 62, 64)
    assert interim.planned(4, 32, 2.0) == (4, 8, 16, 32)
    assert interim.planned(8, 8) == (8,)
    for wrong in ((8, 4), (1, 4), (4, 8, 1.0)):
        with pytest.raises(ValueError, match="stages need"):
            interim.planned(*wrong)
    for wrong in ((8, 8), (), (1, 4)):
        with pytest.raises(ValueError, match="increasing"):
            interim.design(wrong, 0.05)


@pytest.mark.parametrize("stages", [1, 2, 5])
def test_a_rate_is_split_with_half_of_it_for_the_last_stage(stages: int) -> None:
    shares = interim.split(0.01, stages)
    assert sum(shares) == pytest.approx(0.01)
    assert shares[-1] == pytest.approx(0.01 if stages == 1 else 0.005)
    assert len(set(shares[:-1])) <= 1

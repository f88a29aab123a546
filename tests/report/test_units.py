"""What was learned: where the curve is lowest and highest, and what stands out of the noise."""

from __future__ import annotations

import numpy as np
import pytest

from ablations.curve import Curve
from ablations.report.scores import final
from ablations.report.units import Learned, learned_of, smoothed

STEPS = np.arange(1, 21) * 50


def learned(steps: np.ndarray, values: np.ndarray) -> Learned | None:
    """Of curves that share their steps."""
    return learned_of([Curve(steps, row) for row in values])


def rising(seeds: int = 5, noise: float = 0.0, points: int = 20, gain: float = 10.0) -> np.ndarray:
    random = np.random.default_rng(0)
    shape = np.linspace(0, 1, points)
    return gain * shape + noise * random.normal(size=(seeds, points))


def test_the_smoothed_curve_is_the_mean_of_each_tenth_and_ends_with_the_final_score() -> None:
    values = np.random.default_rng(1).normal(size=(3, 20))
    smooth = smoothed(STEPS, values)
    np.testing.assert_allclose(smooth[:, 0], values[:, 0])
    np.testing.assert_allclose(smooth[:, 1:], (values[:, 1:] + values[:, :-1]) / 2)
    np.testing.assert_allclose(smooth[:, -1], [final(STEPS, row) for row in values])


def test_points_without_a_value_are_left_out() -> None:
    values = rising(2)
    values[:, 5] = np.nan
    smooth = smoothed(STEPS, values)
    np.testing.assert_allclose(smooth[:, 5], values[:, 4])
    values[:, 4] = np.nan
    assert np.isnan(smoothed(STEPS, values)[:, 5]).all()
    assert learned(STEPS, values) == learned(STEPS, rising(2))


def test_what_was_learned_is_from_the_lowest_to_the_highest_point() -> None:
    curves = np.tile([3.0, 1, 1, 4, 8, 9, 9, 9, 5, 5], (4, 1)) + 0.01 * np.arange(4)[:, None]
    found = learned(np.arange(1, 11), curves)
    assert (found.low, found.high) == pytest.approx((1.015, 9.015))
    assert found.size == pytest.approx(8)


@pytest.mark.parametrize("factor", [2.0, 0.001])
def test_it_scales_with_the_metric_and_moves_with_it(factor: float) -> None:
    one, other = learned(STEPS, rising(noise=0.5)), learned(STEPS, factor * rising(noise=0.5) - 7)
    assert other.size == pytest.approx(factor * one.size)
    assert other.low == pytest.approx(factor * one.low - 7)


def test_a_curve_that_stays_level_learns_nothing() -> None:
    assert learned(STEPS, np.full((5, 20), 3.0)) is None
    assert learned(STEPS, rising(1)) is None, "one seed shows no noise"
    assert learned(STEPS, np.full((5, 20), np.nan)) is None
    assert learned(STEPS, np.zeros((0, 20))) is None


@pytest.mark.parametrize("seeds", [3, 5, 8, 20])
@pytest.mark.parametrize("kind", ["white", "walk", "shared level"])
def test_noise_is_rarely_taken_for_learning(seeds: int, kind: str) -> None:
    random = np.random.default_rng([2, seeds])
    trials, wrong = 400, 0
    for _ in range(trials):
        curves = random.normal(size=(seeds, 20))
        if kind == "walk":
            curves = np.cumsum(curves, axis=1)
        elif kind == "shared level":
            curves += 10 * random.normal(size=(seeds, 1))
        wrong += learned(STEPS, curves) is not None
    assert wrong / trials <= 0.065 + 0.012


@pytest.mark.parametrize("seeds", [4, 5, 8])
def test_learning_of_a_few_deviations_is_seen(seeds: int) -> None:
    random = np.random.default_rng([3, seeds])
    found = [learned(STEPS, rising(seeds) + random.normal(size=(seeds, 20))) for _ in range(200)]
    assert np.mean([one is not None for one in found]) > 0.95
    sizes = [one.size for one in found if one]
    assert np.median(sizes) == pytest.approx(10, rel=0.15)


def test_the_size_hardly_depends_on_how_often_was_recorded() -> None:
    coarse = learned(np.arange(1, 21), rising(points=20))
    fine = learned(np.arange(1, 201), rising(points=200))
    assert fine.size == pytest.approx(coarse.size, rel=0.05)


def test_units_are_plain_numbers() -> None:
    assert Learned(-2.0, 3.0).size == 5

"""Intervals and tests on simulated returns with known truth: they are right as often as they say.

`benchmarks/coverage_of_intervals.py` prints the same for more shapes, seeds and alternatives.
"""

from __future__ import annotations

import numpy as np
import pytest
from shapes_of_returns import SHAPES

from ablations import stats

pytestmark = pytest.mark.inputs("ablations/stats", "tests/stats/shapes_of_returns.py")


@pytest.mark.parametrize(
    "shape", ["normal", "skewed down", "quarter collapse", "ceiling with atom"]
)
def test_a_study_without_differences_claims_one_in_at_most_5_percent(shape: str) -> None:
    random, comparisons, studies = np.random.default_rng([4, 8]), 4, 600
    p = np.empty((studies, comparisons))
    for study in p:
        shared = SHAPES[shape](random, (8,))
        baseline, *variants = SHAPES[shape](random, (comparisons + 1, 8)) + shared
        study[:] = [stats.paired(scores, baseline).p for scores in variants]
    lowest = p.min(axis=1)
    assert np.mean(lowest < 0.05 / comparisons) <= 0.05 + 2 * 0.009
    assert np.mean(lowest < 0.05) > 0.07  # what sharing is for; the simulation can fail


def equivalent(scores: np.ndarray, baseline: np.ndarray, margin: float) -> bool:
    result = stats.paired(scores, baseline)
    return stats.decide(result.low, result.high, margin) == "equivalent"


@pytest.mark.parametrize("shape", ["normal", "skewed down", "half collapse", "near ceiling"])
@pytest.mark.parametrize("n", [8, 20])
def test_a_difference_as_large_as_the_margin_is_called_equivalent_in_at_most_5_percent(
    shape: str, n: int
) -> None:
    a, b = SHAPES[shape](np.random.default_rng([5, n]), (2, 1_500, n))
    margin = 2.0 * float(np.std(a))
    wrong = [equivalent(x + margin, y, margin) for x, y in zip(a, b, strict=True)]
    assert np.mean(wrong) <= 0.05
    assert np.mean([equivalent(x, y, margin) for x, y in zip(a[:100], b, strict=False)]) > 0.5

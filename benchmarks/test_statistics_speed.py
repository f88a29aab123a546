"""Time of the statistics of a large study: 10 variants, 5 tasks, 20 seeds."""

from __future__ import annotations

import numpy as np

from ablations.report.statistics import (
    LEVEL,
    Seeds,
    aggregate_interval,
    compare,
    interval,
    probability_of_improvement,
    seeds_to_decide,
)


def test_intervals_of_ten_thousand_replicates(benchmark) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 5, 20))
    low, high = benchmark(interval, scores)
    assert np.all(low < high)


def test_comparisons_with_their_seeds_to_decide(benchmark) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 5, 20))

    def judge() -> list[Seeds]:
        return [
            seeds_to_decide(compare(scores[v, t], scores[0, t], 0.3, LEVEL / 45), 0.3)
            for v in range(1, 10)
            for t in range(5)
        ]

    assert len(benchmark(judge)) == 45


def test_aggregates_over_tasks(benchmark) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 5, 20))
    found = benchmark(lambda: [aggregate_interval(list(tasks)) for tasks in scores])
    assert all(low < high for low, high in found)


def test_probabilities_of_improvement(benchmark) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 5, 20))

    def improve() -> list[tuple[float, float, float]]:
        return [probability_of_improvement(list(tasks), list(scores[0])) for tasks in scores[1:]]

    assert all(low < chance < high for chance, low, high in benchmark(improve))

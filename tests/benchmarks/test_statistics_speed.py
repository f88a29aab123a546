"""Time of the statistics of a large study: 10 variants, 5 tasks, 20 seeds."""

from __future__ import annotations

import numpy as np

from ablations.report.statistics import compare, interval, seeds_to_decide


def test_intervals_of_ten_thousand_replicates(benchmark) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 5, 20))
    low, high = benchmark(interval, scores)
    assert np.all(low < high)


def test_comparisons_with_their_seeds_to_decide(benchmark) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 5, 20))

    def judge() -> list[int | None]:
        return [
            seeds_to_decide(compare(scores[v, t], scores[0, t], 0.3), 0.3, comparisons=45)
            for v in range(1, 10)
            for t in range(5)
        ]

    assert len(benchmark(judge)) == 45

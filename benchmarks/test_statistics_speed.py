"""Time of the statistics of a large study: 10 variants, 5 tasks, 20 seeds."""

from __future__ import annotations

import numpy as np

from ablations import stats

SCORES = np.random.default_rng(0).normal(size=(10, 5, 20))


def test_intervals_of_ten_thousand_replicates(benchmark) -> None:
    result = benchmark(stats.iqm, SCORES)
    assert np.all(result.low < result.high)


def test_comparisons_with_their_numbers_of_seeds(benchmark) -> None:
    def judge() -> list[float]:
        pairs = [(scores[t], SCORES[0, t]) for scores in SCORES[1:] for t in range(5)]
        results = [stats.paired(ours, theirs, stats.LEVEL / 45) for ours, theirs in pairs]
        return [stats.seeds_needed(0.3, r.sd, 0.3, stats.LEVEL / 45) for r in results]

    assert len(benchmark(judge)) == 45


def test_aggregates_over_tasks(benchmark) -> None:
    results = benchmark(lambda: [stats.aggregate(tasks) for tasks in SCORES])
    assert all(result.low < result.high for result in results)


def test_probabilities_of_improvement(benchmark) -> None:
    results = benchmark(lambda: [stats.improvement(tasks, SCORES[0]) for tasks in SCORES[1:]])
    assert all(result.low < result.value < result.high for result in results)


def test_marks_of_the_best(benchmark) -> None:
    assert benchmark(lambda: [stats.not_the_best(of) for of in SCORES.swapaxes(0, 1)])

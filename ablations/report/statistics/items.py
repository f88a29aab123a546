"""Differences of two evaluations on the same items: prompts, episodes, problems."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ablations.report.statistics.paired import Comparison, rounding_of
from ablations.report.statistics.rates import compare_outcomes, is_outcome, rate_interval
from ablations.report.statistics.summaries import LEVEL


def compare_items(
    scores: ArrayLike,
    baseline: ArrayLike,
    clusters: ArrayLike | None = None,
    level: float = LEVEL,
) -> Comparison:
    """Compare the mean scores of two evaluations, paired by item.

    Where every item is its own cluster and all scores are 0 or 1, exactly: McNemar's test, and
    `rates.paired_rates`. Else by a clustered interval: with D_g the sum of (score - mean
    difference) over the items of cluster g, of G clusters with N items in all,

        difference ± t[G-1] √(G / (G - 1) Σ D_g²) / N

    which knows nothing of how the items of a cluster (of one passage, one repository, one initial
    state) depend on each other (Liang and Zeger 1986; Miller 2024, "Adding error bars to evals").
    The comparison's n is that of the clusters.

    Args:
        scores: `[items]`, of the change.
        baseline: of the same items.
        clusters: which items belong together, `[items]`; None: each is its own.
        level: of the interval.
    """
    a, b = np.asarray(scores, np.float64), np.asarray(baseline, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"paired items need one shape [n]: {a.shape} and {b.shape}")
    items = len(a)
    groups = np.arange(items) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    number = int(groups.max(initial=-1)) + 1
    if number == items and items and is_outcome(a) and is_outcome(b):
        return compare_outcomes(a, b, paired=True, level=level)
    if not items or not np.isfinite(a - b).all():
        return Comparison(number, level=level)
    difference = float((a - b).mean())
    wins = float(np.mean(np.sign(a - b) / 2 + 0.5))
    if number < 2:
        return Comparison(number, difference, level=level, probability_of_improvement=wins)
    sums = np.bincount(groups, (a - b) - difference, number)
    error = math.sqrt(number / (number - 1) * float((sums**2).sum())) / items
    if error <= rounding_of(a, b):
        p = 0.5 ** (number - 1) if abs(difference) > rounding_of(a, b) else 1.0
        return Comparison(number, difference, level=level, deviation=0.0, p=p)
    compared = Comparison.by_student(number, difference, error, number - 1, level)
    return replace(compared, probability_of_improvement=wins)


def mean_of_items(scores: ArrayLike, clusters: ArrayLike | None = None) -> Comparison:
    """Return the mean score of an evaluation, exactly for single outcomes, else clustered.

    The interval of a success rate is Clopper's and Pearson's; see `compare_items`.
    """
    values = np.asarray(scores, np.float64)
    alone = clusters is None or len(np.unique(clusters)) == len(values)
    if not (alone and is_outcome(values)):
        return compare_items(values, np.zeros_like(values), clusters)
    ends = rate_interval(int(values.sum()), len(values))
    return Comparison(len(values), float(values.mean()), *ends)

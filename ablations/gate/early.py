"""When a gate ends early: the probability that its last stage passes a useful change.

This is conditional power for an assumed true difference. With the mean d and the variance s² of n
differences so far, the mean of k more is N(truth, σ²/k), and σ² is s² (n - 1) / χ²[n-1]. The last
stage passes if the lower end of its interval, (n d + k mean) / N - t s_N / sqrt(N) with N = n + k,
is above a bound; s_N² is taken at its expectation. For two sides, s² is the sum of their variances.

An early end never passes a change, so the rates of false passes and false alarms do not grow. It
costs power: a test with a miss probability of β that ends where its conditional power is below γ
misses with a probability of at most β / (1 - γ) (Lan, Simon and Halperin 1982).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ablations.stats import Floats
from ablations.stats.interim import Stage

_LEVELS = (np.arange(100) + 0.5) / 100  # of χ²


def chance_to_pass(
    sides: Sequence[ArrayLike], margin: ArrayLike, below: Stage, above: Stage, *, better: bool
) -> Floats:
    """Return the probability `[...]` that the last stage decides about a useful change.

    With `better`: the probability that a gain of the margin passes. Otherwise the larger of two
    probabilities: a change without effect passes; a change whose true difference is the current
    mean difference fails.

    Args:
        sides: values `[..., n]`: the paired differences, or the change and the baseline with
            equally many runs.
        margin: in units of the metric `[...]`.
        below: the last stage, with the level of the lower end of its interval.
        above: the last stage, with the level of the upper end.
        better: whether only gains pass.
    """
    values = [np.asarray(side, np.float64) for side in sides]
    n, last = values[0].shape[-1], below.seeds
    further = last - n
    mean = values[0].mean(-1) - (values[1].mean(-1) if len(values) == 2 else 0.0)
    variances = np.maximum([side.var(-1, ddof=1) for side in values], 1e-300)
    variance = variances.sum(0)[..., None]
    # Welch's degrees of freedom are these times n - 1 now, and times last - 1 at the last stage.
    share = (variances.sum(0) ** 2 / (variances**2).sum(0))[..., None]
    freedom = share * (n - 1)
    possible = variance * freedom / (2 * special.gammaincinv(freedom / 2, _LEVELS))

    def probability(mean: Floats, truth: ArrayLike, bound: ArrayLike, stage: Stage) -> Floats:
        """Return the probability that the lower end of the last interval is above a bound."""
        moved = (np.asarray(truth) - mean)[..., None] ** 2 * n * further / last / len(values)
        at_last = ((n - 1) * variance + further * possible + moved) / (last - 1)
        quantile = -special.stdtrit(share * (last - 1), stage.level / 2)
        distance = n * mean + further * np.asarray(truth) - last * np.asarray(bound)
        ends = distance[..., None] - quantile * np.sqrt(last * at_last)
        return np.asarray(special.ndtr(ends / np.sqrt(further * possible)).mean(-1))

    if better:
        return probability(mean, margin, 0.0, below)
    passes = probability(mean, 0.0, -np.asarray(margin), below)
    return np.maximum(passes, probability(-mean, -mean, 0.0, above))

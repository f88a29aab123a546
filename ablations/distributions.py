"""Compute normal, Student's, chi-squared and beta distributions, and Fisher's exact test.

Thin functions of scipy.special that return Python's floats; scipy.stats takes longer to import.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]


def normal_cdf(z: ArrayLike) -> Floats:
    """Return P(Z <= z) of a standard normal Z; any shape."""
    return np.asarray(special.ndtr(z), np.float64)


def normal_quantile(p: float) -> float:
    """Return the z with P(Z <= z) = p."""
    return float(special.ndtri(p))


def student_cdf(freedom: float, t: float) -> float:
    """Return P(T <= t) of Student's T; the degrees of freedom need not be whole."""
    return float(special.stdtr(freedom, t))


@lru_cache(maxsize=4096)
def student_quantile(freedom: float, p: float) -> float:
    """Return the t with P(T <= t) = p."""
    return float(special.stdtrit(freedom, p))


def beta_quantile(a: float, b: float, p: float) -> float:
    """Return the x with P(X <= x) = p of a beta-distributed X."""
    return float(special.betaincinv(a, b, p))


def chi_squared_quantile(freedom: float, p: ArrayLike) -> Floats:
    """Return the x with P(X <= x) = p of a chi-squared X; p of any shape."""
    return np.asarray(2 * special.gammaincinv(freedom / 2, p), np.float64)


def fisher_p(events: tuple[int, int], trials: tuple[int, int]) -> float:
    """Return Fisher's exact p, two-sided, for as many events in each of two groups of trials.

    The share of the tables with the same sums that are no likelier than this one.
    """
    total, several = sum(trials), sum(events)
    counts = range(max(0, several - trials[1]), min(several, trials[0]) + 1)
    ways = {k: math.comb(trials[0], k) * math.comb(trials[1], several - k) for k in counts}
    return sum(n for n in ways.values() if n <= ways[events[0]]) / math.comb(total, several)

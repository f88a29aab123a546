"""Compute normal, Student's, chi-squared and beta distributions, and Fisher's exact test.

In place of scipy.stats, whose import takes longer than a table.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_NEGLIGIBLE = 40.0  # exp(-40) of a density at its edge adds nothing
_NODES = 64


def normal_cdf(z: ArrayLike) -> Floats:
    """Return P(Z <= z) of a standard normal Z; any shape."""
    return np.asarray(_erfc(np.asarray(z, np.float64) / -math.sqrt(2)), np.float64) / 2


_erfc = np.frompyfunc(math.erfc, 1, 1)


@lru_cache(maxsize=4096)
def normal_quantile(p: float) -> float:
    """Return the z with P(Z <= z) = p."""
    return NormalDist().inv_cdf(p)


def student_cdf(freedom: float, t: float) -> float:
    """Return P(T <= t) of Student's T; the degrees of freedom need not be whole."""
    # Beyond 1e150, whose square is no float any more, there is nothing but 0 left to say.
    tail = _student(freedom, -math.asinh(min(abs(t), 1e150) / math.sqrt(freedom)))[0]
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def student_quantile(freedom: float, p: float) -> float:
    """Return the t with P(T <= t) = p.

    By Newton's method on log P against asinh(t / sqrt(freedom)): a concave function, so that after
    one step it nears the root from one side.
    """
    if p > 0.5:
        return -student_quantile(freedom, 1 - p)
    u = math.asinh(normal_quantile(p) / math.sqrt(freedom))
    for _ in range(50):
        tail, density = _student(freedom, u)
        step = math.log(tail / p) * tail / density
        u -= step
        if abs(step) <= 1e-9 * abs(u):  # of which the next is the square
            break
    return math.sqrt(freedom) * math.sinh(u)


def _student(freedom: float, u: float) -> tuple[float, float]:
    """Return P(U <= u) for u <= 0 and the density of U = asinh(T / sqrt(freedom)) there.

    The density is cosh(u)^-freedom / B(freedom / 2, 1 / 2), and P half an incomplete beta function
    at 1 / cosh(u)^2.
    """
    a, y = freedom / 2, math.tanh(u) ** 2
    if a < 100:
        ratio = math.gamma(a + 0.5) / math.gamma(a)
    else:  # Stirling's series, where the gamma function would overflow and its logarithm cancel
        ratio = math.sqrt(a) * math.exp(-1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5))
    density = ratio / math.sqrt(math.pi) * math.exp(-a * math.log1p(math.sinh(u) ** 2))
    if y > 1.5 / (a + 2.5):
        return density * math.sqrt(y) * _beta_fraction(a, 0.5, 1 - y) / (2 * a), density
    return 0.5 - density * math.sqrt(y) * _beta_fraction(0.5, a, y), density


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return a B(a, b) I_x(a, b) / (x^a (1 - x)^b) for x < (a + 1) / (a + b + 2).

    The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
    """
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            c, d = 1 + term / c, 1 / (1 + term * d)
            found *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return found


def beta_cdf(a: float, b: float, x: float) -> float:
    """P(X <= x) of a beta-distributed X with parameters a and b."""
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(b, a, 1 - x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log += a * math.log(x) + b * math.log1p(-x)
    return math.exp(log) * _beta_fraction(a, b, x) / a


@lru_cache(maxsize=4096)
def beta_quantile(a: float, b: float, p: float) -> float:
    """Return the x with P(X <= x) = p of a beta-distributed X, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if beta_cdf(a, b, middle) > p else (middle, high)
    return (low + high) / 2


def chi_squared_quantile(freedom: float, p: ArrayLike) -> Floats:
    """Return the x with P(X <= x) = p of a chi-squared X; p of any shape.

    By Newton's method on the logarithm of the nearer tail against w = log(x / freedom), which is
    concave. The density of w is exp(-a (e^w - 1 - w)) up to a factor, with a = freedom / 2.
    """
    a, p = freedom / 2, np.asarray(p, np.float64)
    q = 1 - p
    z = np.array([normal_quantile(one) for one in p.flat]).reshape(p.shape)
    # Wilson and Hilferty's cube, and P <= (a e^w)^a / Gamma(a + 1)
    cube = np.maximum(1 - (1 - z * math.sqrt(9 * a)) / (9 * a), 1e-9)
    w = np.maximum(3 * np.log(cube), (np.log(p) + math.lgamma(a + 1)) / a - math.log(a))
    whole = float(np.sum(_tail(a, np.array([-0.0, 0.0]), np.array([-1, 1]))))
    for _ in range(50):
        tail = _tail(a, w, np.where(w < 0, -1, 1)) / whole
        density = np.exp(-a * (np.expm1(w) - w)) / whole
        below = np.where(w < 0, tail, 1 - tail)
        above = np.where(w < 0, 1 - tail, tail)
        step = np.where(p < 0.5, np.log(below / p) * below, -np.log(above / q) * above) / density
        w = w - step
        if np.all(np.abs(step) <= 1e-9):  # of which the next is the square
            break
    return np.asarray(freedom * np.exp(w))


def _tail(a: float, w: Floats, side: NDArray[np.int_]) -> Floats:
    """Return the integral of exp(-a (e^s - 1 - s)) over s beyond w, on the side away from 0."""
    slope, bend = a * np.abs(np.expm1(w)), a * np.exp(w)
    # How far it is until the exponent has fallen by 40, or somewhat more
    reach = 2 * _NEGLIGIBLE / (slope + np.sqrt(slope**2 + 4 / 3 * _NEGLIGIBLE * bend))
    reach = np.where((side < 0) & (reach > 1.3), _NEGLIGIBLE / a + 1, reach)
    nodes, weights = _legendre()
    r = (side * reach)[..., None] * nodes
    fall = a * (np.exp(w)[..., None] * np.expm1(r) - r)
    return np.exp(-a * (np.expm1(w) - w)) * reach * (np.exp(-fall) @ weights)


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    return (points + 1) / 2, weights / 2


def fisher_p(events: tuple[int, int], trials: tuple[int, int]) -> float:
    """Return Fisher's exact p, two-sided, for as many events in each of two groups of trials.

    The share of the tables with the same sums that are no likelier than this one.
    """
    total, several = sum(trials), sum(events)
    counts = range(max(0, several - trials[1]), min(several, trials[0]) + 1)
    ways = {k: math.comb(trials[0], k) * math.comb(trials[1], several - k) for k in counts}
    return sum(n for n in ways.values() if n <= ways[events[0]]) / math.comb(total, several)

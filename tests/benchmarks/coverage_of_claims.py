"""How often the intervals of spreads and of lost robustness hold the truth, by shape of returns.

python tests/benchmarks/coverage_of_claims.py > results/reference/claims.txt
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from ablations.report.statistics import compare_lost, compare_spreads, lost

SAMPLES = 2000
LEVELS = (0.05, 0.0125)  # alone, and as one of four tasks

# Of a standard normal number.
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "normal": lambda z: z,
    "skewed": lambda z: -np.exp(0.6 * z),
    "exponential": lambda z: np.log(ndtr(z)),
    "a collapse in seven": lambda z: np.where(z < ndtri(1 / 7), -5 + z, z),
    "at a ceiling": lambda z: np.minimum(z, 0.5),
}


def drawn(
    rng: np.random.Generator, shape: str, variants: int, seeds: int, common: float
) -> np.ndarray:
    """Returns `[variants, seeds]` that share so much of their variance by seed."""
    own = rng.normal(size=(variants, seeds))
    z = np.sqrt(common) * rng.normal(size=seeds) + np.sqrt(1 - common) * own
    return SHAPES[shape](z)


def spreads() -> None:
    print(
        "Ratio of standard deviations between seeds: share of intervals that hold the truth (1)\n"
    )
    print(f"{'returns':<22}{'seeds':>6}{'shared':>8}" + "".join(f"{1 - x:>9.2%}" for x in LEVELS))
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for seeds in (20, 40):
            for common in (0.0, 0.5):
                hits = np.zeros(len(LEVELS))
                for _ in range(SAMPLES):
                    a, b = drawn(rng, shape, 2, seeds, common)
                    for k, level in enumerate(LEVELS):
                        found = compare_spreads(a, b, level)
                        hits[k] += found.low is not None and found.low <= 0 <= (found.high or 0)
                shares = "".join(f"{one / SAMPLES:>9.1%}" for one in hits)
                print(f"{shape:<22}{seeds:>6}{common:>8.1f}{shares}")


def robustness() -> None:
    """Two tasks, three rates: both lines lose nothing; one rate suits one task; two are close."""
    truths = {
        "nothing lost": ([[0.8, 1.0, 0.6], [0.7, 1.0, 0.8]], [[0.8, 1.0, 0.6], [0.7, 1.0, 0.8]]),
        "one loses 0.1": ([[1.0, 0.9, 0.6], [0.6, 0.7, 0.9]], [[0.8, 1.0, 0.6], [0.7, 1.0, 0.8]]),
        "close rates": ([[1.0, 0.98, 0.6], [0.9, 1.0, 0.9]], [[1.0, 1.0, 0.9], [1.0, 1.0, 0.9]]),
    }
    print("\nWhat one rate for all tasks loses, one line minus the other, 20 seeds\n")
    print(f"{'returns':<22}{'truth':<16}{'sd':>6}" + "".join(f"{1 - x:>9.2%}" for x in LEVELS))
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        center = float(np.mean(SHAPES[shape](rng.normal(size=200_000))))
        size = float(np.std(SHAPES[shape](rng.normal(size=200_000))))
        for name, (a, b) in truths.items():
            truth = float(lost(a) - lost(b))
            for deviation in (0.05, 0.15):
                hits = np.zeros(len(LEVELS))
                samples = SAMPLES // 10
                for _ in range(samples):
                    noise = (drawn(rng, shape, 12, 20, 0.3) - center) / size * deviation
                    scores = np.array([a, b])[..., None] + noise.reshape(2, 2, 3, 20)
                    for k, level in enumerate(LEVELS):
                        found = compare_lost(scores[0], scores[1], level)
                        assert found.low is not None
                        assert found.high is not None
                        hits[k] += found.low - 1e-12 <= truth <= found.high + 1e-12
                shares = "".join(f"{one / samples:>9.1%}" for one in hits)
                print(f"{shape:<22}{name:<16}{deviation:>6.2f}{shares}")


if __name__ == "__main__":
    spreads()
    robustness()

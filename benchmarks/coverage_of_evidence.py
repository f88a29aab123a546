"""Measure the coverage of the statistics of docs/evidence.md, on scores with known truth.

    python benchmarks/coverage_of_evidence.py [--trials N] > results/reference/evidence.txt

Prints, in one CPU minute:

- simultaneous coverage of the main effects of a fractional factorial and of its aliased
  interactions, with 1, 2 and 8 seeds;
- coverage of the regression estimator;
- the goals that are missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "stats"))

from goals import Goals
from shapes_of_returns import SHAPES

from ablations import stats
from ablations.stats.factorial import Design, fraction_effects
from ablations.studies import fraction

Floats = NDArray[np.float64]
FACTORS = 24
GOALS = Goals()


def _design() -> tuple[Design, Floats]:
    settings = fraction({f"c{k}": {f"x{k}": 1} for k in range(FACTORS)})
    rows = [tuple(int(f"x{k}" in one.sets) for k in range(FACTORS)) for one in settings.values()]
    factors = {f"x{k}": ("0", "1") for k in range(FACTORS)}
    return Design(factors, dict(zip(settings, rows, strict=True))), 2.0 * np.array(rows) - 1


DESIGN, SIGNS = _design()
SETTINGS = len(SIGNS)
_CHOSEN = np.array([np.random.default_rng(k).choice(FACTORS, 3, replace=False) for k in range(200)])
THIRD = SIGNS[:, _CHOSEN].prod(axis=2) / np.sqrt(len(_CHOSEN))


def _third(random: np.random.Generator) -> Floats:
    """Interactions of three `[N]` as random numbers, with the variance of a run."""
    return THIRD @ random.normal(size=len(_CHOSEN))


def _differing(random: np.random.Generator, n: int) -> Floats:
    return random.normal(size=(n, SETTINGS)) * np.where(np.arange(SETTINGS) % 7 == 0, 9.0, 1.0)


def _collapses(random: np.random.Generator, n: int) -> Floats:
    noise = random.normal(size=(n, SETTINGS))
    return noise - 6.0 * (random.random((n, SETTINGS)) < 0.1) + 0.6


NOISE: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda random, n: random.normal(size=(n, SETTINGS)),
    "one setting in seven varies 9 times as much": _differing,
    "Student, 3 degrees": lambda random, n: random.standard_t(3, size=(n, SETTINGS)),
    "one run in ten collapses": _collapses,
    "seeds share half": lambda random, n: (
        random.normal(size=(n, 1)) + random.normal(size=(n, SETTINGS))
    ),
    "an effect differs a little between seeds": lambda random, n: (
        random.normal(size=(n, SETTINGS)) + 0.1 * random.normal(size=(n, 1)) * SIGNS[:, 0]
    ),
    "an effect differs much between seeds": lambda random, n: (
        random.normal(size=(n, SETTINGS)) + 0.3 * random.normal(size=(n, 1)) * SIGNS[:, 0]
    ),
}
# Of interactions of three, by the variance of a setting's mean over the seeds.
LACKS = (0.3, 1.0, 4.0)


def fractions(trials: int) -> None:
    print(f"Fraction of {FACTORS} factors in {SETTINGS} settings: joint 95% intervals\n")
    heads = f"{'mains':>8}{'pairs':>8}{'width':>8}"
    print(f"{'runs':<46}{'seeds':>6}{heads}   (width: of a half interval, in standard errors)")
    random = np.random.default_rng(0)
    cases = [(name, 0.0) for name in NOISE] + [("normal", lack) for lack in LACKS]
    for name, lack in cases:
        for n in (1, 2, 8):
            hits, widths = np.zeros(2), []
            for _ in range(trials):
                y = NOISE[name](random, n) + np.sqrt(lack / n) * _third(random)
                mains, pairs, _ = fraction_effects(y, DESIGN)
                for k, of in enumerate((mains, [difference for _, difference in pairs])):
                    hits[k] += all(each.low <= 0 <= each.high for each in of)
                widths.append((mains[0].high - mains[0].low) / 2)
            shares = 100 * hits / trials
            text = name if not lack else f"interactions of three, {lack:g} times the variance"
            # Interactions of three are drawn anew: their part of a main effect is an error.
            width = np.mean(widths) / np.sqrt(4 * _variance(name) / SETTINGS / n)
            print(f"{text:<46}{n:>6}{shares[0]:>8.1f}{shares[1]:>8.1f}{width:>8.1f}")
            where = f"{text}, {n} seeds"
            GOALS.add("main effects, all of them held", 95, 100, shares[0], where, trials)
            GOALS.add("aliased interactions, all held", 95, 100, shares[1], where, trials)


def _variance(name: str) -> float:
    random = np.random.default_rng(1)
    return float(np.var([NOISE[name](random, 1) for _ in range(200)]))


def controlled(trials: int) -> None:
    print("\nRegression on a baseline with more seeds: 95% intervals, and their width\n")
    print(f"{'scores':<22}{'pairs':>6}{'all':>6}{'shared':>8}{'held':>8}{'of paired':>11}")
    random = np.random.default_rng(2)
    for shape in ("normal", "skewed down", "quarter collapse", "ceiling with atom", "heavy tails"):
        for n, whole in ((20, 80), (120, 480)):
            for shared in (0.0, 0.5):
                hits, widths = 0, []
                for _ in range(trials):
                    x, y = SHAPES[shape](random, (2, whole))
                    y = np.where(random.random(whole) < shared, x, y)[:n]
                    found, plain = stats.control_variate(y, x[:n], x), stats.paired(y, x[:n])
                    hits += found.low <= 0 <= found.high
                    widths.append((found.high - found.low) / (plain.high - plain.low))
                share = 100 * hits / trials
                row = f"{shape:<22}{n:>6}{whole:>6}{shared:>8.1f}{share:>8.1f}"
                print(f"{row}{np.nanmean(widths):>11.2f}")
                where = f"{shape}, {n} of {whole}, shared {shared:g}"
                GOALS.add("regression estimator holds the truth", 95, 100, share, where, trials)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=300)
    trials = parser.parse_args().trials
    fractions(trials)
    controlled(trials)
    GOALS.print()


if __name__ == "__main__":
    main()

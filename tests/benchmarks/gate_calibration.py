"""How often a gate is wrong, and how many seeds it takes: the table of docs/gate.md.

    python tests/benchmarks/gate_calibration.py            simulated returns of several kinds
    python tests/benchmarks/gate_calibration.py --runs F   and resampled from stored scores, a file
                                                           with one number per line

writes results/reference/gate_calibration.md. The committed one has the final scores of 192 SAC and
193 TD3 runs from github.com/flowersteam/rl_stats (data/*_final_perfs.txt). Each comparison draws
seeds for either side and plays the gate's own looks on them. `pair` is the correlation of the two
runs of a seed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import beta

from ablations import gate, looks
from ablations.report.statistics import Comparison, compare

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]

OUT = Path(__file__).parents[2] / "results" / "reference" / "gate_calibration.md"
COMPARISONS = 2000


def correlated(shape: Callable[[Floats], Floats], pair: float) -> Draw:
    """Two runs per seed, each `shape` of a normal number, of this correlation."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        shared = np.sqrt(pair) * rng.normal(size=n)
        one, other = (shared + np.sqrt(1 - pair) * rng.normal(size=n) for _ in range(2))
        return shape(one), shape(other)

    return draw


def collapsing(z: Floats) -> Floats:
    """A tenth of the runs learns nothing."""
    return np.where(z < -1.2816, -5.0, z)


KINDS: dict[str, Draw] = {
    "normal": correlated(lambda z: z, 0.0),
    "normal, pair 0.8": correlated(lambda z: z, 0.8),
    "skewed (exponential of normal)": correlated(lambda z: np.exp(0.7 * z), 0.0),
    "a ceiling that half of the runs reach": correlated(lambda z: np.minimum(z, 0.0), 0.0),
    "a tenth collapses": correlated(collapsing, 0.0),
}


def resampled(scores: Floats) -> Draw:
    return lambda rng, n: (rng.choice(scores, n), rng.choice(scores, n))


def intervals(differences: Floats, seeds: int, level: float) -> tuple[Floats, Floats, Floats]:
    """Means `[comparisons]` and the ends of their intervals, as `judge` has them one by one."""
    rows = differences[:, :seeds]
    centers = rows.mean(axis=1)
    reach = -stdtrit(seeds - 1, level / 2) * rows.std(axis=1, ddof=1) / np.sqrt(seeds)
    return centers, centers - reach, centers + reach


def played(
    differences: Floats, margin: float, design: looks.Looks, better: bool
) -> list[tuple[str, int]]:
    """The words of gates on differences `[comparisons, seeds]`, and the seeds that each took."""
    found = [("undecided", design.seeds[-1])] * len(differences)
    open_ = np.arange(len(differences))
    for n, level in zip(design.seeds, design.levels, strict=True):
        ends = zip(open_, *intervals(differences[open_], n, level), strict=True)
        still = []
        for row, center, low, high in ends:
            one = Comparison(n, center, *((None, None) if low == high else (low, high)))
            word = gate.judged(one, margin, last=n == design.seeds[-1], better=better)
            found[row] = (word, n)
            if word == "undecided":
                still.append(row)
        open_ = np.array(still, int)
        if not still:
            break
    return found


def upper(wrong: int, total: int) -> float:
    """Of a rate, with 95% (Clopper and Pearson)."""
    return 1.0 if wrong == total else float(beta.ppf(0.95, wrong + 1, total - wrong))


def rows(name: str, draw: Draw, rate: float) -> Iterator[tuple[str, ...]]:
    design = looks.design(looks.planned(gate.FIRST_SEEDS, gate.MOST_SEEDS), 2 * rate)
    most = design.seeds[-1]
    size = float(np.std(draw(np.random.default_rng(1), 100_000)[0]))
    questions = (
        ("no change, margin 0.2", 0.2, 0.0, False, ("worse",), "false alarm"),
        ("no change", 1.0, 0.0, False, ("worse",), "false alarm"),
        ("worse by the margin", 1.0, -1.0, False, ("better", "no worse"), "false pass"),
        ("worse by 2 margins (a bug)", 1.0, -2.0, False, ("worse",), "caught"),
        ("no change, gains required", 1.0, 0.0, True, ("better",), "false gain"),
    )
    for what, margin, shift, better, words, called in questions:
        rng = np.random.default_rng(7)
        ours, theirs = draw(rng, COMPARISONS * most)
        gates = (ours - theirs + shift * size).reshape(COMPARISONS, most)
        ended = played(gates, margin * size, design, better)
        found = Counter(word for word, _ in ended)
        seeds = sum(took for _, took in ended)
        counted = sum(found[word] for word in words)
        bound = "" if called == "caught" else f"{100 * upper(counted, COMPARISONS):.1f}%"
        yield (
            name,
            what,
            called,
            f"{100 * counted / COMPARISONS:.1f}%",
            bound,
            f"{100 * found['undecided'] / COMPARISONS:.1f}%",
            f"{seeds / COMPARISONS:.1f}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, action="append", default=[])
    options = parser.parse_args()
    # the gate's own intervals, one by one
    ours, theirs = KINDS["normal"](np.random.default_rng(0), 8)
    own = compare(ours, theirs, level=0.02)
    np.testing.assert_allclose(
        [ends[0] for ends in intervals((ours - theirs)[None], 8, 0.02)],
        [own.difference, own.low, own.high],
    )
    kinds = dict(KINDS)
    for path in options.runs:
        scores = np.loadtxt(path)
        kinds[f"{path.stem}, {len(scores)} stored runs, resampled"] = resampled(scores)
    lines = [
        "# How often a gate is wrong",
        "",
        f"`python tests/benchmarks/gate_calibration.py`: {COMPARISONS:,} comparisons each, at "
        f"--rate {100 * gate.RATE:g}% and the default looks "
        f"({', '.join(map(str, looks.planned(gate.FIRST_SEEDS, gate.MOST_SEEDS)))} seeds); the "
        "margin is one standard deviation of the returns, unless another share is named. bound: "
        "upper end of the rate, with 95%.",
        "",
        "| returns | truth | counted | rate | bound | undecided | seeds of each side |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for name, draw in kinds.items():
        lines += [f"| {' | '.join(row)} |" for row in rows(name, draw, gate.RATE)]
    OUT.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

"""How often a gate is wrong, and how many seeds it takes: the table of docs/gate.md.

    python benchmarks/gate_calibration.py            simulated returns of several kinds, and
                                                           stored runs, resampled
    python benchmarks/gate_calibration.py --runs F   and resampled from other scores, a file
                                                           with one number per line

writes results/reference/gate_calibration.md, and fails where the bound of a rate of false alarms,
passes or gains is above 1.3 times the gate's. The committed one has the final scores of 192 SAC and
193 TD3 runs from github.com/flowersteam/rl_stats (data/*_final_perfs.txt). Each comparison draws
seeds for either side and plays the gate's own looks on them, to their end (gate_errors.py has early
ends). `pair` is the correlation of the two
runs of a seed.

The stored runs are results/reference/examples/sb3_cartpole_runs.csv, where it is there:
Stable-Baselines3's PPO, and the same with a bug, a learning rate that lost a zero. The example in
docs/examples/sb3_ppo makes them:

    ablations run docs/examples/sb3_ppo/norm_adv.toml $which
    ablations export docs/examples/sb3_ppo/norm_adv.toml $which --output runs.csv
    grep -e ,metric, -e ,rollout/ep_rew_mean, runs.csv > sb3_cartpole_runs.csv

with which="--seeds 100 --steps 8192 --vary learning_rate=3e-4,3e-5".
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import beta

from ablations import gate
from ablations.scoring import final
from ablations.stats import Difference, paired
from ablations.stats.interim import Stages, design, planned

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]

OUT = Path(__file__).parents[1] / "results" / "reference" / "gate_calibration.md"
RUNS = OUT.parent / "examples" / "sb3_cartpole_runs.csv"
COMPARISONS = 2000
ALLOWED = 1.3  # times the gate's rate: the bound of a rate that is measured


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


def resampled(ours: Floats, theirs: Floats) -> Draw:
    return lambda rng, n: (rng.choice(ours, n), rng.choice(theirs, n))


def stored(path: Path) -> dict[str, Floats]:
    """The final scores of a file of `ablations export`, by variant."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == "rollout/ep_rew_mean":
                points = curves.setdefault(row["variant"], {}).setdefault(row["seed"], [])
                points.append((float(row["step"]), float(row["value"])))
    return {
        name: np.array([final(*zip(*points, strict=True)) for points in runs.values()])
        for name, runs in curves.items()
    }


@dataclass(frozen=True)
class Question:
    """margin, shift of our runs: in standard deviations of the returns. outcome: that counts."""

    truth: str
    margin: float
    shift: float
    better: bool
    outcome: str
    counted: str


QUESTIONS = (
    Question("no change, margin 0.2", 0.2, 0.0, False, "fail", "false alarm"),
    Question("no change", 1.0, 0.0, False, "fail", "false alarm"),
    Question("worse by the margin", 1.0, -1.0, False, "pass", "false pass"),
    Question("worse by 2 margins (a bug)", 1.0, -2.0, False, "fail", "caught"),
    Question("no change, gains required", 1.0, 0.0, True, "pass", "false gain"),
)
BUG = (
    Question("the bug, margin 0.2", 0.2, 0.0, False, "fail", "caught"),
    Question("the bug, margin 0.2", 0.2, 0.0, False, "pass", "false pass"),
)


def intervals(differences: Floats, seeds: int, level: float) -> tuple[Floats, Floats, Floats]:
    """Means `[comparisons]` and the ends of their intervals, as `judge` has them one by one."""
    rows = differences[:, :seeds]
    centers = rows.mean(axis=1)
    reach = -stdtrit(seeds - 1, level / 2) * rows.std(axis=1, ddof=1) / np.sqrt(seeds)
    return centers, centers - reach, centers + reach


def played(
    differences: Floats, margin: float, stages: Stages, better: bool
) -> list[tuple[str, int]]:
    """The outcomes of gates on differences `[comparisons, seeds]`, and the seeds of each."""
    found = [("undecided", stages.seeds[-1])] * len(differences)
    open_ = np.arange(len(differences))
    for n, level in zip(stages.seeds, stages.levels, strict=True):
        ends = zip(open_, *intervals(differences[open_], n, level), strict=True)
        still = []
        for row, center, low, high in ends:
            one = Difference(n, center, *((np.nan, np.nan) if low == high else (low, high)))
            last = n == stages.seeds[-1]
            outcome = gate.judged(one, margin, level, last=last, better=better).outcome
            found[row] = (outcome, n)
            if outcome == "undecided":
                still.append(row)
        open_ = np.array(still, int)
        if not still:
            break
    return found


def upper(wrong: int, total: int) -> float:
    """Of a rate, with 95% (Clopper and Pearson)."""
    return 1.0 if wrong == total else float(beta.ppf(0.95, wrong + 1, total - wrong))


@dataclass(frozen=True)
class Row:
    """One line of the table. bound: None where more is better."""

    cells: tuple[str, ...]
    bound: float | None


def row(name: str, draw: Draw, size: float, asked: Question, rate: float) -> Row:
    """size: the standard deviation of the returns."""
    stages = design(planned(gate.FIRST_SEEDS, gate.MOST_SEEDS), 2 * rate)
    most = stages.seeds[-1]
    ours, theirs = draw(np.random.default_rng(7), COMPARISONS * most)
    gates = (ours - theirs + asked.shift * size).reshape(COMPARISONS, most)
    ended = played(gates, asked.margin * size, stages, asked.better)
    found = Counter(outcome for outcome, _ in ended)
    seeds = sum(took for _, took in ended)
    counted = found[asked.outcome]
    bound = None if asked.counted == "caught" else upper(counted, COMPARISONS)
    cells = (
        name,
        asked.truth,
        asked.counted,
        f"{100 * counted / COMPARISONS:.1f}%",
        "" if bound is None else f"{100 * bound:.1f}%",
        f"{100 * found['undecided'] / COMPARISONS:.1f}%",
        f"{seeds / COMPARISONS:.1f}",
    )
    return Row(cells, bound)


def rows(scores: list[tuple[str, Floats]], rate: float) -> Iterator[Row]:
    for name, draw in KINDS.items():
        size = float(np.std(draw(np.random.default_rng(1), 100_000)[0]))
        for asked in QUESTIONS:
            yield row(name, draw, size, asked, rate)
    for name, runs in scores:
        for asked in QUESTIONS:
            yield row(name, resampled(runs, runs), float(np.std(runs)), asked, rate)
    if not RUNS.exists():
        return
    found = stored(RUNS)
    healthy, broken = (found[f"learning_rate={each}"] for each in (3e-4, 3e-5))
    name = f"SB3's PPO on CartPole, {len(healthy)} stored runs, resampled"
    for asked in QUESTIONS:
        yield row(name, resampled(healthy, healthy), float(np.std(healthy)), asked, rate)
    name = f"{len(broken)} with a learning rate that lost a zero against {len(healthy)} without"
    for asked in BUG:
        yield row(name, resampled(broken, healthy), float(np.std(healthy)), asked, rate)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, action="append", default=[])
    options = parser.parse_args()
    # the gate's own intervals, one by one
    ours, theirs = KINDS["normal"](np.random.default_rng(0), 8)
    own = paired(ours, theirs, 0.02)
    np.testing.assert_allclose(
        [ends[0] for ends in intervals((ours - theirs)[None], 8, 0.02)],
        [own.difference, own.low, own.high],
    )
    scores = [(path.stem, np.loadtxt(path)) for path in options.runs]
    named = [(f"{name}, {len(one)} stored runs, resampled", one) for name, one in scores]
    found = list(rows(named, gate.RATE))
    lines = [
        "# How often a gate is wrong",
        "",
        f"`python benchmarks/gate_calibration.py`: {COMPARISONS:,} comparisons each, at "
        f"--rate {100 * gate.RATE:g}% and the default looks "
        f"({', '.join(map(str, planned(gate.FIRST_SEEDS, gate.MOST_SEEDS)))} seeds); the "
        "margin is one standard deviation of the returns, unless another share is named. bound: "
        "upper end of the rate, with 95%.",
        "",
        "| returns | truth | counted | rate | bound | undecided | seeds of each side |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    lines += [f"| {' | '.join(one.cells)} |" for one in found]
    OUT.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return int(any(one.bound is not None and one.bound > ALLOWED * gate.RATE for one in found))


if __name__ == "__main__":
    sys.exit(main())

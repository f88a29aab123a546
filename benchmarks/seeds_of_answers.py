"""Simulate the numbers of seeds that open answers print: 80% of such cases must be decided.

    python benchmarks/seeds_of_answers.py > results/reference/seeds_of_answers.txt

For each inconclusive answer, 4,000 studies of the printed number of seeds are drawn from its own
paired differences, with replacement and with a true effect of 5% or 0. Tasks with different seeds
are drawn apart. Prints the share that `stats.decide` decides as expected: *better* for 5%,
*equivalent* for 0. Takes three CPU minutes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ablations import stats
from ablations.answers.entries import read
from ablations.answers.measures import MARGIN, answer_all
from ablations.answers.pages import FILE
from ablations.io.archives import restore

RESULTS = Path(__file__).resolve().parents[1] / "results"
STUDIES = 4000
GOAL, TOLERANCE = 0.8, 0.05
KINDS = {"to_detect": MARGIN, "to_equivalence": 0.0}  # -> the true effect


def decided(
    tasks: Sequence[np.ndarray], level: float, n: float, effect: float, random: np.random.Generator
) -> float:
    """Return the share of studies of n seeds that find an effect of 5%, or equivalence.

    tasks: differences `[pairs]` that are drawn apart, and averaged.
    """
    if math.isnan(n):
        return math.nan
    noise = [(own - own.mean()) * math.sqrt(len(own) / (len(own) - 1)) for own in tasks]
    samples = effect + np.mean([random.choice(own, (STUDIES, int(n))) for own in noise], axis=0)
    expected = "better" if effect else "equivalent"
    found = [stats.paired(each, np.zeros(len(each)), level) for each in samples]
    return float(np.mean([stats.decide(x.low, x.high, MARGIN, 0) == expected for x in found]))


def main() -> int:
    restore(RESULTS)
    made = answer_all(RESULTS, read(RESULTS / FILE))
    frame, effects = made.frame, made.effects
    random, rows = np.random.default_rng(0), []
    for _, row in frame[frame.seeds_to_detect > 0].iterrows():
        tasks = [row.dots]
        if "," in row.seeds_by_task:
            tasks = [*effects[(effects.id == row.id) & (effects.used == True)].dots]  # noqa: E712
        shares = {
            f"{name} {kind}": value
            for kind, effect in KINDS.items()
            for name, value in (
                ("seeds", row[f"seeds_{kind}"]),
                ("decided", decided(tasks, row.level, row[f"seeds_{kind}"], effect, random)),
            )
        }
        rows.append({"answer": row.id, **shares})
    table = pd.DataFrame(rows).round(2)
    print(table.to_string(index=False))
    least = frame.set_index("id").seeds[table.answer].to_numpy() + 1  # more than needed may be left
    off = pd.Series(False, index=table.index)
    for kind in KINDS:
        share = table[f"decided {kind}"] - GOAL
        off |= (share < -TOLERANCE) | (share > TOLERANCE) & (table[f"seeds {kind}"] > least)
    print(f"{int(off.sum())} of {len(table)} answers are not within 80 ± 5%")
    return int(off.any())


if __name__ == "__main__":
    sys.exit(main())

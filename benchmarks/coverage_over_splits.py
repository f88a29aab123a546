"""How often the interval of a difference covers 0 where there is none: halves of stored seeds.

    python benchmarks/coverage_over_splits.py prompt_normalization --seeds 32 \\
        --variants grpo none --tasks arithmetic

Reads a study that has run (`ablations run STUDY` with the same flags). The seeds are split into
two halves at random, 200 times; each time the same quantity of both halves is compared by the
table's own paired t interval at 95%: the score of each variant on each task, and its difference to
the baseline. A row per quantity says in how many splits the interval held 0. Over all of them that
should be 93 to 97%: each seed has a warm start of its own, so what differs between two sets of
seeds is all in the interval. Writes results/reference/coverage_over_splits.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ablations.runs import Runs
from ablations.stats import paired
from ablations.sweep.planned import planned
from ablations.tables.formats import pipes

SPLITS = 200
HEAD = ("task", "variant", "quantity", "seeds", "held 0")
REPORT = Path("results/reference/coverage_over_splits.md")


def quantities(runs: Runs) -> dict[tuple[str, str, str], NDArray[np.float64]]:
    """(task, variant, what) -> one number per seed."""
    by_name = {}
    for task in runs.tasks:
        for variant in runs.variants:
            (scores,) = runs.paired([task], [variant, runs.baseline])
            by_name[task, variant, "score"] = scores[0]
            if variant != runs.baseline:
                by_name[task, variant, "difference"] = scores[0] - scores[1]
    return by_name


def covered(numbers: NDArray[np.float64], rng: np.random.Generator) -> int:
    """In how many random splits the interval of half against half held 0."""
    half = len(numbers) // 2
    held = 0
    for _ in range(SPLITS):
        order = rng.permutation(len(numbers))
        result = paired(numbers[order[:half]], numbers[order[half : 2 * half]])
        held += result.low <= 0 <= result.high
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study")
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--variants", nargs="+")
    parser.add_argument("--tasks", nargs="+")
    parser.add_argument("--results", type=Path, default=Path("results"))
    asked = parser.parse_args()

    flags = {name: vars(asked)[name] for name in ("variants", "tasks") if vars(asked)[name]}
    selection = {"profile": "quick", "seeds": asked.seeds, **flags}
    (plan,) = planned([asked.study], asked.results, selection)
    rng = np.random.default_rng(0)
    rows, total = [], 0
    by_name = quantities(Runs.read(asked.results, plan))
    for (task, variant, what), numbers in by_name.items():
        held = covered(numbers, rng)
        total += held
        rows.append([task, variant, what, str(len(numbers)), f"{100 * held / SPLITS:.1f}%"])
    share = 100 * total / (SPLITS * len(by_name))
    text = (
        f"{plan.study.title} ({asked.study}): halves of {asked.seeds} seeds against each other, "
        f"{SPLITS} splits of each quantity. The 95% interval of the difference held 0 in "
        f"{share:.1f}% of all; wanted: 93 to 97%. Made by `python "
        f"benchmarks/coverage_over_splits.py {asked.study} --seeds {asked.seeds}"
        + "".join(f" --{name} {' '.join(values)}" for name, values in flags.items())
        + "`.\n\n"
        + pipes(HEAD, rows)
    )
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(text.rstrip() + "\n")
    print(text)


if __name__ == "__main__":
    main()

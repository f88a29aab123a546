"""How often the words of a table are right, on returns with known truth.

    python tests/benchmarks/verdicts_of_tables.py [--trials N]

Prints, for every shape of returns and 5, 8, 12 and 20 seeds: coverage of the interval of a paired
difference; studies that say anything false where variants are equal, or exactly the margin apart;
how often a variant that is as good as the best loses the mark for it; how often "all tasks" hides
opposite effects; how many ranges of seeds hold the number that decides; and the same words read at
planned looks, with the seeds that stopping early saves. The intervals of scores are in
coverage_of_intervals.py. Its output is results/reference/verdicts.txt.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))

from shapes_of_returns import SHAPES

from ablations.looks import Looks, design, planned
from ablations.report.statistics import (
    LEVEL,
    not_the_best,
    seeds_for,
    seeds_to_decide,
    verdict,
)
from ablations.report.statistics.paired import Comparison

Floats = NDArray[np.float64]
SEEDS = (5, 8, 12, 20)
COMPARISONS = 4
LOOKS = planned(8, 64)


def bounds(pairs: Floats, level: float) -> tuple[Floats, Floats]:
    """Student's interval along the last axis, as `judge` has it."""
    n = pairs.shape[-1]
    reach = stats.t.isf(level / 2, n - 1) * pairs.std(-1, ddof=1) / np.sqrt(n)
    return pairs.mean(-1) - reach, pairs.mean(-1) + reach


def paired(shape: str, random: np.random.Generator, size: tuple[int, ...]) -> Floats:
    """Differences `[..., comparisons, n]` of variants that share their baseline's seeds and its
    shape, and are as good."""
    *studies, comparisons, n = size
    scores = SHAPES[shape](random, (*studies, comparisons + 1, n))
    return scores[..., 1:, :] - scores[..., :1, :]


def spread(shape: str) -> float:
    """Standard deviation of a difference of two runs; of heavy tails, as it is in samples."""
    return float(paired(shape, np.random.default_rng(20), (1, 200_000))[0].std())


def percent(found: NDArray[np.bool_] | Floats | float) -> str:
    return f"{100 * float(np.mean(found)):9.1f}"


def words(trials: int) -> None:
    print("Differences, variants of one shape, percent")
    print("covers: 95% intervals of one difference; equal: studies of 4 equal variants that say a")
    print(
        "false word (better, worse, by any amount); margin: every truth is + or - the margin of 2"
    )
    print("standard deviations, and a study of 4 says equivalent of any; odd: the same where the")
    print("baseline is normal and of half the spread, so that shapes differ\n")
    heads = ("covers", "equal", "margin", "odd equal", "odd margin")
    print(f"{'shape':18} {'n':>3}" + "".join(f"{head:>11}" for head in heads))
    level = LEVEL / COMPARISONS
    for shape, generate in SHAPES.items():
        large = generate(np.random.default_rng(21), (1_000_000,))
        mean, deviation = float(large.mean()), min(float(large.std()), 3.0)
        for n in SEEDS:
            random = np.random.default_rng([21, n])
            same = paired(shape, random, (trials, COMPARISONS, n))
            plain = 0.5 * deviation * random.normal(size=(trials, 1, n))
            odd = generate(random, (trials, COMPARISONS, n)) - mean - plain
            low, high = bounds(same[:, 0], LEVEL)
            numbers = [percent((low <= 0) & (high >= 0))]
            for pairs in (same, odd):
                low, high = bounds(pairs, level)
                numbers.append(percent(np.any((low > 0) | (high < 0), axis=1)))
                numbers.append(percent(_false_at_the_margin(pairs, 2 * deviation, level)))
            print(f"{shape:18} {n:3}" + "".join(f"{one:>11}" for one in numbers), flush=True)


def _false_at_the_margin(pairs: Floats, margin: float, level: float) -> float:
    """Studies that call one equivalent where all are the margin apart, to the worse side."""
    worst = 0.0
    for side in (-1, 1):
        low, high = bounds(pairs + side * margin, level)
        within = (low > -margin) & (high < margin)
        worst = max(worst, float(np.mean(np.any(within, axis=1))))
    return worst


def best(trials: int) -> None:
    print("\nThe mark for the best, at 8 seeds: studies in which a variant that is as good as the")
    print("best loses it, percent; naive: tested against the best at 5% under Holm, as if it had")
    print("been chosen beforehand\n")
    sizes = (4, 8, 16)
    print(f"{'shape':18}" + "".join(f"{f'{k} variants':>14}{'naive':>9}" for k in sizes))
    for shape, generate in SHAPES.items():
        line = f"{shape:18}"
        for k in sizes:
            random = np.random.default_rng([22, k])
            lost, naive = 0, 0
            for rows in generate(random, (trials, k, 8)):
                lost += bool(np.any(not_the_best(rows)))
                chosen = rows[np.argmax(rows.mean(axis=1))]
                others = np.delete(rows, np.argmax(rows.mean(axis=1)), axis=0)
                p = stats.ttest_1samp(others - chosen, 0, axis=1).pvalue
                naive += float(np.nanmin(p)) < LEVEL / (k - 1)
            line += f"{100 * lost / trials:14.1f}{100 * naive / trials:9.1f}"
        print(line, flush=True)


def tasks(trials: int) -> None:
    print(
        "\nTwo tasks with opposite effects of so many margins, and equal ones, at the levels of a"
    )
    print("study of 4 comparisons, margin of 2 standard deviations: share called equivalent over")
    print(
        "all tasks by every task (ours), and by the mean alone, and called disagreeing, percent\n"
    )
    effects = (0.0, 1.0, 3.0)
    heads = "".join(f"{f'{e:g} margins':>13}{'by mean':>9}{'disagree':>10}" for e in effects)
    print(f"{'shape':18} {'n':>3}{heads}")
    each, over = LEVEL / 2 / (2 * COMPARISONS), LEVEL / 2 / COMPARISONS
    for shape in SHAPES:
        margin = 2 * min(spread(shape) / np.sqrt(2), 3.0)
        for n in SEEDS:
            line = f"{shape:18} {n:3}"
            for effect in effects:
                random = np.random.default_rng([23, n])
                pairs = paired(shape, random, (trials, 2, 1, n))[:, :, 0]
                pairs = pairs + effect * margin * np.array([1, -1])[:, None]
                low, high = bounds(pairs, each)
                every = np.all((low > -margin) & (high < margin), axis=1)
                opposed = np.any(low > 0, axis=1) & np.any(high < 0, axis=1)
                low, high = bounds(pairs.mean(axis=1), over)
                line += f"{percent(every):>13}{percent((low > -margin) & (high < margin))}"
                line += f"{percent(opposed):>10}"
            print(line, flush=True)


def seeds(trials: int) -> None:
    print("\nRanges of seeds, of undecided comparisons at 5% / 4: share that holds the number that")
    print("decides with 80%, percent (median low and high end, truth); effect in margins\n")
    effects = (0.0, 0.5, 1.2)
    print(f"{'shape':18} {'n':>3}" + "".join(f"{f'effect {e:g}':>26}" for e in effects))
    level = LEVEL / COMPARISONS
    for shape in SHAPES:
        deviation = spread(shape)
        margin = 0.8 * deviation
        for n in SEEDS:
            line = f"{shape:18} {n:3}"
            for effect in effects:
                random = np.random.default_rng([24, n])
                truth = seeds_for(effect * margin, deviation, margin, level, fewest=n + 1)
                ends = []
                for pairs in paired(shape, random, (4 * trials, 1, n))[:, 0]:
                    moved = pairs + effect * margin
                    low, high = bounds(moved, level)
                    one = Comparison(n, moved.mean(), low, high, level, deviation=moved.std(ddof=1))
                    if verdict(one, margin) == "undecided":
                        found = seeds_to_decide(one, margin)
                        ends.append((found.low or 10**5, found.high or 10**5))
                    if len(ends) == trials:
                        break
                if not ends:
                    line += f"{'never undecided':>26}"
                    continue
                lows, highs = np.transpose(ends)
                held = (lows <= (truth or 10**5)) & ((truth or 10**5) <= highs)
                middle = f"({np.median(lows):.0f}, {np.median(highs):.0f}, {truth})"
                line += f"{percent(held)}{middle:>17}"
            print(line, flush=True)


def looks(trials: int) -> None:
    print(f"\nWords read at planned looks ({', '.join(map(str, LOOKS))} seeds), one comparison at")
    print(
        "5% and at 5% / 4, margin and effect in standard deviations of the differences, margin 1."
    )
    print(
        "false: false words, percent; lean: how far the mean difference that it ends with lies from"
    )
    print("the truth on average, in margins; seeds: used on average; saved: percent of the fixed")
    print(
        "number (in brackets) that decides with 80% or 99%, which takes knowing effect and spread"
    )
    print("beforehand; decided: at all, percent\n")
    effects = (0.0, 0.5, 1.0, 2.0)
    titles = ("false", "lean", "seeds", "saved 80", "saved 99", "decided")
    print(f"{'shape':18}{'of':>3}{'effect':>7}" + "".join(f"{title:>10}" for title in titles))
    for shape in SHAPES:
        deviation = spread(shape)
        for comparisons in (1, COMPARISONS):
            plan = design(LOOKS, LEVEL / comparisons)
            for effect in effects:
                random = np.random.default_rng(25)
                truth = effect * deviation
                pairs = paired(shape, random, (trials, 1, LOOKS[-1]))[:, 0] + truth
                found = _followed(pairs, plan, truth, deviation)
                fixed = [
                    seeds_for(truth, deviation, deviation, LEVEL / comparisons, power)
                    for power in (0.8, 0.99)
                ]
                used = float(found.used.mean())
                saved = [1 - used / one if one else np.nan for one in fixed]
                numbers = [
                    percent(found.false).strip(),
                    f"{(found.means.mean() - truth) / deviation:+.2f}",
                    f"{used:.1f}",
                    *(f"{100 * one:.0f} ({n})" for one, n in zip(saved, fixed, strict=True)),
                    percent(found.decided).strip(),
                ]
                line = f"{shape:18}{comparisons:3}{effect:7g}"
                print(line + "".join(f"{one:>10}" for one in numbers), flush=True)


class Followed(NamedTuple):
    """Of each comparison: whether it said a false word, the seeds it used, whether it was decided,
    and the mean difference that it ended with."""

    false: NDArray[np.bool_]
    used: Floats
    decided: NDArray[np.bool_]
    means: Floats


def _followed(pairs: Floats, plan: Looks, truth: float, margin: float) -> Followed:
    """As `looks.read`, all comparisons at once."""
    open_ = np.ones(len(pairs), bool)
    false = np.zeros(len(pairs), bool)
    used = np.full(len(pairs), plan.seeds[-1], float)
    means = pairs.mean(axis=1)
    for seeds, level in zip(plan.seeds, plan.levels, strict=True):
        low, high = bounds(pairs[:, :seeds], level)
        within = (low > -margin) & (high < margin)
        decided = open_ & (within | (low > 0) | (high < 0))
        wrong = within & (abs(truth) >= margin)
        wrong |= ~within & ((low > 0) & (truth <= 0) | (high < 0) & (truth >= 0))
        wrong |= (low > margin) & (truth <= margin)
        false |= decided & wrong
        used[decided] = seeds
        means[decided] = pairs[decided, :seeds].mean(axis=1)
        open_ &= ~decided
    return Followed(false, used, ~open_, means)


PARTS: dict[str, tuple[Callable[[int], None], int]] = {
    # name: (function, share of the trials)
    "words": (words, 1),
    "best": (best, 8),
    "tasks": (tasks, 1),
    "seeds": (seeds, 20),
    "looks": (looks, 1),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=8_000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    counts = {name: max(1, options.trials // PARTS[name][1]) for name in options.parts}
    print("Trials: " + ", ".join(f"{name} {count}" for name, count in counts.items()) + "\n")
    for name in options.parts:
        function, share = PARTS[name]
        function(max(1, options.trials // share))

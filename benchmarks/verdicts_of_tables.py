"""Measure the error rates of the verdicts of a table, on returns with known truth.

    python benchmarks/verdicts_of_tables.py [--trials N] [--parts verdicts best ...]

Prints, for every shape of returns and 5, 8, 12 and 20 seeds:

- coverage of the interval of a paired difference;
- studies with any false verdict, if variants are equal or exactly the margin apart;
- how often a variant that is as good as the best loses its mark;
- how often "all tasks" hides opposite effects;
- the same with planned stages, and the seeds that early stopping saves;
- the goals that are missed.

coverage_of_intervals.py measures the intervals of scores. Takes a CPU minute;
results/reference/verdicts.txt is the output.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "stats"))

from goals import Goals
from scipy.stats import t as student
from shapes_of_returns import SHAPES

from ablations.stats import LEVEL, seeds_needed
from ablations.stats.interim import Stages, design, planned

Floats = NDArray[np.float64]
SEEDS = (5, 8, 12, 20)
VARIANTS = (4, 8, 16)
COMPARISONS = 4
STAGES = planned(8, 64)


def bounds(pairs: Floats, level: float) -> tuple[Floats, Floats]:
    """Return Student's interval along the last axis, as `of_differences` does."""
    n = pairs.shape[-1]
    reach = student.isf(level / 2, n - 1) * pairs.std(-1, ddof=1) / np.sqrt(n)
    return pairs.mean(-1) - reach, pairs.mean(-1) + reach


def paired(shape: str, random: np.random.Generator, size: tuple[int, ...]) -> Floats:
    """Return differences `[..., comparisons, n]` of equally good variants.

    They share the seeds and the shape of their baseline.
    """
    *studies, comparisons, n = size
    scores = SHAPES[shape](random, (*studies, comparisons + 1, n))
    return scores[..., 1:, :] - scores[..., :1, :]


def spread(shape: str) -> float:
    """Return the standard deviation of a difference of two runs, from samples."""
    return float(paired(shape, np.random.default_rng(20), (1, 200_000))[0].std())


@lru_cache
def moments(shape: str) -> tuple[float, float]:
    """Return the mean of a run's score and its standard deviation, at most 3."""
    large = SHAPES[shape](np.random.default_rng(21), (1_000_000,))
    return float(large.mean()), min(float(large.std()), 3.0)


def odd_pairs(shape: str, random: np.random.Generator, size: tuple[int, ...]) -> Floats:
    """Return differences `[..., comparisons, n]` of equally good variants.

    Their baseline is normal and has half of their spread.
    """
    mean, deviation = moments(shape)
    *studies, _, n = size
    plain = 0.5 * deviation * random.normal(size=(*studies, 1, n))
    return SHAPES[shape](random, size) - mean - plain


def percent(found: NDArray[np.bool_] | Floats | float) -> float:
    return 100 * float(np.mean(found))


def row(start: str, numbers: list[float], width: int = 11) -> None:
    print(start + "".join(f"{one:{width}.1f}" for one in numbers), flush=True)


def verdicts(trials: int, goals: Goals) -> None:
    print("Differences, variants of one shape, percent")
    print("covers: 95% intervals of one difference; equal: studies of 4 equal variants that say a")
    print("false verdict (better or worse); margin: every truth is + or - the margin of")
    print("2 standard deviations, and a study of 4 says equivalent of any; odd: the same where the")
    print("baseline is normal and of half the spread, so that shapes differ\n")
    heads = ("covers", "equal", "margin", "odd equal", "odd margin")
    print(f"{'shape':18} {'n':>3}" + "".join(f"{head:>11}" for head in heads))
    level = LEVEL / COMPARISONS
    for shape in SHAPES:
        deviation = moments(shape)[1]
        for n in SEEDS:
            random = np.random.default_rng([21, n])
            same = paired(shape, random, (trials, COMPARISONS, n))
            odd = odd_pairs(shape, random, (trials, COMPARISONS, n))
            low, high = bounds(same[:, 0], LEVEL)
            numbers = [percent((low <= 0) & (high >= 0))]
            for pairs in (same, odd):
                low, high = bounds(pairs, level)
                numbers.append(percent(np.any((low > 0) | (high < 0), axis=1)))
                numbers.append(100 * _false_at_the_margin(pairs, 2 * deviation, level))
            row(f"{shape:18} {n:3}", numbers)
            where = f"{shape}, {n} seeds"
            goals.add("an interval of one difference covers", 93, 97, numbers[0], where, trials)
            for shapes, of in (("one shape", numbers[1:3]), ("another shape", numbers[3:])):
                for what, number in zip(("better or worse", "equivalent"), of, strict=True):
                    goals.add(f"a study says a false {what}; {shapes}", 0, 5, number, where, trials)


def _false_at_the_margin(pairs: Floats, margin: float, level: float) -> float:
    """Return the share of studies with a false *equivalent*, for the worse sign of the margin."""
    worst = 0.0
    for side in (-1, 1):
        low, high = bounds(pairs + side * margin, level)
        within = (low > -margin) & (high < margin)
        worst = max(worst, float(np.mean(np.any(within, axis=1))))
    return worst


def best(trials: int, goals: Goals) -> None:
    print(
        "\nThe mark for the best: studies of so many variants in which one that is as good as the"
    )
    print("best loses it, percent; naive: tested against the best at 5%, shared by Bonferroni, as")
    print("if it had been chosen beforehand\n")
    heads = "".join(f"{f'{k} variants':>13}{'naive':>8}" for k in VARIANTS)
    print(f"{'shape':18} {'n':>3}{heads}")
    for shape, generate in SHAPES.items():
        for n in SEEDS:
            line = f"{shape:18} {n:3}"
            for k in VARIANTS:
                studies = generate(np.random.default_rng([22, k, n]), (trials, k, n))
                lost = percent(loses_the_mark(studies, LEVEL))
                chosen = studies.mean(axis=2).argmax(axis=1)[:, None, None]
                off = studies - np.take_along_axis(studies, chosen, axis=1)
                _, high = bounds(off, LEVEL / (k - 1))
                line += f"{lost:13.1f}{percent(np.any(high < 0, axis=1)):8.1f}"
                where = f"{shape}, {k} variants, {n} seeds"
                goals.add("an equal loses the mark for the best", 0, 5, lost, where, trials)
            print(line, flush=True)


def loses_the_mark(studies: Floats, level: float) -> NDArray[np.bool_]:
    """Return in which studies `[..., k, n]` a variant loses its mark, as `not_the_best` does."""
    first, second = np.triu_indices(studies.shape[-2], 1)
    low, high = bounds(studies[..., first, :] - studies[..., second, :], level / len(first))
    return np.any((low > 0) | (high < 0), axis=-1)


def tasks(trials: int, goals: Goals) -> None:
    print("\nTwo tasks with opposite effects of so many margins, and equal ones, at the levels of")
    print("a study of 4 comparisons, margin of 2 standard deviations: share called equivalent over")
    print("all tasks by every task (ours), and by the mean alone, and called disagreeing, percent;")
    print("half: one task is a margin away, and the other not at all\n")
    effects = {"0": (0, 0), "half": (1, 0), "1": (1, -1), "3": (3, -3)}
    heads = "".join(f"{name + ' margins':>15}{'mean':>7}{'disagree':>9}" for name in effects)
    print(f"{'shape':18} {'n':>3}{heads}")
    each, over = LEVEL / 2 / (2 * COMPARISONS), LEVEL / 2 / COMPARISONS
    for shape in SHAPES:
        margin = 2 * min(spread(shape) / np.sqrt(2), 3.0)
        for n in SEEDS:
            line = f"{shape:18} {n:3}"
            for effect in effects.values():
                random = np.random.default_rng([23, n])
                pairs = paired(shape, random, (trials, 2, 1, n))[:, :, 0]
                pairs = pairs + margin * np.array(effect)[:, None]
                low, high = bounds(pairs, each)
                every = percent(np.all((low > -margin) & (high < margin), axis=1))
                opposed = percent(np.any(low > 0, axis=1) & np.any(high < 0, axis=1))
                low, high = bounds(pairs.mean(axis=1), over)
                mean = percent((low > -margin) & (high < margin))
                line += f"{every:15.1f}{mean:7.1f}{opposed:9.1f}"
                where = f"{shape}, {n} seeds"
                if any(effect):
                    text = "all tasks is falsely called equivalent"
                    goals.add(text, 0, 5, every, where, trials)
                if min(effect) >= 0:
                    text = "all tasks are falsely said to disagree"
                    goals.add(text, 0, 5, opposed, where, trials)
            print(line, flush=True)


def stages(trials: int, goals: Goals) -> None:
    print(
        f"\nVerdicts read at planned stages ({', '.join(map(str, STAGES))} seeds), one comparison"
    )
    print(
        "at 5% and at 5% / 4, margin and effect in standard deviations of the differences, margin 1"
    )
    print("false: false verdicts, percent; covers: the interval that it ends with holds the truth;")
    print("lean: how far the mean difference that it ends with lies from the truth on average, in")
    print("margins; seeds: used on average; saved: percent of the fixed number (in brackets) that")
    print("decides with 80% or 99%, which takes knowing effect and spread beforehand; decided: at")
    print("all, percent\n")
    effects = (0.0, 0.5, 1.0, 2.0)
    titles = ("false", "covers", "lean", "seeds", "saved 80", "saved 99", "decided")
    print(f"{'shape':18}{'of':>3}{'effect':>7}" + "".join(f"{title:>10}" for title in titles))
    for shape in SHAPES:
        deviation = spread(shape)
        for comparisons in (1, COMPARISONS):
            plan = design(STAGES, LEVEL / comparisons)
            for effect in effects:
                random = np.random.default_rng(25)
                truth = effect * deviation
                pairs = paired(shape, random, (trials, 1, STAGES[-1]))[:, 0] + truth
                found = _followed(pairs, plan, truth, deviation)
                fixed = [
                    seeds_needed(truth, deviation, deviation, LEVEL / comparisons, power)
                    for power in (0.8, 0.99)
                ]
                used = float(found.used.mean())
                saved = [1 - used / seeds for seeds in fixed]
                false, covers = percent(found.false), percent(found.covers)
                numbers = [
                    f"{false:.1f}",
                    f"{covers:.1f}",
                    f"{(found.means.mean() - truth) / deviation:+.2f}",
                    f"{used:.1f}",
                    *(f"{100 * one:.0f} ({n:.0f})" for one, n in zip(saved, fixed, strict=True)),
                    f"{percent(found.decided):.1f}",
                ]
                line = f"{shape:18}{comparisons:3}{effect:7g}"
                print(line + "".join(f"{one:>10}" for one in numbers), flush=True)
                where = f"{shape}, effect {effect:g}, one of {comparisons}"
                goals.add("stages: a verdict is false", 0, 5, false, where, trials)
                if comparisons == 1:
                    text = "stages: the interval that decides covers"
                    goals.add(text, 93, 100, covers, where, trials)
    _studies_at_stages(trials, goals)


def _studies_at_stages(trials: int, goals: Goals) -> None:
    print("\nWhole studies at the same stages, percent. equal, margin: a study of 4 variants that")
    print(
        "are equal, or all + or - the margin of 1 apart, gives a false verdict; odd: the same where"
    )
    print("the baseline is normal and of half the spread; best: one of 4 equal variants loses the")
    print("mark at any stage; all tasks: one task is a margin better, one worse, and all tasks are")
    print("called equivalent\n")
    heads = ("equal", "margin", "odd equal", "odd margin", "best", "all tasks")
    print(f"{'shape':18}" + "".join(f"{head:>11}" for head in heads))
    plan = design(STAGES, LEVEL / COMPARISONS)
    marks = design(STAGES, LEVEL)
    each = design(STAGES, LEVEL / 2 / (2 * COMPARISONS))
    for shape, generate in SHAPES.items():
        deviation = spread(shape)
        random = np.random.default_rng(26)
        pairs = paired(shape, random, (trials, COMPARISONS, STAGES[-1]))
        odd = odd_pairs(shape, random, (trials, COMPARISONS, STAGES[-1]))
        numbers = []
        for found, apart in ((pairs, deviation), (odd, float(odd.std()))):
            for effects in ((0.0,), (apart, -apart)):
                worst = 0.0
                for effect in effects:
                    flat = found.reshape(-1, STAGES[-1]) + effect
                    false = _followed(flat, plan, effect, apart).false.reshape(trials, -1)
                    worst = max(worst, percent(np.any(false, axis=1)))
                numbers.append(worst)
        studies = generate(random, (trials // 4, 4, STAGES[-1]))
        lost = [loses_the_mark(studies[..., : stage.seeds], stage.level) for stage in marks]
        numbers.append(percent(np.any(lost, axis=0)))
        two = paired(shape, random, (trials, 2, 1, STAGES[-1]))[:, :, 0]
        opposite = [
            _followed(two[:, task] + side * deviation, each, side * deviation, deviation).equivalent
            for task, side in enumerate((1, -1))
        ]
        numbers.append(percent(np.all(opposite, axis=0)))
        row(f"{shape:18}", numbers)
        for shapes, of in (("one shape", numbers[:2]), ("another shape", numbers[2:4])):
            for what, number in zip(("better or worse", "equivalent"), of, strict=True):
                text = f"stages: a false {what}; {shapes}"
                goals.add(text, 0, 5, number, shape, trials)
        lost_mark, equivalent = numbers[4:]
        goals.add("stages: an equal loses the mark", 0, 5, lost_mark, shape, len(studies))
        goals.add("stages: all tasks is falsely equivalent", 0, 5, equivalent, shape, trials)


class Followed(NamedTuple):
    """Outcomes of comparisons.

    Whether the verdict is false or *equivalent*, whether the last interval covers the truth, the
    used seeds, whether the comparison was decided, and the last mean difference.
    """

    false: NDArray[np.bool_]
    equivalent: NDArray[np.bool_]
    covers: NDArray[np.bool_]
    used: Floats
    decided: NDArray[np.bool_]
    means: Floats


def _followed(pairs: Floats, plan: Stages, truth: float, margin: float) -> Followed:
    """Do `interim.read` for all comparisons in one array."""
    open_ = np.ones(len(pairs), bool)
    false, equivalent, covers = (np.zeros(len(pairs), bool) for _ in range(3))
    used = np.full(len(pairs), plan.seeds[-1], float)
    means = pairs.mean(axis=1)
    for seeds, level in zip(plan.seeds, plan.levels, strict=True):
        low, high = bounds(pairs[:, :seeds], level)
        within = (low > -margin) & (high < margin)
        decided = open_ & (within | (low > 0) | (high < 0))
        wrong = within & (abs(truth) >= margin)
        wrong |= ~within & ((low > 0) & (truth <= 0) | (high < 0) & (truth >= 0))
        false |= decided & wrong
        equivalent |= decided & within
        ends = open_ if seeds == plan.seeds[-1] else decided
        covers |= ends & (low <= truth) & (truth <= high)
        used[decided] = seeds
        means[decided] = pairs[decided, :seeds].mean(axis=1)
        open_ &= ~decided
    return Followed(false, equivalent, covers, used, ~open_, means)


PARTS: dict[str, tuple[Callable[[int, Goals], None], int]] = {
    # name: (function, share of the trials)
    "verdicts": (verdicts, 1),
    "best": (best, 4),
    "tasks": (tasks, 1),
    "stages": (stages, 1),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=12_000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    counts = {name: max(4, options.trials // PARTS[name][1]) for name in options.parts}
    print("Trials: " + ", ".join(f"{name} {count}" for name, count in counts.items()) + "\n")
    goals = Goals()
    for name, count in counts.items():
        PARTS[name][0](count, goals)
    goals.print()

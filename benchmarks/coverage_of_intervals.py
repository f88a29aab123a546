"""How often the statistics of `ablations.report.statistics` are right, on returns with known truth.

    python benchmarks/coverage_of_intervals.py [--trials N]

Prints, per shape of returns and number of seeds: coverage and width of 95% intervals of an IQM,
ours beside the alternatives, and of a mean; coverage of aggregates over tasks and of the
probability of improvement; false alarms of tests on paired differences; and last what misses its
goal from 5 seeds up. What a table makes of them is in verdicts_of_tables.py. Five CPU minutes
at 6,000 trials, where ours has a standard error of 0.3%. Its output is
results/reference/statistics.txt.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "report"))

from goals import Goals
from shapes_of_returns import SHAPES

from ablations.report.statistics import (
    aggregate_interval,
    interval,
    iqm,
    probability_of_improvement,
)

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]
SEEDS = (2, 3, 4, 5, 8, 12, 20, 50)
REPLICATES = 2_000


def winsorised_error(scores: Floats) -> Floats:
    """Standard error of the 25% trimmed mean (Yuen 1974): `[..., n]` -> `[...]`."""
    ordered = np.sort(scores, axis=-1)
    n = ordered.shape[-1]
    drop = n // 4
    if drop:
        ordered[..., :drop] = ordered[..., drop : drop + 1]
        ordered[..., n - drop :] = ordered[..., n - drop - 1 : n - drop]
    left = n - 2 * drop
    return ordered.std(axis=-1, ddof=1) * np.sqrt((n - 1) / (left * (left - 1)))


def tukey_mclaughlin(scores: Floats) -> Bounds:
    """Trimmed t with n - 2 floor(n / 4) - 1 degrees of freedom."""
    n = scores.shape[-1]
    reach = stats.t.ppf(0.975, n - 2 * (n // 4) - 1) * winsorised_error(scores)
    return iqm(scores) - reach, iqm(scores) + reach


def percentile(scores: Floats) -> Bounds:
    """The plain percentile bootstrap."""
    n = scores.shape[-1]
    index = np.random.default_rng(n).integers(0, n, (REPLICATES, n))
    bounds = [np.quantile(iqm(row[index]), (0.025, 0.975)) for row in scores]
    low, high = np.transpose(bounds)
    return low, high


def bootstrap_t(scores: Floats) -> Bounds:
    """Bootstrap of the studentised trimmed mean; infinite where a resample has no spread."""
    n = scores.shape[-1]
    index = np.random.default_rng(n).integers(0, n, (REPLICATES, n))
    bounds = []
    for row in scores:
        center, again = iqm(row), row[index]
        off = iqm(again) - center
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(off == 0, 0.0, off / winsorised_error(again))
        low, high = np.quantile(t, (0.025, 0.975), method="inverted_cdf")
        error = winsorised_error(row)
        bounds.append((center - high * error, center - low * error))
    left, right = np.transpose(bounds)
    return left, right


def ours(scores: Floats) -> Bounds:
    return interval(scores, replicates=REPLICATES)


METHODS: dict[str, tuple[Callable[[Floats], Bounds], int, int]] = {
    # name: (function, fewest seeds, share of the trials)
    "ours": (ours, 2, 1),
    "percentile": (percentile, 5, 4),
    "trimmed t": (tukey_mclaughlin, 5, 1),
    "bootstrap-t": (bootstrap_t, 8, 8),
}


def mean_t(scores: Floats) -> Bounds:
    reach = stats.t.ppf(0.975, scores.shape[-1] - 1) * stats.sem(scores, axis=-1)
    return scores.mean(-1) - reach, scores.mean(-1) + reach


def means(trials: int, goals: Goals) -> None:
    print("\n95% intervals of a mean: coverage in percent (median width); ours, and Student's t\n")
    print(f"{'shape':18} {'n':>3}{'ours':>18}{'t':>18}")
    for shape, generate in SHAPES.items():
        random = np.random.default_rng(17)
        truth = float(np.mean(generate(random, (4_000_000,))))
        for n in SEEDS:
            scores = generate(random, (trials, n))
            line = f"{shape:18} {n:3}"
            for who, (low, high) in {
                "ours": interval(scores, "mean", replicates=REPLICATES),
                "t": mean_t(scores),
            }.items():
                hit = 100 * float(np.mean((low <= truth) & (truth <= high)))
                line += f"{hit:9.1f} ({np.median(high - low):6.2f})"
                if who == "ours" and n >= 5:
                    goals.add("the interval of a mean", 93, 97, hit, f"{shape}, {n} seeds", trials)
            print(line, flush=True)


def coverage(trials: int, goals: Goals) -> None:
    print("95% intervals of an IQM: coverage in percent (median width)\n")
    print(f"{'shape':18} {'n':>3}" + "".join(f"{name:>18}" for name in METHODS))
    for shape, generate in SHAPES.items():
        random = np.random.default_rng(11)
        truth = stats.trim_mean(generate(random, (2_000_000,)), 0.25)
        for n in SEEDS:
            scores = generate(random, (trials, n))
            line = f"{shape:18} {n:3}"
            # Below 4 seeds nothing is trimmed: the estimate, and so the truth, is the mean.
            target = truth if n >= 4 else float(np.mean(generate(random, (2_000_000,))))
            for name, (method, fewest, share) in METHODS.items():
                if n < fewest:
                    line += f"{'':>18}"
                    continue
                low, high = method(scores[: trials // share])
                hit = 100 * float(np.mean((low <= target) & (target <= high)))
                line += f"{hit:9.1f} ({np.median(high - low):6.2f})"
                if name == "ours" and n >= 5:
                    where = f"{shape}, {n} seeds"
                    goals.add("the interval of an IQM", 93, 97, hit, where, trials)
            print(line.rstrip(), flush=True)


def aggregates(trials: int, goals: Goals) -> None:
    print("\n95% intervals of aggregates over tasks of one shape: coverage in percent")
    print("task IQM: mean of the tasks' IQMs; plain: the same without widened levels\n")
    names = ("task_iqm", "plain", "iqm", "mean", "optimality_gap")
    print(f"{'shape':18} {'tasks':>5} {'n':>3}" + "".join(f"{name:>16}" for name in names))
    for shape, generate in SHAPES.items():
        random = np.random.default_rng(13)
        large = generate(random, (400_000,))
        for tasks, n in ((2, 8), (5, 8), (2, 20), (5, 20)):
            levels = np.arange(tasks)[:, None]
            whole = (large + levels).ravel()
            truths = {
                "task_iqm": stats.trim_mean(large, 0.25) + (tasks - 1) / 2,
                "iqm": stats.trim_mean(whole, 0.25),
                "mean": whole.mean(),
                "optimality_gap": 1 - np.minimum(whole, 1).mean(),
            }
            truths["plain"] = truths["task_iqm"]
            hits = dict.fromkeys(names, 0)
            for scores in generate(random, (trials, tasks, n)):
                rows = list(scores + levels)
                for name in names:
                    plain = name == "plain"
                    low, high = aggregate_interval(
                        rows, "task_iqm" if plain else name, replicates=600, widened=not plain
                    )
                    hits[name] += low <= truths[name] <= high
            text = "".join(f"{100 * hits[name] / trials:16.1f}" for name in names)
            for name in ("task_iqm", "iqm", "mean", "optimality_gap"):
                what, where = f"over tasks: {name}", f"{shape}, {tasks} tasks, {n} seeds"
                goals.add(what, 93, 97, 100 * hits[name] / trials, where, trials)
            print(f"{shape:18} {tasks:5} {n:3}{text}", flush=True)


def improvements(trials: int, goals: Goals) -> None:
    print(
        "\n95% intervals of the probability that a variant scores above its baseline, both of one"
    )
    print("shape: coverage in percent, by the truth; score: ours; bootstrap: rliable's\n")
    shifts = (0.0, 1.0, 2.0, 3.0)
    heads = "".join(f"{f'+{shift:g} sd':>22}" for shift in shifts)
    print(f"{'':22}{heads}\n{'shape':18} {'n':>3}" + f"{'truth score bootstrap':>22}" * len(shifts))
    for shape, generate in SHAPES.items():
        large = generate(np.random.default_rng(15), (2, 4_000))
        spread = min(float(large.std()), 3.0)
        for n in (5, 8, 20):
            line = f"{shape:18} {n:3}"
            for shift in shifts:
                random = np.random.default_rng(15)
                above = np.sign(large[0, :, None] + shift * spread - large[1]) / 2 + 0.5
                truth = float(above.mean())
                hits = np.zeros(2)
                for scores in generate(random, (trials, 2, 1, n)):
                    x, y = [scores[0, 0] + shift * spread], [scores[1, 0]]
                    for place, method in enumerate(("score", "bootstrap")):
                        _, low, high = probability_of_improvement(
                            x, y, method=method, replicates=600
                        )
                        hits[place] += low <= truth <= high
                score, bootstrap = 100 * hits / trials
                line += f"{truth:10.2f} {score:5.1f} {bootstrap:5.1f}"
                where = f"{shape}, {n} seeds, +{shift:g} sd"
                goals.add("the probability of improvement", 93, 100, score, where, trials)
            print(line.rstrip(), flush=True)


def false_alarms(trials: int) -> None:
    print("\nTests on paired differences where there is none: false alarms in percent")
    print("same shape: variant and baseline share it; unequal: normal baseline of half its spread")
    print(
        f"{'':18} {'':>3} |{'same shape':^27}|{'unequal':^18}\n"
        f"{'shape':18} {'n':>3} |{'t 5%':>9}{'t .5%':>9}{'trimmed':>9}|{'t 5%':>9}{'t .5%':>9}"
    )
    for shape, generate in SHAPES.items():
        random = np.random.default_rng(12)
        large = generate(random, (2_000_000,))
        mean, spread = float(large.mean()), min(float(large.std()), 3.0)
        for n in (5, 8, 12, 20, 50):
            same = generate(random, (trials, n)) - generate(random, (trials, n))
            unequal = generate(random, (trials, n)) - mean
            unequal -= 0.5 * spread * random.normal(size=(trials, n))
            p_same, p_unequal = (t_test(pairs) for pairs in (same, unequal))
            with np.errstate(divide="ignore", invalid="ignore"):
                t = np.abs(iqm(same)) / winsorised_error(same)
            trimmed = 2 * stats.t.sf(t, n - 2 * (n // 4) - 1)
            numbers = [np.mean(p_same < 0.05), np.mean(p_same < 0.005), np.mean(trimmed < 0.05)]
            numbers += [np.mean(p_unequal < 0.05), np.mean(p_unequal < 0.005)]
            text = [f"{100 * number:9.1f}" for number in numbers]
            print(f"{shape:18} {n:3} |{''.join(text[:3])}|{''.join(text[3:])}")


def t_test(pairs: Floats) -> Floats:
    n = pairs.shape[-1]
    t = pairs.mean(-1) / (pairs.std(-1, ddof=1) / np.sqrt(n))
    return 2 * stats.t.sf(np.abs(t), n - 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=6_000)
    trials = parser.parse_args().trials
    goals = Goals()
    coverage(trials, goals)
    means(trials, goals)
    aggregates(trials // 4, goals)
    improvements(trials // 20, goals)
    false_alarms(10 * trials)
    goals.print()

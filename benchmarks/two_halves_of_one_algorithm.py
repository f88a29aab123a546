"""Measure how often our table calls two random halves of one algorithm different, on public runs.

    python benchmarks/two_halves_of_one_algorithm.py PATH [--trials N]

PATH is the folder `data` of github.com/flowersteam/rl_stats (Colas et al. 2019, "A hitchhiker's
guide to statistical comparisons of reinforcement learning algorithms"). It has the evaluation
returns of SAC and TD3 on HalfCheetah, 192 and 193 whole runs. Between n runs and n others of one
algorithm, every difference is false. Between n runs of SAC and n of TD3, the order of all runs is
the truth. The page also has other methods on the same runs. Takes some CPU minutes and writes
two_halves.md and two_halves.svg into results/reference.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, sem, ttest_ind

from ablations.curve import Curve
from ablations.figures.style import COLORS, INK, Group, Look, applied, line_key, panels, write
from ablations.scoring import final, learned_range
from ablations.stats import LEVEL, Difference, decide, of_differences, paired
from ablations.stats.interim import design, planned, read
from ablations.tables.formats import pipes

Floats = NDArray[np.float64]
Runs = tuple[Floats, Floats]  # curves [runs, points], final scores [runs]
REPORT = Path("results/reference/two_halves.md")
SEEDS = (5, 8, 10, 20)
MARGIN = 0.05  # of what the second group learned, as in our studies
STAGES = design(planned(8, 64), LEVEL)
OURS, WELCH, RANKS, ERRORS = "our table", "Welch, 5%", "Mann-Whitney, 5%", "standard errors apart"


def runs_of(path: Path, name: str) -> Runs:
    """Return the runs of an algorithm that have all of their evaluations."""
    curves = np.loadtxt(path / f"{name}_hc_all_perfs.txt").T
    whole = curves[np.isfinite(curves).all(axis=1)]
    steps = np.arange(1, whole.shape[1] + 1)
    return whole, np.array([final(steps, curve) for curve in whole])


def margin_of(curves: Floats) -> float:
    """Return the margin, NaN if the curves do not rise."""
    steps = np.arange(1, curves.shape[1] + 1)
    low, high = learned_range([Curve(steps, row) for row in curves])
    return MARGIN * (high - low)


def judge(result: Difference, margin: float) -> str:
    return decide(result.low, result.high, margin)


# What each says of two groups: above 0 where the first is better, below where it is worse, or 0


def sign(word: str) -> int:
    return (word == "better") - (word == "worse")


def welch(first: Floats, second: Floats) -> int:
    found = ttest_ind(first, second, equal_var=False)
    return int(np.sign(found.statistic)) if found.pvalue < LEVEL else 0


def mann_whitney(first: Floats, second: Floats) -> int:
    found = mannwhitneyu(first, second)
    above = found.statistic - len(first) * len(second) / 2
    return int(np.sign(above)) if found.pvalue < LEVEL else 0


def standard_errors(first: Floats, second: Floats) -> int:
    """Compare error bars of one standard error, as readers of a figure do."""
    apart = abs(first.mean() - second.mean()) > sem(first) + sem(second)
    return int(np.sign(first.mean() - second.mean())) if apart else 0


OTHERS: dict[str, Callable[[Floats, Floats], int]] = {
    WELCH: welch,
    RANKS: mann_whitney,
    ERRORS: standard_errors,
}
Counts = dict[str, list[str | int]]  # what each said, draw by draw


def draws(one: Runs, other: Runs, n: int, trials: int, random: np.random.Generator) -> Counts:
    """Draw n runs of each without replacement; if one is other, two halves of 2 n of its runs."""
    said: Counts = {name: [] for name in (OURS, *OTHERS)}
    for _ in range(trials):
        first, second, curves = _drawn(one, other, n, random)
        margin = margin_of(curves)
        said[OURS].append(judge(paired(first, second), margin))
        for name, sign_of in OTHERS.items():
            said[name].append(sign_of(first, second))
    return said


def until_decided(
    one: Runs, other: Runs, trials: int, random: np.random.Generator
) -> tuple[list[str], list[int]]:
    """Return our verdicts and seeds per side, if seeds are added in planned stages."""
    said, used = [], []
    for _ in range(trials):
        first, second, curves = _drawn(one, other, STAGES.seeds[-1], random)
        margin = margin_of(curves[: STAGES.seeds[0]])

        def at(seeds: int, level: float, pairs: Floats = first - second) -> Difference:
            return of_differences(pairs[:seeds], level)

        def decided(result: Difference, margin: float = margin) -> bool:
            return judge(result, margin) != "inconclusive"

        result = read(STAGES, len(first), at, decided)
        assert result is not None
        said.append(judge(result, margin))
        used.append(result.n)
    return said, used


def _drawn(
    one: Runs, other: Runs, n: int, random: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return scores of both groups, and the curves of the second."""
    if one is other:
        places = random.permutation(len(one[1]))
        first, second = places[:n], places[n : 2 * n]
    else:
        first, second = (random.permutation(len(runs[1]))[:n] for runs in (one, other))
    return one[1][first], other[1][second], other[0][second]


def share(said: Sequence[str | int], wanted: Callable[[int], bool]) -> float:
    signs = (sign(one) if isinstance(one, str) else one for one in said)
    return float(np.mean([wanted(one) for one in signs]))


def _equivalent(words: Sequence[object]) -> str:
    return f"{100 * np.mean([word == 'equivalent' for word in words]):.1f}%"


def main(path: Path, trials: int) -> None:
    sac, td3 = runs_of(path, "sac"), runs_of(path, "td3")
    above = int(np.sign(sac[1].mean() - td3[1].mean()))
    asked: list[tuple[Runs, Runs, dict[str, Callable[[int], bool]]]] = [
        (sac, sac, {"two halves of SAC: different": lambda s: s != 0}),
        (td3, td3, {"two halves of TD3: different": lambda s: s != 0}),
        (
            sac,
            td3,
            {
                "SAC and TD3: wrong order": lambda s: s == -above,
                "SAC and TD3: right order": lambda s: s == above,
            },
        ),
    ]
    lines: list[list[str]] = []
    shares: dict[str, dict[str, list[float]]] = {}
    for number, (one, other, questions) in enumerate(asked):
        said = {n: draws(one, other, n, trials, np.random.default_rng([number, n])) for n in SEEDS}
        words, used = until_decided(
            one, other, max(1, trials // 4), np.random.default_rng([number, 0])
        )
        for question, wanted in questions.items():
            found = {name: [share(said[n][name], wanted) for n in SEEDS] for name in said[5]}
            shares[question] = found
            for place, n in enumerate(SEEDS):
                shown = [f"{100 * values[place]:.1f}%" for values in found.values()]
                lines.append([question, str(n), *shown, _equivalent(said[n][OURS])])
            mean = f"8 to 64 ({np.mean(used):.1f})"
            ours = f"{100 * share(words, wanted):.1f}%"
            lines.append([question, mean, ours, "", "", "", _equivalent(words)])
            print("\n".join(" | ".join(line) for line in lines[-len(SEEDS) - 1 :]), flush=True)
    head = ["question", "n", OURS, *OTHERS, "ours: equivalent"]
    facts = {
        "trials": f"{trials:,}",
        "fewer": f"{max(1, trials // 4):,}",
        "sac": len(sac[1]),
        "td3": len(td3[1]),
        "means": f"{sac[1].mean():,.0f} and {td3[1].mean():,.0f}",
        "spreads": f"{sac[1].std(ddof=1):,.0f} and {td3[1].std(ddof=1):,.0f}",
    }
    text = TEXT.format(**facts)
    REPORT.write_text(f"{text}\n\n{pipes(head, lines)}\n")
    with applied():
        write(drawn(shares), REPORT.with_suffix(""), ["svg"])
    print(REPORT)


def drawn(shares: dict[str, dict[str, list[float]]]) -> Figure:
    errors = [of for question, of in shares.items() if not question.endswith("right order")]
    most = max(LEVEL, *(value for of in errors for values in of.values() for value in values))
    names = (OURS, *OTHERS)
    looks = [Look(INK), *(Look(color) for color in COLORS)]
    keys = [line_key(name, look) for name, look in zip(names, looks, strict=False)]
    titles = [question.replace(": ", ":\n") for question in shares]
    figure, (axes,) = panels([Group(titles, keys, "runs of each")], 6.75, 1.9)
    for here, (question, found) in zip(axes, shares.items(), strict=True):
        right = question.endswith("right order")
        if not right:
            here.axhline(LEVEL, color="0.6", linewidth=0.8)
        for name, look in zip(names, looks, strict=False):
            here.plot(found[name], color=look.color, linewidth=2 if name == OURS else 1.2)
        here.set_xticks(range(len(SEEDS)), [str(n) for n in SEEDS])
        here.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        here.set_ylim(0, 1 if right else 1.1 * most)
    return figure.about("Two halves of one algorithm", "How often a difference is found.")


TEXT = """\
# False differences on public runs

`benchmarks/two_halves_of_one_algorithm.py` made this page from the public runs of
github.com/flowersteam/rl_stats: the evaluation returns of {sac} SAC and {td3} TD3 runs on
HalfCheetah that have all of their evaluations. The score is the mean over the last tenth of
training. The means of all runs are {means}, the standard deviations {spreads}.

- Each row draws two groups of n runs without replacement, {trials} times.
- *two halves: different*: how often two groups of one algorithm are called better or worse. 5% is
  the stated error rate of every method except standard errors.
- *wrong order*, *right order*: how often SAC and TD3 are ordered so, compared with their means over
  all runs.
- *our table*: the verdict of a table with one comparison and a margin of 5% of what the second
  group learned. Runs are paired at random, because they share no seeds.
- *8 to 64*: the same with seeds added in stages until the comparison is decided, {fewer} times. The
  mean number of seeds is in parentheses.
- *standard errors apart*: error bars of one standard error do not overlap."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--trials", type=int, default=2_000)
    options = parser.parse_args()
    main(options.path, options.trials)

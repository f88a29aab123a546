"""Error rates, power and cost of many gates and ledgers.

    python benchmarks/gate_errors.py --runs sac.txt --runs td3.txt [--jobs 2]

writes results/reference/gate_errors.md. The exit code is 1 if an error rate is above 1.2 times the
stated rate, or if the power is below its promise. `--runs` are files with one final score per line.
The committed table uses the 192 SAC and 193 TD3 runs of github.com/flowersteam/rl_stats
(data/*_final_perfs.txt). The runs of Stable-Baselines3's PPO are in results/reference/examples.

Scores are simulated (normal, with the deviation of TD3's runs: 15% of the learned range) or drawn
from stored runs, whose mean is the learned range. A change with a gain or loss shifts the scores of
a change without one. Gates are vectorised over arrays with the product's levels and chances.
`require_the_product_s_outcomes` compares some of them with the product's own functions.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import beta, norm
from scipy.stats import t as student

from ablations.gate import question as gate
from ablations.gate.early import chance_to_pass
from ablations.gate.ledger import budget_level
from ablations.scoring import final
from ablations.stats import paired as paired_difference
from ablations.stats import welch
from ablations.stats.interim import Stages, design, planned

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], tuple[Floats, Floats]]

OUT = Path(__file__).parents[1] / "results" / "reference" / "gate_errors.md"
RUNS = OUT.parent / "examples" / "sb3_cartpole_runs.csv"
GATES, NIGHTS_OF_LEDGERS, CANDIDATES = 2000, 300, 50
ALLOWED = 1.2
MARGIN = 0.1  # of the learned range
OUTCOMES = ("undecided", "pass", "fail", "futile")
UNDECIDED, PASS, FAIL, FUTILE = range(4)


@dataclass(frozen=True)
class Kind:
    """draw returns scores of change and baseline, of equal shape; unit: the learned range."""

    name: str
    draw: Draw
    unit: float = 1.0


def normal(pair: float) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        shared = np.sqrt(pair) * rng.normal(size=shape)
        ours, theirs = (shared + np.sqrt(1 - pair) * rng.normal(size=shape) for _ in range(2))
        return 1 + 0.15 * ours, 1 + 0.15 * theirs

    return draw


def resampled(runs: Floats) -> Draw:
    return lambda rng, shape: (rng.choice(runs, shape), rng.choice(runs, shape))


def stored(path: Path) -> dict[str, Floats]:
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


def kinds(files: Sequence[Path]) -> list[Kind]:
    found = [Kind("normal, pair 0.5", normal(0.5)), Kind("normal, pair 0", normal(0.0))]
    scores = {path.stem.split("_")[0].upper(): np.loadtxt(path) for path in files}
    if RUNS.exists():
        scores["SB3 PPO"] = stored(RUNS)["learning_rate=0.0003"]
    for name, runs in scores.items():
        found.append(Kind(f"{name}, {len(runs)} stored", resampled(runs), float(runs.mean())))
    return found


# Gates, many at once


@dataclass(frozen=True)
class Asked:
    """Settings of many gates; the margin is in score units."""

    margin: float
    better: bool
    paired: bool
    futility: float = gate.FUTILITY
    rate: float = gate.RATE
    pass_rate: float = gate.RATE


@lru_cache(maxsize=256)
def designs(rate: float) -> Stages:
    return design(planned(gate.FIRST_SEEDS, gate.MOST_SEEDS), 2 * rate)


def interval(
    ours: Floats, theirs: Floats, paired: bool, below: float, above: float
) -> tuple[Floats, Floats]:
    n = ours.shape[1]
    center = ours.mean(axis=1) - theirs.mean(axis=1)
    if paired:
        error = (ours - theirs).std(axis=1, ddof=1) / np.sqrt(n)
        freedom = np.full(len(center), n - 1.0)
    else:
        parts = [side.var(axis=1, ddof=1) / n for side in (ours, theirs)]
        error = np.sqrt(parts[0] + parts[1])
        freedom = error**4 / np.maximum((parts[0] ** 2 + parts[1] ** 2) / (n - 1), 1e-300)
    return (
        center + stdtrit(freedom, below / 2) * error,
        center - stdtrit(freedom, above / 2) * error,
    )


def played(ours: Floats, theirs: Floats, asked: Asked) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return outcomes and used seeds of gates on scores of shape `[gates, seeds]`."""
    below, above = designs(asked.pass_rate), designs(asked.rate)
    outcomes, seeds = np.zeros(len(ours), int), np.full(len(ours), below.seeds[-1])
    open_ = np.arange(len(ours))
    for at, stage in enumerate(below):
        n, last = stage.seeds, stage == below[-1]
        a, b = ours[open_, :n], theirs[open_, :n]
        low, high = interval(a, b, asked.paired, stage.level, above[at].level)
        outcome = np.zeros(len(open_), int)
        if asked.better:
            outcome[high < asked.margin] = FAIL
            outcome[low > 0] = PASS
        else:
            outcome[(high < -asked.margin) | (last & (high < 0))] = FAIL
            outcome[low > -asked.margin] = PASS
        if not last and asked.futility:
            rest = np.flatnonzero(outcome == UNDECIDED)
            outcome[rest[chances(a[rest], b[rest], asked) < asked.futility]] = FUTILE
        outcomes[open_], seeds[open_] = outcome, n
        open_ = open_[outcome == UNDECIDED]
        if not len(open_):
            break
    return outcomes, seeds


def chances(ours: Floats, theirs: Floats, asked: Asked) -> Floats:
    last = designs(asked.pass_rate)[-1], designs(asked.rate)[-1]
    sides = [ours - theirs] if asked.paired else [ours, theirs]
    return chance_to_pass(sides, asked.margin, *last, better=asked.better)


def require_the_product_s_outcomes() -> None:
    """Raise AssertionError if a vectorised gate differs from the product's own functions."""
    rng = np.random.default_rng(0)
    for paired in (True, False):
        for better in (True, False):
            asked = Asked(0.1, better, paired)
            ours, theirs = normal(0.3)(rng, (40, 32))
            outcomes, seeds = played(ours, theirs, asked)
            for row in range(40):
                outcome, took = one_gate(ours[row], theirs[row], asked)
                assert (OUTCOMES[outcomes[row]], seeds[row]) == (outcome, took)


def one_gate(ours: Floats, theirs: Floats, asked: Asked) -> tuple[str, int]:
    stages = designs(asked.rate)
    for stage in stages:
        a, b = ours[: stage.seeds], theirs[: stage.seeds]
        found = (paired_difference if asked.paired else welch)(a, b, stage.level)
        last = stage == stages[-1]
        how = {"last": last, "better": asked.better}
        outcome: str = gate.judged(found, asked.margin, stage.level, **how).outcome
        if outcome == "undecided" and not last:
            sides, end = [a - b] if asked.paired else [a, b], stages[-1]
            chance = chance_to_pass(sides, asked.margin, end, end, better=asked.better)
            outcome = "futile" if chance < asked.futility else outcome
        if outcome != "undecided":
            return outcome, stage.seeds
    return "undecided", stages.seeds[-1]


def one_test(power: float, effect: float, deviation: float, rate: float, sides: int) -> float:
    """Return the seeds at which one test has this power; sides: 1 if paired, else 2."""
    for n in range(2, 400):
        freedom = sides * (n - 1)
        z = effect / (deviation / np.sqrt(n))
        if 1 - norm.cdf(student.isf(rate, freedom) - z) >= power:
            return float(n)
    return np.inf


# Tables


@dataclass
class Table:
    """Rows of a page, and messages about the rows that miss a promise."""

    lines: list[str]
    missed: list[str]

    def add(self, *cells: str) -> None:
        self.lines.append(f"| {' | '.join(cells)} |")

    def rate(self, where: str, wrong: int, total: int, stated: float) -> str:
        """Format an error rate with its bound; record it as missed if it is too high."""
        share = wrong / max(total, 1)
        bound = 1.0 if wrong == total else float(beta.ppf(0.95, wrong + 1, total - wrong))
        if share > ALLOWED * stated:
            self.missed.append(f"{where}: {percent(share)} at a stated {percent(stated)}")
        return f"{percent(share)} (≤ {percent(bound)})"

    def promise(self, where: str, kept: bool) -> str:
        if not kept:
            self.missed.append(where)
        return "yes" if kept else "**no**"


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def errors(table: Table, kind: Kind, *, paired: bool) -> None:
    """Add rows of gates without a change, or with a change on the boundary."""
    rng, unit = np.random.default_rng(5), kind.unit
    mode = "paired" if paired else "unpaired"
    ours, theirs = kind.draw(rng, (GATES, gate.MOST_SEEDS))
    for truth, better, wrong, what in (
        (0.0, False, FAIL, "false alarm"),
        (-MARGIN, False, PASS, "false pass"),
        (0.0, True, PASS, "false accept"),
        (MARGIN, True, FAIL, "false reject"),
    ):
        asked = Asked(MARGIN * unit, better, paired)
        outcomes, seeds = played(ours + truth * unit, theirs, asked)
        count = int((outcomes == wrong).sum())
        passed = (outcomes == PASS).mean()
        table.add(
            kind.name,
            mode,
            f"{percent(truth)}, {'gains' if better else 'no loss'} required",
            what,
            table.rate(f"{kind.name}, {mode}, {what}", count, GATES, gate.RATE),
            percent(float(passed)),
            percent(float((outcomes == FUTILE).mean())),
            f"{seeds.mean():.1f}",
        )


def powers(table: Table, kind: Kind, *, paired: bool) -> None:
    """Add rows of relevant gains and losses: how often gates find them, and with how many seeds."""
    rng, unit = np.random.default_rng(6), kind.unit
    ours, theirs = kind.draw(rng, (GATES, gate.MOST_SEEDS))
    deviation = float((ours - theirs).std())
    mode = "paired" if paired else "unpaired"
    for truth in (0.2, -0.1, -0.2, -0.5):
        better = truth > 0
        asked = Asked(MARGIN * unit, better, paired)
        outcomes, seeds = played(ours + truth * unit, theirs, asked)
        right = float((outcomes == (PASS if better else FAIL)).mean())
        passed = float((outcomes == PASS).mean())
        fixed = gate.MOST_SEEDS
        equal = one_test(min(right, 0.999), abs(truth) * unit, deviation, gate.RATE, 2 - paired)
        share = seeds.mean() / fixed
        kept = ""
        if better and paired:
            where = f"{kind.name}: a gain of 20% accepted in 80% on 70% of the runs"
            kept = table.promise(where, right >= 0.8 and share <= 0.7)
        table.add(
            kind.name,
            mode,
            f"{100 * truth:+.0f}% of the learned range",
            "accepted" if better else "called worse",
            percent(right),
            "" if better else percent(passed),
            f"{seeds.mean():.1f}",
            percent(share),
            "" if not better or not np.isfinite(equal) else f"{equal:.0f}",
            kept,
        )


def futilities(table: Table, kind: Kind, *, paired: bool) -> None:
    """Add rows of early ends: the seeds they save and the gains they miss."""
    rng, unit = np.random.default_rng(8), kind.unit
    ours, theirs = kind.draw(rng, (GATES, gate.MOST_SEEDS))
    mode = "paired" if paired else "unpaired"
    for truth, margin in ((MARGIN, MARGIN), (0.05, 0.05), (0.0, MARGIN), (0.0, 0.05)):
        missed, runs, accepts = [], [], []
        for futility in (0.0, gate.FUTILITY):
            asked = Asked(margin * unit, True, paired, futility)
            outcomes, seeds = played(ours + truth * unit, theirs, asked)
            missed.append(float((outcomes != PASS).mean()))
            accepts.append(int((outcomes == PASS).sum()))
            runs.append(float(seeds.mean()))
        bound = missed[0] / (1 - gate.FUTILITY)
        where = f"{kind.name}, {mode}, misses of a gain of {percent(truth)}"
        kept = ""
        if truth:
            kept = table.promise(where, missed[1] <= ALLOWED * min(1.0, bound))
        else:
            table.rate(f"{kind.name}, {mode}, false accepts", accepts[1], GATES, gate.RATE)
        table.add(
            kind.name,
            mode,
            percent(truth),
            percent(margin),
            percent(missed[0]),
            percent(missed[1]),
            percent(min(1.0, bound)) if truth else "",
            f"{runs[0]:.1f}",
            f"{runs[1]:.1f}",
            kept,
        )


# Ledgers


@dataclass
class LedgerCount:
    accepted: NDArray[np.int_]
    false: NDArray[np.int_]
    found: int
    helpful: int
    runs: float
    picked: list[float]
    fresh: list[float]


def ledgers(kind: Kind, gains: Sequence[float], share: float, *, paired: bool) -> LedgerCount:
    """Simulate nights of candidates; a share of them gains, and each is compared with the best."""
    rng, unit, nights = np.random.default_rng(9), kind.unit, NIGHTS_OF_LEDGERS
    more = 5  # fresh seeds
    n = gate.MOST_SEEDS + more
    best = kind.draw(rng, (nights, n))[1]
    discoveries = np.zeros(nights, int)
    false = np.zeros(nights, int)
    found = helpful = 0
    runs, picked, fresh = 0.0, [], []
    level_of_best = np.zeros(nights)
    for number in range(1, CANDIDATES + 1):
        gain = np.where(rng.random(nights) < share, rng.choice([*gains], nights), 0.0) * unit
        ours = kind.draw(rng, (nights, n))[0] + (level_of_best + gain)[:, None]
        helpful += int((gain > 0).sum())
        for count in np.unique(discoveries):
            rows = np.flatnonzero(discoveries == count)
            rate = budget_level(gate.RATE, CANDIDATES, number, int(count))
            asked = Asked(MARGIN * unit, True, paired, pass_rate=rate)
            seen = slice(0, gate.MOST_SEEDS)
            outcomes, seeds = played(ours[rows, seen], best[rows, seen], asked)
            runs += float(seeds.sum())
            won = rows[outcomes == PASS]
            took = seeds[outcomes == PASS]
            for row, m in zip(won, took, strict=True):
                difference = ours[row] - best[row]
                picked.append((difference[:m].mean() - gain[row]) / unit)
                fresh.append((difference[-more:].mean() - gain[row]) / unit)
            discoveries[won] += 1
            false[won] += gain[won] == 0
            found += int((gain[won] > 0).sum())
            best[won] = ours[won]
            level_of_best[won] += gain[won]
    return LedgerCount(discoveries, false, found, helpful, runs / nights, picked, fresh)


def ledger_rows(table: Table, kind: Kind, *, paired: bool) -> None:
    mode = "paired" if paired else "unpaired"
    for gains, share in (((0.0,), 0.0), ((0.2,), 0.1), ((0.05, 0.1, 0.2), 0.3)):
        done = ledgers(kind, gains, share, paired=paired)
        any_false = int((done.false > 0).sum())
        where = f"ledger, {kind.name}, {mode}, {percent(share)} gain"
        fdr = float(np.mean(done.false / np.maximum(done.accepted, 1)))
        if fdr > ALLOWED * gate.RATE:
            table.missed.append(f"{where}: {percent(fdr)} of the accepted are false")
        if not share:
            table.rate(where, any_false, NIGHTS_OF_LEDGERS, gate.RATE)
        curse = ["", ""]
        if len(done.picked) > 30:
            curse = [f"{100 * np.mean(v):+.2f}%" for v in (done.picked, done.fresh)]
            error = np.std(done.fresh) / np.sqrt(len(done.fresh))
            table.promise(f"{where}: fresh runs are biased", abs(np.mean(done.fresh)) < 4 * error)
        names = ", ".join(percent(gain) for gain in gains) if share else ""
        table.add(
            kind.name,
            mode,
            f"{share:.0%} {names}",
            f"{done.accepted.mean():.2f}",
            percent(any_false / NIGHTS_OF_LEDGERS),
            percent(fdr),
            percent(done.found / done.helpful) if share else "",
            f"{done.runs:.0f}",
            *curse,
        )


@dataclass(frozen=True)
class Section:
    """A table: its title, introduction, columns and the function that adds its rows."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: Callable[..., None]
    modes: Callable[[Kind], tuple[bool, ...]]  # paired or not


def both(kind: Kind) -> tuple[bool, ...]:
    return (True,) if "0.5" in kind.name else (True, False)


def some(kind: Kind) -> tuple[bool, ...]:
    """Skip correlated pairs: in ledgers, candidates and the best share no noise."""
    if "0.5" in kind.name:
        return ()
    return (True, False) if "TD3" in kind.name or kind.name == "normal, pair 0" else (True,)


SECTIONS = (
    Section(
        "Errors of one gate",
        f"Each row is {GATES:,} gates with a margin of {percent(MARGIN)} of the learned range and "
        f"a stated error rate of {percent(gate.RATE)}. The number in parentheses is a 95% "
        "upper bound.",
        ("runs", "mode", "truth", "counted", "rate", "passed", "futile", "seeds of each side"),
        errors,
        both,
    ),
    Section(
        "Power of one gate",
        "The fixed design has 32 seeds on each side. *one test* is the number of seeds at which a "
        "single t test with the same error rate has the same power. That test is planned with the "
        "true deviation and gain.",
        (
            *("runs", "mode", "truth", "counted", "share", "passed", "seeds"),
            *("of the fixed design", "one test", "80% on 70%"),
        ),
        powers,
        both,
    ),
    Section(
        "Early ends",
        "These gates require a gain. *missed* is the share of gates that do not pass, without and "
        "with early ends. *bound* is the largest share allowed with early ends.",
        (
            *("runs", "mode", "truth", "margin", "missed", "with early ends", "bound", "seeds"),
            *("with early ends", "kept"),
        ),
        futilities,
        both,
    ),
    Section(
        "Ledgers of 50 candidates",
        f"Each row is {NIGHTS_OF_LEDGERS} nights of 50 candidates with an error budget of "
        f"{percent(gate.RATE)}. *picked* and *fresh* show how far the accepted gain lies above the "
        "truth, as a share of the learned range. *picked* has the runs that decided, *fresh* has 5 "
        "held-out seeds.",
        (
            *("runs", "mode", "candidates that gain", "accepted a night"),
            *("nights with a false one", "false of the accepted", "gains found", "seeds a night"),
            *("picked", "fresh"),
        ),
        ledger_rows,
        some,
    ),
)


def made(job: tuple[int, int, bool, tuple[Path, ...]]) -> Table:
    section, kind, paired, files = job
    table = Table([], [])
    SECTIONS[section].rows(table, kinds(files)[kind], paired=paired)
    return table


def page(files: tuple[Path, ...], jobs: int) -> Iterator[str]:
    work = [
        (number, place, paired, files)
        for number, section in reversed([*enumerate(SECTIONS)])
        for place, kind in enumerate(kinds(files))
        for paired in section.modes(kind)
    ]
    tables: dict[int, list[Table]] = {}
    with ProcessPoolExecutor(jobs) as pool:
        for job, table in zip(work, pool.map(made, work), strict=True):
            tables.setdefault(job[0], []).append(table)
            print("\n".join(table.lines), flush=True)
    yield "# Errors and power of gates and ledgers"
    yield ""
    yield (
        "`python benchmarks/gate_errors.py` resamples the final scores of 192 SAC and 193 TD3 runs "
        "(github.com/flowersteam/rl_stats) and of 94 PPO runs of Stable-Baselines3."
    )
    for number, section in enumerate(SECTIONS):
        yield from ("", f"## {section.title}", "", section.text, "")
        yield f"| {' | '.join(section.columns)} |"
        yield f"|{'---|' * len(section.columns)}"
        yield from (line for table in tables[number] for line in table.lines)
    missed = [line for number in sorted(tables) for each in tables[number] for line in each.missed]
    yield from ("", "## Missed", "", *([f"- {line}" for line in missed] or ["Nothing."]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, action="append", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    require_the_product_s_outcomes()
    lines = list(page(tuple(options.runs), options.jobs))
    OUT.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return int(lines[-1] != "Nothing.")


if __name__ == "__main__":
    sys.exit(main())

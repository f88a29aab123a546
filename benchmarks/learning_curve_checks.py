"""Measure error rate and power of `ablations check` on trained curves.

    python benchmarks/learning_curve_checks.py train      # 10 CPU minutes
    python benchmarks/learning_curve_checks.py report     # writes into results/reference
    python benchmarks/learning_curve_checks.py simulate   # 25 CPU minutes, writes there too;
                                                          # 5 with `simulate 200`

`simulate` uses simulated curves, normal between seeds, and baselines of 5 to 24 seeds. It measures
the promised power, how often "better" hides a loss, and the effect of a lucky baseline.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import stats

from ablations.regression.check import Check, Terms, learned, plan_check, sequential
from ablations.regression.curves import Curves, from_user
from ablations.tables.formats import pipes

POOL = Path("results/learning_curve_checks.npz")
REPORT = Path("results/reference/learning_curve_checks.md")
CHECKS = 200
OLD, NEW = 20, 12  # seeds of a baseline; of a check, at most
PLANTED_SEEDS = 256


def pool() -> dict[str, np.ndarray]:
    """Return the trained curves by name, `[seeds, points]`."""
    return dict(np.load(POOL)) if POOL.exists() else {}


def train() -> None:
    """Train every seed once; the 200 baselines and their null checks share no seeds."""
    sys.path.insert(0, str(Path(__file__).parent))
    from planted_regressions import LANES, PLANTED, curves

    for name in PLANTED:
        wanted = CHECKS * (OLD + NEW) if name == "none" else PLANTED_SEEDS
        first = 1_000_000 * list(PLANTED).index(name)
        while len(have := pool().get(name, np.zeros((0, 0)))) < wanted:
            started = time.process_time()
            count = min(LANES, wanted - len(have))
            seeds = range(first + len(have), first + len(have) + count)
            fresh = curves([name] * count, seeds).astype(np.float32)
            whole = np.concatenate([have, fresh]) if len(have) else fresh
            POOL.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(POOL, **{**pool(), name: whole})
            seconds = (time.process_time() - started) / count
            print(f"{name}: {len(whole)} of {wanted}, {1e3 * seconds:.0f} ms each", flush=True)


# Other methods on the same curves, each in its usual form


def threshold(baseline: Curves, now: Curves, effect: float) -> bool:
    """Fail unless one seed reaches a fixed return at any point, as RLlib's learning tests do.

    The return is the baseline's final mean minus the effect, as an author might choose it.
    """
    reached = -np.inf if 0 in now.failed else np.nanmax(now.runs[0].values)
    return bool(reached < baseline.scores()["final"].mean() - effect)


def welch(baseline: Curves, now: Curves, effect: float) -> bool:
    """Test the final performance of all seeds, one-sided at 1%."""
    before, after = _final(baseline, now)
    return bool(stats.ttest_ind(after, before, equal_var=False, alternative="less").pvalue < 0.01)


def mann_whitney(baseline: Curves, now: Curves, effect: float) -> bool:
    before, after = _final(baseline, now)
    return bool(stats.mannwhitneyu(after, before, alternative="less").pvalue < 0.01)


def welch_either(baseline: Curves, now: Curves, effect: float) -> bool:
    """Test final performance and area, each at 1%."""
    before, after = baseline.scores(), now.scores()
    return welch(baseline, now, effect) or bool(
        stats.ttest_ind(after["auc"], before["auc"], equal_var=False, alternative="less").pvalue
        < 0.01
    )


def _final(baseline: Curves, now: Curves) -> tuple[np.ndarray, np.ndarray]:
    before, after = baseline.scores()["final"], now.scores()["final"]
    lowest = min([*before, *after])
    return before, np.append(after, [lowest] * len(now.failed))


OTHERS: dict[str, Callable[[Curves, Curves, float], bool]] = {
    "threshold, 1 seed (RLlib)": threshold,
    "Welch, final": welch,
    "Welch, final or area": welch_either,
    "Mann-Whitney, final": mann_whitney,
}
PLANTED_CHECKS = 100


def as_curves(rows: np.ndarray, first_seed: int) -> Curves:
    """Return curves. A NaN at the end means divergence; before, that no episode had ended."""
    whole = np.isfinite(rows[:, -1])
    seeds = np.arange(first_seed, first_seed + len(rows))
    lost = {int(seed): "no longer finite" for seed in seeds[~whole]}
    kept = {"seeds": seeds[whole], "missing_ok": True}
    return Curves(from_user(rows[whole], **kept).runs, lost)


def checks(curves: dict[str, np.ndarray], name: str) -> Iterator[tuple[Curves, np.ndarray]]:
    """Yield a baseline and the rows of a check.

    Each row without a bug is used once. Rows with a bug are drawn without replacement from its
    seeds, so its checks share some.
    """
    null = curves["none"].reshape(CHECKS, OLD + NEW, -1)
    random = np.random.default_rng(sorted(curves).index(name))
    for old in null if name == "none" else null[:PLANTED_CHECKS]:
        rows = old[OLD:] if name == "none" else random.permutation(curves[name])[:NEW]
        yield as_curves(old[:OLD], 0), rows


def ours(baseline: Curves, rows: np.ndarray, effect: float, most: int) -> Check:
    """Check in stages, unpaired: the new code draws other numbers from the same seeds."""
    fresh = as_curves(rows, 0)
    return sequential(baseline, fresh.of, Terms(effect=effect, most=most))


def measured_effect(curves: dict[str, np.ndarray], name: str) -> dict[str, float]:
    """Return the loss of each score over all seeds, as a share of the learned range."""
    null, planted = as_curves(curves["none"], 0), as_curves(curves[name], 0)
    old, new = null.scores(), planted.scores()
    losses = {}
    for score, values in old.items():
        lost = [min(values)] * len(planted.failed)
        losses[score] = float(values.mean() - np.append(new[score], lost).mean()) / np.ptp(
            learned(null)
        )
    return losses


BUDGETS = ((0.05, 4), (0.05, 12), (0.15, 12))  # effect, seeds at most
FULL = BUDGETS[1]


def report() -> None:
    curves = pool()
    caught, lines, beside = [], [], []
    for name in curves:
        hits = dict.fromkeys(BUDGETS, 0)
        others = dict.fromkeys(OTHERS, 0)
        taken, flagged, number = [], 0, 0
        for old, rows in checks(curves, name):
            number += 1
            for budget in BUDGETS:
                found = ours(old, rows, *budget)
                hits[budget] += found.outcome == "fail"
                if budget == FULL:
                    taken.append(len(found.now))
                    flagged += found.verdict == "better"
                    caught.append([loss / found.unit for loss in found.design.caught.values()])
            now = as_curves(rows, 0)
            for method, judge in OTHERS.items():
                others[method] += judge(old, now, FULL[0] * np.ptp(learned(old)))
        effect = measured_effect(curves, name)
        real = [f"{100 * effect[score]:.1f}%" for score in ("final", "auc")]
        shares = [_share(hits[budget], number) for budget in BUDGETS]
        lines.append([name, *real, *shares, f"{np.mean(taken):.1f}", _share(flagged, number)])
        beside.append(
            [name, *real, _share(hits[FULL], number), *(_share(n, number) for n in others.values())]
        )
        print(" | ".join([*lines[-1], "||", *beside[-1][3:]]), flush=True)
    # A check may dismiss a loss that is smaller than the effect.
    final, area = np.maximum(np.median(caught, axis=0), FULL[0])
    budgets = [f"{effect:.0%}, ≤{seeds} seeds" for effect, seeds in BUDGETS]
    head = ["planted", "loss of final", "loss of area", *budgets, "seeds taken", "better"]
    head_beside = ["planted", "loss of final", "loss of area", "ours", *OTHERS]
    REPORT.write_text(
        "\n".join(
            [
                *TEXT.format(
                    old=OLD,
                    new=NEW,
                    checks=CHECKS,
                    planted=PLANTED_CHECKS,
                    seeds=PLANTED_SEEDS,
                    trained=sum(map(len, curves.values())),
                    final=f"{final:.1%}",
                    area=f"{area:.1%}",
                ).splitlines(),
                "",
                *pipes(head, lines).splitlines(),
                "",
                "## Other methods",
                "",
                *BESIDE.format(new=NEW).splitlines(),
                "",
                *pipes(head_beside, beside).splitlines(),
                "",
            ]
        )
    )
    print(REPORT)


def _share(hits: int, of: int) -> str:
    return f"{100 * hits / of:.1f}%"


# Simulated curves: a standard deviation of 1 between seeds in both scores

SIMULATED = Path("results/reference/learning_curve_power.md")
OLD_SEEDS = (5, 8, 12, 24)
ASKED = 2.0  # the effect, in standard deviations, of the columns that have one


def simulate(checks_each: int = 1_000) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "regression"))
    from synthetic_curves import independent

    def verdicts(
        old: int,
        terms: Terms,
        now: Callable[[dict[str, float]], dict[str, float]],
        luck: float = 0.0,
    ) -> tuple[list[Check], Counter[str]]:
        """Check simulated curves.

        now: the losses that a design catches -> the losses of the new curves, by score.
        luck: how many standard errors the baseline's means are too high.
        """
        random = np.random.default_rng([old, 7])
        found = []
        for _ in range(checks_each):
            baseline = independent(random, range(old))
            if luck:
                above = {name: values.mean() for name, values in baseline.scores().items()}
                expected = independent(_Still(), range(1)).scores()
                off = {name: above[name] - expected[name][0] - luck / old**0.5 for name in above}
                moved = independent(_Still(), range(1), final=off["final"], area=off["auc"])
                moved_by = moved.runs[0].values - independent(_Still(), range(1)).runs[0].values
                rows = [run.values + moved_by for run in baseline.runs.values()]
                baseline = from_user(rows, steps=baseline.steps)
            made = plan_check(baseline, terms).design
            lost = now({s: max(made.effect, loss) for s, loss in made.caught.items()})
            found.append(sequential(baseline, lambda s, x=lost: independent(random, s, **x), terms))
        return found, Counter(one.verdict for one in found)

    few = Terms(effect=0.01, unit=1.0, most=NEW)
    wanted = Terms(effect=ASKED, unit=1.0)
    lines = []
    for old in OLD_SEEDS:
        line = [str(old)]
        for terms in (few, wanted):
            checks, final = verdicts(old, terms, lambda caught: {"final": caught["final"]})
            _, area = verdicts(old, terms, lambda caught: {"area": caught["auc"]})
            promised = np.median([max(one.design.caught.values()) for one in checks])
            if terms is wanted:
                line.append(f"{np.median([one.design.needed or np.inf for one in checks]):.0f}")
            line += [
                f"{promised:.2f}",
                _share(final["worse"], checks_each),
                _share(area["worse"], checks_each),
            ]
        _, mixed = verdicts(old, wanted, lambda _: {"final": 1.3 * ASKED, "area": -2 * ASKED})
        _, same = verdicts(old, wanted, lambda _: {})
        unlucky, alarms = verdicts(old, wanted, lambda _: {}, luck=2.0)
        line += [
            _share(mixed["better"], checks_each),
            _share(same["worse"], checks_each),
            _share(alarms["worse"], checks_each),
            f"{100 * np.mean([one.design.lucky for one in unlucky]):.1f}%",
        ]
        lines.append(line)
        print(" | ".join(line), flush=True)
    head = ["baseline", f"caught, ≤{NEW} seeds", "final", "area", "needed", "caught, ≤32 seeds"]
    head += ["final", "area", '"better"', "false alarms", "lucky baseline", "stated"]
    SIMULATED.write_text(
        "\n".join(
            [
                *SIMULATION.format(
                    checks=f"{checks_each:,}",
                    error=f"{100 * (0.05 * 0.95 / checks_each) ** 0.5:.1f}%",
                    new=NEW,
                    asked=ASKED,
                ).splitlines(),
                "",
                *pipes(head, lines).splitlines(),
                "",
            ]
        )
    )
    print(SIMULATED)


class _Still:
    """A random generator that returns expectations."""

    def normal(self, size: tuple[int, ...]) -> np.ndarray:
        return np.zeros(size)


SIMULATION = """\
# Does a check keep its promises, on average over baselines?

`benchmarks/learning_curve_checks.py simulate` made this page from simulated scores. The two scores,
final performance and area under the curve, are normal with a standard deviation of 1 between seeds
and a correlation of one half. Each percentage is from {checks} checks, so the standard error of 95%
is {error}. The false-alarm rate of the checks is 1%.

- *baseline*: the number of seeds of the baseline.
- *caught*: the loss that a check promises to catch with 95%, in standard deviations (the median
  over baselines). The first columns allow at most {new} seeds and any effect. The next allow at
  most 32 seeds and an effect of {asked:g} standard deviations.
- *final*, *area*: how often this loss is called "worse" if only that score has it.
- *needed*: seeds that would catch an effect of {asked:g} standard deviations (median). inf is more
  than 1,000; such a check needs a larger baseline.
- *"better"*: how often a trainer is called better that loses 1.3 effects of final performance and
  gains two effects of area.
- *false alarms*: how often an unchanged trainer is called worse.
- *lucky baseline*: false alarms if the means of both scores of the baseline are two standard
  errors too high. This happens to one baseline in forty. *stated*: what the check says about this
  rate, for one score."""

TEXT = """\
# Error rate and power of learning-curve checks

`benchmarks/learning_curve_checks.py` made this page from {trained:,} trained seeds of a small PPO
on `fast` with differently scaled observations, 10,240 steps and 20 points. Each check has a
baseline of {old} seeds, at most {new} new seeds, and a false-alarm rate of 1%.

- The first row has {checks} checks of unchanged code, which share no seeds.
- Each other row has {planted} checks of one planted bug, against the first {planted} baselines.
  Their seeds are drawn from at least {seeds} seeds trained with the bug, so some checks share
  seeds.
- *loss*: the mean loss over all seeds with the bug, as a share of what the trainer learns. A
  negative loss is a gain. The learned range goes from the lowest to the highest point of the mean
  curve.
- *5%, ≤4 seeds* and the next two: the share of checks that say "worse", for the smallest effect
  worth catching and the largest number of seeds.
- *seeds taken*, *better*: the mean number of seeds of the check with 5% and {new} seeds, and how
  often it says "suspiciously better".

With an effect of 5% and {new} seeds, a check promises to catch with 95% a loss of {final} of final
performance or {area} of the area under the curve (medians over the baselines)."""

BESIDE = """\
These methods use the same baselines and seeds. Ours takes at most {new} seeds and stops as soon as
it can. The tests get all {new} seeds and are one-sided at 1%. The threshold is the method of
RLlib's learning tests: one seed must reach a fixed return at any point of training. This return is
the baseline's final mean minus 5% of what it learns."""


if __name__ == "__main__":
    if sys.argv[1:] == ["train"]:
        os.environ |= {"NPROC": "1", "JAX_PLATFORMS": "cpu"}  # before JAX starts
        train()
    elif sys.argv[1:] == ["report"]:
        report()
    elif sys.argv[1:2] == ["simulate"]:
        simulate(*map(int, sys.argv[2:3]))
    else:
        sys.exit(__doc__)

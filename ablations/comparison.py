"""Compares every variant with its baseline, per task and over all tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ablations import stats
from ablations.errors import count, unknown
from ablations.records import Plan
from ablations.runs import ALL_TASKS, Runs
from ablations.scoring import Floats
from ablations.stats import LEVEL, Difference, decide, interim

NOT_EVERYWHERE = "not equivalent on every task"
LEARNED_TOO_LITTLE = "the baseline learned too little"
NO_RUNS = "no runs"
NO_PAIRS = ("no common seed", "one seed")
NOTHING = np.zeros((1, 0))
COLUMNS = (
    *("task", "variant", "baseline", "n", "failed", "empty", "missing", "pairs", "baseline_n"),
    *("mean", "mean_low", "mean_high", "difference", "difference_low", "difference_high"),
    *("share", "share_low", "share_high", "raw_difference", "raw_difference_low"),
    *("raw_difference_high", "level", "p", "p_adjusted", "sd", "learned_range", "margin"),
    *("verdict", "note", "beyond_margin", "seeds_needed", "best", "tied", "same_as", "untrained"),
)
ABOUT = ("metric", "score", "margin", "margin_in_metric")  # attributes of a comparison


class _Pair(NamedTuple):
    """A comparison of scores `[tasks, n]` with shared seeds, averaged over tasks.

    A variant that is a baseline is paired with itself and has no scores. `every` has the scores of
    all of the baseline's seeds, if it has more seeds than the variant and they are not successes.
    """

    task: str
    tasks: list[str]
    variant: str
    baseline: str
    ours: Floats = NOTHING
    theirs: Floats = NOTHING
    every: Floats | None = None
    more_failures: int = 0
    identical: bool = False
    successes: bool = False
    level: float = LEVEL

    def raw(self) -> Difference:
        """Return the difference on shared seeds."""
        compare = stats.outcomes if self.successes else stats.paired
        return compare(self.ours, self.theirs, self.level)

    def difference(self) -> Difference:
        """Return the difference, adjusted by further seeds of the baseline."""
        if self.identical:
            return Difference(self.ours.shape[-1], 0.0, 0.0, 0.0, 1.0, 0.0)
        if self.every is None:
            return self.raw()
        return stats.control_variate(self.ours, self.theirs, self.every, self.level)


def compare(
    runs: Runs, baseline: str | None = None, simultaneous: bool = True, level: float = LEVEL
) -> pd.DataFrame:
    """Compare every variant with its baseline, paired by seed.

    Args:
        runs: of a study.
        baseline: the variant that all others are compared with; default: the study's baselines.
        simultaneous: whether all intervals together hold with 1 - level (Bonferroni). Then single
            tasks have half of the level, and all tasks the other half. Identical variants use no
            level, and variants with the same configuration share it. Runs with interim analyses
            always use the planned levels.
        level: the probability that any interval misses its difference.

    Returns:
        For each task a row per untrained policy and per variant, then a row per variant on "all
        tasks", in learned ranges. Columns:
            task, variant, baseline: a baseline has its own name as baseline.
            n, failed, empty, missing: numbers of runs (on all tasks, missing counts seeds); empty
                ones are finished without a score.
            pairs, baseline_n: shared seeds, and the baseline's if it has more than the variant.
            mean, mean_low, mean_high: with Student's 95% interval.
            difference, difference_low, difference_high: variant minus baseline. If the baseline has
                more seeds, it is adjusted by the regression on the baseline's score.
            raw_difference, raw_difference_low, raw_difference_high: on shared seeds only.
            share, share_low, share_high: the difference in learned ranges.
            level: of the interval of the difference.
            p, p_adjusted: without and with correction for simultaneous comparisons.
            sd: standard deviation of the paired differences.
            learned_range, margin: in units of the score.
            verdict, note: see `stats.decide`, and why; "" for baselines, untrained policies and
                metrics without a direction.
            beyond_margin: whether the whole interval lies beyond the margin.
            seeds_needed: seeds that detect a true difference of one margin with 80% power, for an
                inconclusive difference; NaN above 10,000.
            best, tied: has the highest mean of the task; is not significantly below it.
            same_as: an earlier variant with the same configuration.
            untrained: whether the row is an untrained policy.

    Raises:
        UserError: an unknown baseline.
    """
    if baseline is not None:
        if baseline not in runs.versus:
            raise unknown("baseline", baseline, list(runs.versus))
        runs = replace(runs, baseline=baseline, versus=dict.fromkeys(runs.versus, baseline))
    pooled = pooled_tasks(runs)
    single = [(task, [task], variant) for task in runs.tasks for variant in runs.variants]
    over = [(ALL_TASKS, pooled[v], v) for v in runs.variants if v in pooled]
    share = level / 2 if over and simultaneous else level
    pairs = [p for family in (single, over) for p in _pairs(runs, family, share, simultaneous)]
    rows = [_row(runs, pair, level) for pair in pairs]
    for row in rows:
        if row["task"] == ALL_TASKS and row["variant"] != row["baseline"]:
            tasks = [r for r in rows if r["variant"] == row["variant"] and r is not row]
            row["verdict"], row["note"] = over_tasks(row, tasks)
        if row["verdict"] == "inconclusive":
            options = {"level": row["level"], "fewest": row["pairs"] + 1}
            row["seeds_needed"] = stats.seeds_needed(row["margin"], row["sd"], **options)
    order = [*runs.tasks, ALL_TASKS]
    for task in order:
        _mark_best(runs, task, [row for row in rows if row["task"] == task])
    about = {"untrained": True, "note": "untrained policy"}
    untrained = [
        _blank_row(task, f"({policy})", len(scores), stats.mean(scores)) | about
        for task, policies in runs.untrained.items()
        for policy, scores in policies.items()
    ]
    rows = sorted([*untrained, *rows], key=lambda row: order.index(row["task"]))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame.attrs = {name: getattr(runs, name) for name in ABOUT}
    frame.attrs |= {"level": level, "simultaneous": simultaneous}
    return frame


def pooled_tasks(runs: Runs) -> dict[str, list[str]]:
    """Return variant -> the tasks of its row on all tasks: two or more with a learned range."""
    tasks = {variant: runs.ranged(variant) for variant in runs.variants}
    return {variant: ranged for variant, ranged in tasks.items() if len(ranged) > 1}


# Pairs


def _pairs(
    runs: Runs, family: Sequence[tuple[str, list[str], str]], level: float, simultaneous: bool
) -> list[_Pair]:
    """Pair variants with their baselines; different comparisons share the level."""
    if runs.plan is not None and runs.plan.looks:
        return [_at_stage(runs, runs.plan, *each) for each in family]
    pairs = [_pair(runs, *each) for each in family]
    first = {name: runs.same_as.get(name, name) for name in runs.versus}
    different = {
        (*pair.tasks, first[pair.variant], first.get(pair.baseline, pair.baseline))
        for pair in pairs
        if pair.variant != pair.baseline and not pair.identical
    }
    share = level / max(1, len(different)) if simultaneous else level
    return [pair._replace(level=share) for pair in pairs]


def _pair(runs: Runs, task: str, tasks: list[str], variant: str) -> _Pair:
    baseline, over = runs.versus[variant], task == ALL_TASKS
    if baseline == variant or baseline not in runs.versus:
        return _Pair(task, tasks, variant, baseline)
    sizes = np.array([runs.size(t, variant) if over else 1.0 for t in tasks])[:, None]
    ours, theirs = (runs.paired(tasks, [variant, baseline]) / sizes[..., None]).swapaxes(0, 1)
    successes = task in runs.of_successes
    more = _has_more_seeds(runs, baseline) and not successes
    counted = runs.tasks if over else tasks  # failures count on every task
    same = runs.same_as.get(variant, variant) == runs.same_as.get(baseline, baseline)
    return _Pair(
        *(task, tasks, variant, baseline, ours, theirs),
        every=runs.paired(tasks, [baseline])[:, 0] / sizes if more else None,
        more_failures=runs.failures(counted, variant, baseline),
        identical=same or runs.identical(counted, variant, baseline),
        successes=successes,
    )


def _at_stage(runs: Runs, plan: Plan, task: str, tasks: list[str], variant: str) -> _Pair:
    """Return the pair at the interim analysis that decided, or at the last one that both reached.

    The plan decides the levels, as results must not change them. Over tasks only the sign decides;
    equivalence is decided on each task.
    """
    baseline, over = runs.versus[variant], task == ALL_TASKS

    def at(seeds: int, level: float) -> _Pair:
        return _pair(runs.below(seeds), task, tasks, variant)._replace(level=level)

    def decided(pair: _Pair) -> bool:
        result = pair.difference()
        margin = math.nan if over else runs.margin * runs.size(task, variant)
        return pair.identical or decide(result.low, result.high, margin) != "inconclusive"

    looks = plan.looks
    share = looks.over_tasks if over else looks.comparisons
    stages = interim.design(looks.seeds, LEVEL / (2 if looks.over_tasks else 1) / share)
    complete = min(runs.complete(t, name) for t in tasks for name in (variant, baseline))
    pair = interim.read(stages, complete, at, decided)
    return pair or _Pair(task, tasks, variant, baseline)


def _has_more_seeds(runs: Runs, baseline: str) -> bool:
    if runs.plan is None or runs.plan.looks or runs.plan.imported or baseline != runs.baseline:
        return False
    counts = Counter(cell.variant for cell in runs.plan.cells)
    return bool(counts) and counts[baseline] == max(counts.values()) > min(counts.values())


# Rows


def _row(runs: Runs, pair: _Pair, level: float) -> dict[str, Any]:
    row, size = _scores_row(runs, pair.task, pair.variant), runs.size(pair.task, pair.variant)
    margin, same_as = runs.margin * size, runs.same_as.get(pair.variant, pair.variant)
    row |= {"baseline": pair.baseline, "learned_range": size, "margin": margin}
    row["same_as"] = same_as if same_as != pair.variant else ""
    if pair.baseline == pair.variant:
        return row
    result = pair.difference()
    row |= {
        "level": pair.level,
        "pairs": result.n,
        **ends("difference", result),
        **ends("share", result, size),
        "p": result.p,
        "p_adjusted": np.minimum(1.0, result.p * level / pair.level),
        "sd": result.sd,
        "beyond_margin": result.low > margin or result.high < -margin,
    }
    if pair.every is not None:
        row |= ends("raw_difference", pair.raw()) | {"baseline_n": pair.every.shape[-1]}
    row["verdict"], row["note"] = _verdict(runs, pair, result, size)
    return row


def _verdict(runs: Runs, pair: _Pair, result: Difference, size: float) -> tuple[str, str]:
    if pair.baseline not in runs.versus:
        return "inconclusive", f"{pair.baseline} is not among the runs"
    if pair.identical:
        return "equivalent", "identical"
    if result.n < 2:
        own = (runs.runs.variant == pair.variant) & runs.runs.task.isin(pair.tasks)
        none = (runs.runs[own].status == "missing").all()
        return "inconclusive" * runs.directed, NO_RUNS if none else NO_PAIRS[result.n]
    if not runs.directed:
        return "", ""
    if runs.untrained and math.isnan(size):
        return "inconclusive", LEARNED_TOO_LITTLE
    verdict = decide(result.low, result.high, runs.margin * size, pair.more_failures)
    if pair.more_failures > 0:
        return verdict, f"{count(pair.more_failures, 'more run')} failed than of {pair.baseline}"
    if pair.more_failures < 0:
        return verdict, f"{count(-pair.more_failures, 'more run')} of {pair.baseline} failed"
    return verdict, "no spread" if result.sd == 0 else ""


def over_tasks(row: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the verdict on a mean over tasks, which depends on the verdicts on each task.

    It is equivalent only if every task is (an intersection-union test, Berger 1982), as effects may
    cancel in the mean. If tasks, or a task and the mean, have significant effects of opposite sign,
    tasks disagree (a qualitative interaction, Gail and Simon 1985).
    """
    verdict, note = row["verdict"], row["note"]
    if math.isnan(row["difference_low"]):
        return verdict, note
    signs = {
        sign
        for r in (row, *tasks)
        if r["note"] != LEARNED_TOO_LITTLE
        if not ("failed" in r["note"] and r["verdict"] in ("failed", "inconclusive"))
        if (sign := (r["difference_low"] > 0) - (r["difference_high"] < 0))
    }
    if len(signs) > 1:
        return "inconclusive", "tasks disagree"
    if verdict == "failed" or "failed" in note:
        return verdict, note
    if all(r["verdict"] == "equivalent" for r in tasks):
        return "equivalent", note
    if verdict == "equivalent":
        return decide(row["difference_low"], row["difference_high"]), NOT_EVERYWHERE
    return verdict, note


def _scores_row(runs: Runs, task: str, variant: str) -> dict[str, Any]:
    scores = runs.by_seed(task, variant).to_numpy()
    if task == ALL_TASKS:
        counts = runs.counts.xs(variant, level="variant").sum()
        absent = (runs.runs.variant == variant) & (runs.runs.status == "missing")
        counts["missing"] = runs.runs[absent].seed.nunique()
    else:
        counts = runs.counts.reindex([(task, variant)], fill_value=0).iloc[0]
    rate = len(scores) > 1 and task in runs.of_successes
    estimate = stats.rate(int(scores.sum()), len(scores)) if rate else stats.mean(scores)
    row = _blank_row(task, variant, len(scores), estimate)
    return row | {name: int(counts[name]) for name in ("failed", "empty", "missing")}


def _blank_row(task: str, variant: str, n: int, mean: stats.Estimate) -> dict[str, Any]:
    return {
        **dict.fromkeys(COLUMNS, math.nan),
        **dict.fromkeys(("baseline", "verdict", "note", "same_as"), ""),
        **dict.fromkeys(("failed", "empty", "missing", "pairs"), 0),
        **dict.fromkeys(("best", "tied", "untrained", "beyond_margin"), False),
        **{"task": task, "variant": variant, "n": n, **ends("mean", mean)},
    }


def ends(name: str, estimate: stats.Estimate | Difference, size: float = 1.0) -> dict[str, float]:
    """Return the columns of an estimate in units of `size`: `name`, `name_low` and `name_high`."""
    value = estimate.difference if isinstance(estimate, Difference) else estimate.value
    return {
        name: value / size,
        f"{name}_low": estimate.low / size,
        f"{name}_high": estimate.high / size,
    }


def _mark_best(runs: Runs, task: str, rows: Sequence[dict[str, Any]]) -> None:
    """Mark the best variant of a task, and variants that are not significantly worse.

    Only variants with the same settings of the task (on all tasks: with the same learned range) are
    ranked together, and only those with the fewest failed runs.
    """
    if not runs.directed:
        return
    families: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    names = runs.tasks if task == ALL_TASKS else [task]
    for row in rows:
        if not math.isnan(row["mean"]):
            settings = (runs.settings(name, row["variant"]) for name in names)
            source = runs.source(row["variant"]) if task == ALL_TASKS else ""
            families.setdefault((source, *settings), []).append(row)
    for family in families.values():
        stage, level = last_stage(runs, names, [row["variant"] for row in family])
        fewest = min(row["failed"] for row in family)
        kept = [row for row in family if row["failed"] == fewest]
        if len(kept) < 2 or stage.runs.empty:
            continue
        scores = pd.DataFrame({row["variant"]: stage.by_seed(task, row["variant"]) for row in kept})
        exact = task in runs.of_successes
        below = stats.not_the_best(scores.to_numpy().T, level, exact=exact)
        rest = [row for row, lost in zip(kept, below, strict=True) if not lost]
        best = max(rest, key=lambda row: row["mean"])
        for row in rest:
            row["best"], row["tied"] = row is best, row is not best


def last_stage(
    runs: Runs, tasks: Sequence[str], variants: Sequence[str], level: float = LEVEL
) -> tuple[Runs, float]:
    """Return the runs up to the last interim analysis that all variants reached, and its level.

    Without interim analyses it returns all runs and the given level.
    """
    if runs.plan is None or not runs.plan.looks:
        return runs, level
    complete = min(runs.complete(task, name) for task in tasks for name in variants)
    stages = interim.design(runs.plan.looks.seeds, level)
    reached = [(stage.seeds, stage.level) for stage in stages if stage.seeds <= complete]
    seeds, level = reached[-1] if reached else (0, level)
    return runs.below(seeds), level

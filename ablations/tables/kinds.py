"""Other tables: efficiency, aggregates, improvement, power, stability and diagnostics.

An estimate `x` has the columns `x`, `x_low` and `x_high` (95% interval). Each function raises
UserError if the study has no such table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ablations import stats
from ablations.comparison import compare, ends, pooled_tasks
from ablations.errors import UserError
from ablations.runs import ALL_TASKS, EVALUATION, Runs, by_task_and_variant
from ablations.scoring import auc

THRESHOLD = 0.75  # of the learned range
COLLAPSED = 0.5  # a run has collapsed below this share of the way to the baseline's median
MARGINS = (0, 1, 2, 4)  # true differences in the table of power
DIAGNOSTICS = (
    *("policy/clip_fraction", "value/clip_fraction", "value/explained_variance"),
    *("policy/effective_sample_size", "policy/approximate_kl"),
    *("policy/ratio_mean", "policy/ratio_max"),
)
MOST_OTHERS = 8  # metrics of a trainer that logs none of DIAGNOSTICS
_ENDS = ("", "_low", "_high")


def with_diverged(runs: Runs) -> Runs:
    """Return the runs with the worst score of its task for each diverged run.

    This is the lowest score of any run, or the best untrained policy's if that is lower. Take
    learned ranges from the original runs.
    """
    rows = runs.runs
    floors = rows.task.map(dict(runs.floors)).astype(float)
    worst = np.fmin(rows.groupby("task").score.transform("min"), floors)
    unchanged = ~rows.diverged | worst.isna()
    status = rows.status.where(unchanged, "done")
    rows = rows.assign(status=status, score=rows.score.where(unchanged, worst))
    return replace(runs, runs=rows)


def efficiency(runs: Runs) -> pd.DataFrame:
    """Return the steps to three quarters of the learned range.

    Columns:
        n, failed: number of runs with a score, and of failed runs.
        steps: median over runs of the step from which a run stays at or above the threshold;
            infinite for a run that never does, or that failed.
        reached: number of runs that do.
        threshold: in units of the metric.
    """
    rows = []
    for task, variant, of in by_task_and_variant(runs):
        curves, scored = runs.curves_of(task, variant), set(of.seed[of.score.notna()])
        kept = [curve for seed, curve in curves.items() if seed in scored]
        failed, (low, high) = int((of.status == "failed").sum()), runs.ranges[task, variant]
        threshold = math.nan if runs.margin_in_metric else low + THRESHOLD * (high - low)
        known = not math.isnan(threshold)
        times = [stats.steps_to(curve.steps, curve.values, threshold) for curve in kept]
        times = [*times, *[math.inf] * failed] if known else []
        row = {"task": task, "variant": variant, "n": len(kept), "failed": failed}
        row |= ends("steps", stats.median_time(times))
        row |= {"reached": np.isfinite(times).sum() if known else math.nan}
        rows.append(row | {"threshold": threshold})
    caption = (
        f"Steps: the step from which the {runs.metric} of a run stays at or above "
        f"{100 * THRESHOLD:g}% of the learned range, median over seeds (order statistics)."
    )
    return _frame(runs, rows, caption)


def aggregates(runs: Runs) -> pd.DataFrame:
    """Return `stats.AGGREGATES` of each variant's normalised scores over tasks.

    The tasks have a learned range, whose ends are 0 and 1; the n seeds have a score on each task.
    """
    rows = []
    for variant in runs.variants:
        tasks = list(runs.normalised(variant).values())
        if tasks and len(tasks[0]):
            row = {"variant": variant, "tasks": len(tasks), "n": len(tasks[0])}
            row["failed"] = int(runs.counts.failed.xs(variant, level="variant").sum())
            for name in stats.AGGREGATES:
                row |= ends(name.replace(" ", "_"), stats.aggregate(tasks, name))
            rows.append(row)
    caption = (
        f"Aggregates over tasks of {runs.metric}, normalised: 0 and 1 are the ends of the learned "
        "range. 95% intervals by the stratified bootstrap. Failed runs are excluded."
    )
    return _frame(runs, rows, caption, "has no task with a learned range")


def improvement(runs: Runs) -> pd.DataFrame:
    """Return the probability that a run of a variant scores higher than a run of its baseline.

    It uses the n seeds that both have. Rows: each task, and the mean over tasks with a learned
    range.
    """
    pooled, rows = pooled_tasks(runs), []
    wanted = [(task, [task], variant) for task in runs.tasks for variant in runs.variants]
    wanted += [(ALL_TASKS, pooled[name], name) for name in runs.variants if name in pooled]
    for task, tasks, variant in wanted:
        baseline = runs.versus[variant]
        if variant != baseline and baseline in runs.versus:
            scores = runs.paired(tasks, [variant, baseline])
            row = {"task": task, "variant": variant, "baseline": baseline, "n": scores.shape[-1]}
            if row["n"]:
                chance = stats.improvement(list(scores[:, 0]), list(scores[:, 1]))
                rows.append({**row, **ends("improvement", chance)})
    caption = (
        f"Improvement: probability that a run of the variant has a higher {runs.metric} than a run "
        "of its baseline; ties count half (Mann-Whitney)."
    )
    return _frame(runs, rows, caption, "has no comparison with finished runs")


def power(runs: Runs) -> pd.DataFrame:
    """Return the number of seeds that decides each comparison with 80% power.

    Columns:
        pairs, sd: pairs of runs, and the standard deviation of their differences.
        seeds_at_<k>_margins: for a true difference of k margins; NaN above 10,000. The interval is
            computed from the 90% interval of `sd`.
    """
    frame = compare(runs)
    frame = frame[(frame.sd > 0) & (frame.margin > 0)]
    rows = frame[["task", "variant", "pairs", "sd", "margin"]].to_dict("records")
    for row, level in zip(rows, frame.level, strict=True):
        spreads = (row["sd"], *stats.sd_interval(row["pairs"], row["sd"], 0.1))
        for k, (end, sd) in itertools.product(MARGINS, zip(_ENDS, spreads, strict=True)):
            seeds = stats.seeds_needed(k * row["margin"], sd, row["margin"], level)
            row[f"seeds_at_{k}_margins{end}"] = seeds
    caption = (
        "Seeds that decide a comparison with 80% power if the variant differs by 0, 1, 2 or 4 "
        "margins: its interval excludes 0 or lies within the margin, at the level of the "
        "comparison. Ranges: the 90% interval of the standard deviation of the paired differences."
    )
    absent = "has no comparison with finished runs, or its metric has no margin"
    return _frame(runs, rows, caption, absent)


def stability(runs: Runs) -> pd.DataFrame:
    """Return how often runs fail or collapse, and how much seeds differ.

    Columns:
        n: runs with a score; a diverged run counts as the worst score of its task.
        collapse_rate: share of runs below `threshold`, the middle between the lower end of the
            learned range and the baseline's median, with its exact interval.
        p_adjusted: Fisher's exact test against the baseline, with Bonferroni's correction.
        sd: standard deviation of the scores.
    """
    counted, rows = with_diverged(runs), []
    for task, variant, of in by_task_and_variant(runs):
        baseline, (low, _) = runs.versus[variant], runs.ranges[task, variant]
        own, theirs = (
            counted.paired([task], [name if name in runs.versus else variant])[0, 0]
            for name in (variant, baseline)
        )
        threshold = low + COLLAPSED * (np.median(theirs) - low) if len(theirs) else math.nan
        known, n = not math.isnan(threshold) and len(own) > 0, len(own)
        below, of_baseline = (int((scores < threshold).sum()) for scores in (own, theirs))
        is_compared = known and variant != baseline and baseline in runs.versus
        p = stats.fisher_p((below, of_baseline), (n, len(theirs))) if is_compared else math.nan
        rate = stats.rate(below, n) if known else stats.Estimate(math.nan)
        row = {"task": task, "variant": variant, "n": n}
        row |= {"failed": int((of.status == "failed").sum()), **ends("collapse_rate", rate)}
        row |= {"p_adjusted": p, "sd": stats.deviation(own) if n > 1 else math.nan}
        rows.append(row | {"threshold": threshold})
    caption = (
        f"Stability of {runs.metric}. Collapse: a score below the middle between the lower end of "
        "the learned range and the baseline's median. p: Fisher's exact test (Bonferroni). A "
        "diverged run counts as the task's worst score."
    )
    frame = _frame(runs, rows, caption)
    frame["p_adjusted"] = np.minimum(1.0, frame.p_adjusted * frame.p_adjusted.count())
    return frame


def diagnostics(runs: Runs) -> pd.DataFrame:
    """Return means over training and over seeds of `DIAGNOSTICS`.

    If the trainer logs none of them: of its first 8 other metrics that are not evaluations.
    """
    runs, names = logged(runs, DIAGNOSTICS)
    rows = []
    for task, variant, _ in by_task_and_variant(runs):
        row: dict[str, Any] = {"task": task, "variant": variant, "n": 0}
        for name in names:
            curves = runs.curves_of(task, variant, name).values()
            means = np.array([auc(curve.steps, curve.values) for curve in curves])
            known = means[~np.isnan(means)]
            row |= ends(name, stats.mean(known)) | {"n": max(row["n"], len(known))}
        if row["n"]:
            rows.append(row)
    caption = (
        "Means over training and seeds of what the runs logged. clip_fraction: share of clipped "
        "samples; effective_sample_size: share of the batch; approximate_kl: mean of "
        "(r - 1) - log r over probability ratios r."
    )
    return _frame(runs, rows, caption, "has no finished run that logged diagnostics")


def logged(runs: Runs, wanted: Sequence[str]) -> tuple[Runs, list[str]]:
    """Return the runs with curves of the wanted metrics that they logged, and these metrics.

    Without any of them these are the first 8 metrics that are neither the score nor evaluations.
    """
    others = [n for n in runs.metrics if n != runs.metric and not n.startswith(EVALUATION)]
    names = [name for name in wanted if name in others] or others[:MOST_OTHERS]
    if runs.plan is not None and runs.folder is not None and not {*names} <= {*runs.curves}:
        runs = Runs.read(runs.folder, runs.plan, runs.metric, runs.score, names)
    return runs, names


def study_of(runs: Runs) -> str:
    """Return the name of a study for error messages."""
    return f"study '{runs.plan.study.name}'" if runs.plan else "this study"


def _frame(
    runs: Runs, rows: Sequence[Mapping[str, Any]], caption: str, absent: str = "has no finished run"
) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows))
    if frame.empty or not frame.get("n", frame.get("pairs")).any():
        raise UserError(f"{study_of(runs)} {absent}")
    frame.attrs = {"metric": runs.metric, "caption": caption}
    return frame

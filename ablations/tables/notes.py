"""The caption, the notes and the summary of a comparison."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from ablations.comparison import NO_RUNS
from ablations.errors import count, listed, shortened, spans
from ablations.records import UNTRAINED, Plan
from ablations.runs import ALL_TASKS, EVALUATION, RUN, Runs, untrained_command
from ablations.scoring import LAST, LEAD
from ablations.tables.formats import estimate

MOST_LINES = 12
LISTED = 4  # effects that a summary names
WINDOWS = {
    "final": "over the last tenth of training",
    "auc": "over all of training",
    "last": f"of the last {LAST} evaluations",
    "mean": "of all evaluations",
}


def explain(runs: Runs, frame: pd.DataFrame) -> dict[str, Any]:
    """Return the caption of a comparison, and its sentences that explain single columns."""
    compared = frame[frame.pairs > 0]
    base = f"; settings of {runs.plan.study.base}" if runs.plan and runs.plan.study.base else ""
    window = "" if runs.plan is None and runs.curves.empty else f"{WINDOWS[runs.score]} "
    length = f"; {steps(runs.plan)}{base}" if runs.plan else ""
    seeds = seeds_text(runs.runs.seed.unique())
    parts = [f"Mean {runs.metric} {window}with its 95% interval; seeds {seeds}{length}."]
    legend = {}
    if len(compared):
        coverage = f"{100 * (1 - frame.attrs['level']):g}%"
        intervals = f"their {coverage} intervals are simultaneous (Bonferroni)"
        if runs.plan and runs.plan.looks:
            intervals = intervals.replace("Bonferroni", "interim analyses")
        elif not frame.attrs["simultaneous"]:
            intervals = f"each has its own {coverage} interval"
        parts.append(f"Differences are paired by seed; {intervals}.")
        if not runs.margin_in_metric:
            legend["share"] = "Effect: in % of the learned range."
        legend["mean"] = "* best mean, † not significantly below it."
    if runs.directed and frame.margin.notna().any():
        unit = "" if runs.margin_in_metric else "% of the learned range"
        size = runs.margin if runs.margin_in_metric else 100 * runs.margin
        legend["verdict"] = f"Equivalent: within ±{size:g}{unit}."
        needs = "Needs: seeds that would show a difference of that size with 80% power."
        legend["seeds_needed"] = needs
    rates = [task for task in runs.tasks if task in runs.of_successes]
    if rates:
        parts.append(f"Success rates on {listed(rates)} have exact intervals.")
    return {"caption": " ".join([*parts, *legend.values()]), "legend": legend}


def notes(runs: Runs, frame: pd.DataFrame) -> Iterator[str]:
    """Yield notes on the runs behind a comparison: failures, ranges, settings, versions."""
    for name in sorted(set(runs.versus.values()) - set(runs.versus)):
        yield f"the baseline {name} is not among these runs, so nothing is compared with it"
    yield from shortened(list(_other_settings(runs)), MOST_LINES, "and {} more such lines")
    yield from _ranges(runs)
    yield from _more_seeds(frame)
    yield from _tuned(runs)
    yield from _untrained(runs)
    if 1 < (seeds := runs.runs.seed.nunique()) < 5:
        yield f"{seeds} seeds: intervals cover only 80 to 95% if scores are skewed"
    yield from _not_done(runs)
    yield from runs.versions


def _other_settings(runs: Runs) -> Iterator[str]:
    for task, (variant, versus) in itertools.product(runs.tasks, runs.versus.items()):
        present = versus in runs.versus
        if present and runs.settings(task, variant) != runs.settings(task, versus):
            yield (
                f"{task}: {variant} and {versus} have different settings of the task, which may "
                "cause their difference; they are not ranked together"
            )


def _ranges(runs: Runs) -> Iterator[str]:
    if not runs.directed or runs.runs.seed.nunique() < 2:
        return
    why = "did not learn more than its noise, so there is no margin and verdicts are only about "
    why += "the sign of a difference"
    if runs.untrained:
        why = f"is less than {LEAD:g} standard deviations above untrained policies, so comparisons "
        why += "have no verdict"
    for task, source in itertools.product(
        runs.tasks, dict.fromkeys(map(runs.source, runs.variants))
    ):
        scored = (task, source) in runs.scores and runs.scores[task, source].count() > 1
        if scored and math.isnan(runs.size(task, source)):
            yield f"{task}: {source} {why}; the rows of all tasks exclude it"


def _more_seeds(frame: pd.DataFrame) -> Iterator[str]:
    more = frame[frame.baseline_n.notna()]
    if len(more):
        row = more.iloc[0]
        yield (
            f"{row.baseline} has {row.baseline_n:.0f} seeds and its variants {row.pairs}: "
            "differences are adjusted by the regression on its score (control variate; Cochran "
            "1977, 12.6); raw_difference is the difference on the shared seeds"
        )


def _tuned(runs: Runs) -> Iterator[str]:
    tuned = runs.plan.study.tuned if runs.plan else None
    if tuned:
        values = "; ".join(
            f"{variant} " + ", ".join(f"{value:g} on {task}" for task, value in tasks.items())
            for variant, tasks in tuned.values.items()
        )
        yield f"{tuned.setting} is each variant's best on seeds {seeds_text(tuned.seeds)}: {values}"


def _untrained(runs: Runs) -> Iterator[str]:
    plan = runs.plan
    if plan is None or runs.untrained or runs.margin_in_metric or plan.study.name == UNTRAINED:
        return
    judged = runs.metric == plan.study.metric == f"{EVALUATION}return"
    if judged and (line := untrained_command(plan)) is not None:
        yield (
            "untrained policies were not evaluated on all of these tasks, so the learned range is "
            f"the range of the baseline's curve; to evaluate them in seconds: {line}"
        )


def _not_done(runs: Runs) -> Iterator[str]:
    rows, none = runs.runs, f"have no value of {runs.metric} {WINDOWS[runs.score]}"
    for word, lost, why in (
        ("missing", rows.status == "missing", "are missing; pairs use the seeds that both have"),
        (
            "failed",
            rows.status == "failed",
            "failed; means exclude them. A variant that fails more often than its baseline has the "
            "verdict failed unless it is worse",
        ),
        (
            "no score",
            (rows.status == "done") & rows.score.isna(),
            f"{none}: no episode finished, or too few evaluations",
        ),
    ):
        if lost.any():
            yield f"{lost.sum()} of {len(rows)} runs {why}"
            groups = rows[lost].groupby([*RUN[:2], "reason"], sort=False)
            lines = [
                f"{word}: {task}, {variant}, seed{'s' * (len(of) > 1)} {seeds_text(of.seed)}"
                + f": {reason}" * bool(reason)
                for (task, variant, reason), of in groups
            ]
            yield from shortened(lines, MOST_LINES, "and {} more such lines")


def seeds_text(seeds: Iterable[int]) -> str:
    """Write whole numbers as ranges: 0, 1, 2, 5 as "0-2, 5"."""
    return ", ".join(f"{a}-{b}" if a < b else str(a) for a, b in spans(seeds))


def steps(plan: Plan) -> str:
    """Write the length of the runs, in the trainer's steps."""
    unit = f"{plan.study.step_unit or 'environment step'}s"
    counts = {task: about.steps for task, about in plan.tasks.items()}
    if not any(counts.values()):
        return "runs of unknown length"
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values())):,} {unit}" + " per task" * (len(counts) > 1)
    return f"{unit}: " + ", ".join(f"{task} {n:,}" for task, n in counts.items())


def summary(frame: pd.DataFrame, noun: str = "comparison") -> str:
    """Return a sentence with the largest effects and the number of rows per verdict."""
    compared = (frame.pairs > 0) | (frame.note == "identical")
    rows = frame[(frame.task != ALL_TASKS) & (frame.verdict != "") & compared]
    if rows.empty:
        return f"There is no finished {noun} yet."
    decided = rows[rows.verdict.isin(["better", "worse"])]
    decided = decided.loc[decided.share.abs().sort_values(ascending=False).index]
    several = frame[frame.task != ALL_TASKS].task.nunique() > 1
    in_metric = frame.attrs.get("margin_in_metric", False)
    parts = [
        f"{row.variant} is {row.verdict}{f' on {row.task}' if several else ''} "
        f"({effect(row, in_metric)})"
        for row in decided.head(LISTED).itertuples()
    ]
    if len(decided) > LISTED:
        parts.append(f"{len(decided) - LISTED} more differ")
    for verdict in ("equivalent", "inconclusive", "failed"):
        having = rows[rows.verdict == verdict]
        bound = having[["share_low", "share_high"]].abs().max(axis=None)
        size = f"{bound:.2g}" if in_metric else f"{100 * bound:.2g}%"
        below = f", effects below {size}" if math.isfinite(bound) and verdict != "failed" else ""
        if len(having):
            parts.append(f"{count(len(having), noun)} {verdict}{below}")
    absent = (frame.task != ALL_TASKS) & (frame.note == NO_RUNS) & (frame.verdict != "")
    if absent.any():
        parts.append(f"{count(absent.sum(), noun)} without runs")
    return "; ".join(parts) + "."


def effect(row: object, in_metric: bool = False) -> str:
    """Write a row's effect in % of the learned range, or in units of the score without one."""
    ends = [getattr(row, f"share{end}") for end in ("", "_low", "_high")]
    if in_metric or math.isnan(ends[0]):
        ends = [getattr(row, f"difference{end}") for end in ("", "_low", "_high")]
        return estimate(*ends, sign=True)
    text = estimate(*(100 * end for end in ends), sign=True)
    return text.replace(" [", "% [", 1) if " [" in text else f"{text}%"

"""The caption, the notes and the summary of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pandas as pd

from ablations.comparison import NO_RUNS
from ablations.errors import count, listed, shortened, spans
from ablations.records import UNTRAINED, Plan
from ablations.runs import ALL_TASKS, EVALUATION, RUN, Runs, untrained_command
from ablations.scoring import LAST, LEAD
from ablations.tables.formats import SIGNS, estimate

MOST_LINES = 12
LISTED = 4  # effects that a summary names
WINDOWS = {
    "final": "over the last tenth of training",
    "auc": "over all of training",
    "last": f"of the last {LAST} evaluations",
    "mean": "of all evaluations",
}


def caption(runs: Runs, frame: pd.DataFrame, *, by_task: bool = False) -> str:
    """Explain the numbers of a comparison in at most four lines.

    by_task: of the LaTeX table, which has a column per task.
    """
    compared = frame[frame.pairs > 0]
    seeds = seeds_text(runs.runs.seed.unique())
    base = f"; settings of {runs.plan.study.base}" if runs.plan and runs.plan.study.base else ""
    window = "" if runs.plan is None and runs.curves.empty else f"{WINDOWS[runs.score]} "
    length = f"; {steps(runs.plan)}{base}" if runs.plan else ""
    width = "± half the width of its" if by_task else "with its"
    parts = [f"Mean {runs.metric} {window}{width} 95% interval; seeds {seeds}{length}."]
    if len(compared):
        coverage = f"{100 * (1 - frame.attrs['level']):g}%"
        intervals = f"their {coverage} intervals are simultaneous (Bonferroni)"
        if runs.plan and runs.plan.looks:
            intervals = intervals.replace("Bonferroni", "interim analyses")
        elif not frame.attrs["simultaneous"]:
            intervals = f"each has its own {coverage} interval"
        effect = "" if runs.margin_in_metric or by_task else "Effect: in % of the learned range. "
        best = "Bold: best mean." if by_task else "* best mean, † not significantly below it."
        parts.append(f"Differences are paired by seed; {intervals}. {effect}{best}")
        if by_task and any(compared.verdict):
            signs = [f"{sign} {v}" for v, sign in SIGNS.items() if v in set(compared.verdict)]
            parts.append(f"{', '.join(signs)}: the difference to the baseline.")
    if runs.directed and frame.margin.notna().any():
        unit = "" if runs.margin_in_metric else "% of the learned range"
        size = runs.margin if runs.margin_in_metric else 100 * runs.margin
        parts.append(f"Equivalent: within ±{size:g}{unit}.")
        if not by_task:
            parts.append("Needs: seeds that would show a difference of that size with 80% power.")
    rates = [task for task in runs.tasks if task in runs.of_successes]
    if rates:
        parts.append(f"Success rates on {listed(rates)} have exact intervals.")
    return " ".join(parts)


def notes(runs: Runs, frame: pd.DataFrame) -> Iterator[str]:
    """Yield notes on the runs behind a comparison: failures, ranges, settings, versions."""
    yield from _absent_baselines(runs)
    yield from shortened(list(_other_settings(runs)), MOST_LINES, "and {} more such lines")
    yield from _ranges(runs)
    yield from _more_seeds(runs, frame)
    yield from _tuned(runs)
    yield from _untrained(runs)
    yield from _disagreeing(frame)
    seeds = runs.runs.seed.nunique()
    if 1 < seeds < 5:
        yield f"{seeds} seeds: intervals cover only 80 to 95% if scores are skewed"
    yield from _not_done(runs)
    yield from runs.versions


def _absent_baselines(runs: Runs) -> Iterator[str]:
    for name in sorted(set(runs.versus.values()) - set(runs.versus)):
        yield f"the baseline {name} is not among these runs, so nothing is compared with it"


def _other_settings(runs: Runs) -> Iterator[str]:
    for task in runs.tasks:
        for variant, versus in runs.versus.items():
            present = versus in runs.versus
            if present and runs.settings(task, variant) != runs.settings(task, versus):
                yield (
                    f"{task}: {variant} and {versus} have different settings of the task, which "
                    "may cause their difference; they are not ranked together"
                )


def _ranges(runs: Runs) -> Iterator[str]:
    if not runs.directed or runs.runs.seed.nunique() < 2:
        return
    for task in runs.tasks:
        for source in dict.fromkeys(map(runs.source, runs.variants)):
            scored = (task, source) in runs.scores and runs.scores[task, source].count() > 1
            if scored and math.isnan(runs.size(task, source)):
                why = (
                    f"is less than {LEAD:g} standard deviations above untrained policies, so "
                    "comparisons have no verdict"
                    if runs.untrained
                    else "did not learn more than its noise, so there is no margin and verdicts "
                    "are only about the sign of a difference"
                )
                yield f"{task}: {source} {why}; the rows of all tasks exclude it"


def _more_seeds(runs: Runs, frame: pd.DataFrame) -> Iterator[str]:
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


def _disagreeing(frame: pd.DataFrame) -> Iterator[str]:
    for row in frame[frame.note == "tasks disagree"].itertuples():
        tasks = frame[(frame.variant == row.variant) & (frame.task != ALL_TASKS)]
        above = listed(list(tasks[tasks.difference_low > 0].task)) or "average"
        below = listed(list(tasks[tasks.difference_high < 0].task)) or "average"
        yield f"{row.variant} is better on {above} and worse on {below}, which the mean hides"


def _not_done(runs: Runs) -> Iterator[str]:
    rows, total = runs.runs, len(runs.runs)
    missing = rows[rows.status == "missing"]
    if len(missing):
        yield f"{len(missing)} of {total} runs are missing; pairs use the seeds that both have"
        yield from _listed(missing, "missing")
    failed = rows[rows.status == "failed"]
    if len(failed):
        yield (
            f"{len(failed)} of {total} runs failed; means exclude them. A variant that fails more "
            "often than its baseline has the verdict failed unless it is worse"
        )
        yield from _listed(failed, "failed")
    empty = rows[(rows.status == "done") & rows.score.isna()]
    if len(empty):
        yield (
            f"{len(empty)} of {total} runs have no value of {runs.metric} {WINDOWS[runs.score]}: "
            "no episode finished, or too few evaluations"
        )
        yield from _listed(empty, "no score")


def _listed(rows: pd.DataFrame, word: str) -> list[str]:
    """Return a line for the runs of a task and variant that have the same reason."""
    lines = [
        f"{word}: {task}, {variant}, seed{'s' * (len(runs) > 1)} {seeds_text(runs.seed)}: {reason}"
        for (task, variant, reason), runs in rows.groupby([*RUN[:2], "reason"], sort=False)
    ]
    return shortened([x.removesuffix(": ") for x in lines], MOST_LINES, "and {} more such lines")


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

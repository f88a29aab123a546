"""Tables: what a study found, as data. `render` writes it as markdown, LaTeX, HTML, CSV or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ablations.records import Plan
from ablations.report.captions import caption, notes
from ablations.report.scores import Cell, Scores, scores
from ablations.report.statistics import (
    LEVEL,
    Comparison,
    compare,
    holm,
    interval,
    iqm,
    seeds_to_decide,
    verdict,
)

if TYPE_CHECKING:
    import pandas

ALL_TASKS = "all tasks"


@dataclass(frozen=True)
class Entry:
    """One variant on one task, in the metric's units; on "all tasks", in score units.

    baseline: what the variant is compared with; None for one that heads its group.
    n, n_failed, n_empty, n_missing, n_planned: cells with a score, diverged or broken ones, those
        without a value where the score looks, those that have not run, and all.
    iqm, low, high: interquartile mean and its 95% interval. None on "all tasks".
    best, tied: highest IQM of its task; not significantly different from the best (Holm, paired t).
    n_pairs: seeds that variant and baseline both have. The rest as in `statistics.Comparison`.
    p_holm: adjusted over all comparisons of the study's tasks; "all tasks" is another family.
    verdict: "better", "worse", "equivalent" or "undecided" (`statistics.verdict`); "higher" and
        "lower" for a metric that is not a score; "one seed" or "no pairs" where neither holds.
    seeds_to_decide: for "undecided"; None if that is more than 10,000.
    """

    task: str
    variant: str
    baseline: str | None = None
    n: int = 0
    n_failed: int = 0
    n_empty: int = 0
    n_missing: int = 0
    n_planned: int = 0
    iqm: float | None = None
    low: float | None = None
    high: float | None = None
    best: bool = False
    tied: bool = False
    n_pairs: int | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    wilcoxon_p: float | None = None
    p_equivalent: float | None = None
    margin: float | None = None
    probability_of_improvement: float | None = None
    verdict: str | None = None
    seeds_to_decide: int | None = None


@dataclass(frozen=True)
class Table:
    """What a study found, from its plan and records alone: same records, same table.

    variants: each after the one it is compared with. rows: one entry per task and variant, then one
    per comparison on "all tasks" where there is more than one task.
    """

    study: str
    title: str
    metric: str
    score: str
    tasks: tuple[str, ...]
    variants: tuple[str, ...]
    rows: tuple[Entry, ...]
    caption: str
    notes: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(Entry))

    def entry(self, task: str, variant: str) -> Entry | None:
        """The row of a task (or "all tasks") and variant."""
        for row in self.rows:
            if (row.task, row.variant) == (task, variant):
                return row
        return None

    def dataframe(self) -> pandas.DataFrame:
        """One row per variant and task, numeric columns; caption and notes in `.attrs`."""
        import pandas

        frame = pandas.DataFrame([asdict(row) for row in self.rows], columns=list(self.columns))
        texts = ("task", "variant", "baseline", "verdict")
        for field in fields(Entry):
            if field.name not in texts and field.type != "bool":
                frame[field.name] = pandas.to_numeric(frame[field.name])
        frame.attrs = {"caption": self.caption, "notes": list(self.notes)}
        return frame


def table(plan: Plan, results: Path, *, metric: str | None = None, score: str = "final") -> Table:
    """The comparison that a plan makes, from its records.

    metric: column of the curve, the study's by default. score: "final", the mean over the last
    tenth of training, or "auc", the mean over all of it. Raises UserError for unknown ones,
    DamagedRecord for a broken record. A metric that is not a return has no margin and no direction.
    """
    found = scores(plan, results, metric=metric, score=score)
    judged = is_score(plan, found.metric)
    baselines = {name: baseline_of(plan, name) for name in plan.variants}
    order = tuple(name for name, _ in grouped(baselines))
    described: list[dict[str, Any]] = []
    family: list[tuple[Comparison | None, float | None]] = []
    for task in plan.tasks:
        margin = plan.study["margin"] * plan.tasks[task]["score_unit"] if judged else None
        marks = _best(found, task, order) if judged else {}
        for variant in order:
            versus = baselines[variant]
            comparison = None
            if versus is not None:
                comparison = compare(*_paired(found, [task], variant, versus), margin)
            family.append((comparison, margin))
            described.append(_described(found, task, variant, marks))
    judgements = _judged(family, judged)
    rows = [
        Entry(**row, baseline=baselines[row["variant"]], **judgement)
        for row, judgement in zip(described, judgements, strict=True)
    ]
    if judged and len(plan.tasks) > 1:
        rows += _over_tasks(plan, found, order, baselines)
    return Table(
        study=plan.study["name"],
        title=plan.study["title"],
        metric=found.metric,
        score=score,
        tasks=tuple(plan.tasks),
        variants=order,
        rows=tuple(rows),
        caption=caption(plan, found, judged),
        notes=tuple(notes(plan, found, baselines)),
    )


def render(table: Table, format: str) -> str:
    """A table as text: markdown, latex, csv, html or json. Raises UserError for another format."""
    from ablations.report import formats

    return formats.render(table, format)


def is_score(plan: Plan, metric: str) -> bool:
    """Whether a metric is in the units of the task's score, where higher is better."""
    return metric == plan.study["metric"] or metric.rpartition("/")[2] == "return"


def baseline_of(plan: Plan, variant: str) -> str | None:
    """What a variant is compared with; None for the baseline itself and for one `versus` itself."""
    versus = plan.variants[variant].get("versus") or plan.study["baseline"]
    return None if versus == variant else versus


def grouped(baselines: Mapping[str, str | None]) -> Iterator[tuple[str, int]]:
    """Every variant, each directly under the one it is compared with, and how deep it stands."""
    seen: set[str] = set()

    def under(name: str, depth: int) -> Iterator[tuple[str, int]]:
        if name not in seen:
            seen.add(name)
            yield name, depth
            for other, versus in baselines.items():
                if versus == name:
                    yield from under(other, depth + 1)

    # Heads first; then whatever hangs on a variant that this plan leaves out, or on each other.
    for name, versus in baselines.items():
        if versus is None:
            yield from under(name, 0)
    for name in baselines:
        yield from under(name, 1)


def _paired(
    found: Scores, tasks: list[str], variant: str, baseline: str, units: tuple[float, ...] = (1.0,)
) -> tuple[np.ndarray, np.ndarray]:
    """Mean over tasks of score / unit, `[n]` each, over the seeds that both have on every task."""
    ours = [found.by_seed(task, variant) for task in tasks]
    theirs = [found.by_seed(task, baseline) for task in tasks]
    seeds = sorted(set.intersection(*(set(one) for one in ours + theirs)))

    def mean(scores: list[dict[int, float]]) -> np.ndarray:
        scaled = [[one[s] / unit for s in seeds] for one, unit in zip(scores, units, strict=True)]
        return np.mean(scaled, axis=0)

    return mean(ours), mean(theirs)


def _described(found: Scores, task: str, variant: str, marks: Mapping[str, str]) -> dict[str, Any]:
    cells = found.of(task, variant)
    values = np.array([cell.value for cell in cells if cell.status == "done"])
    low, high = interval(values)
    return {
        "task": task,
        "variant": variant,
        "n": len(values),
        **_counts(cells),
        "n_planned": len(cells),
        "iqm": _number(iqm(values)),
        "low": _number(low),
        "high": _number(high),
        "best": marks.get(variant) == "best",
        "tied": marks.get(variant) == "tied",
    }


def _counts(cells: list[Cell]) -> dict[str, Any]:
    return {
        f"n_{status}": sum(cell.status == status for cell in cells)
        for status in ("failed", "empty", "missing")
    }


def _best(found: Scores, task: str, variants: tuple[str, ...]) -> dict[str, str]:
    """variant -> "best" or "tied". Ties: Holm over the paired comparisons with the best."""
    values = {v: list(found.by_seed(task, v).values()) for v in variants}
    present = {v: float(iqm(scores)) for v, scores in values.items() if scores}
    if len(present) < 2:
        return {}
    best = max(present, key=lambda v: present[v])
    others = [v for v in present if v != best]
    compared = [compare(*_paired(found, [task], v, best)) for v in others]
    adjusted = holm([np.nan if c.p is None else c.p for c in compared])
    ties = {v: "tied" for v, p in zip(others, adjusted, strict=True) if p >= LEVEL}
    return {best: "best"} | ties


def _over_tasks(
    plan: Plan,
    found: Scores,
    order: tuple[str, ...],
    baselines: Mapping[str, str | None],
) -> list[Entry]:
    """One entry per comparison: mean over tasks of difference / score unit, per seed."""
    tasks = list(plan.tasks)
    units = tuple(plan.tasks[task]["score_unit"] for task in tasks)
    margin = plan.study["margin"]
    compared = [(v, versus) for v in order if (versus := baselines[v]) is not None]
    family: list[tuple[Comparison | None, float | None]] = [
        (compare(*_paired(found, tasks, v, versus, units), margin), margin)
        for v, versus in compared
    ]
    entries = []
    for (variant, versus), judgement in zip(compared, _judged(family, True), strict=True):
        cells = [cell for task in tasks for cell in found.of(task, variant)]
        complete = set.intersection(*(set(found.by_seed(task, variant)) for task in tasks))
        planned = {cell.seed for cell in cells}
        entry = Entry(
            task=ALL_TASKS,
            variant=variant,
            baseline=versus,
            n=len(complete),
            **_counts(cells),
            n_planned=len(planned),
            **judgement,
        )
        entries.append(entry)
    return entries


def _judged(
    family: list[tuple[Comparison | None, float | None]], judged: bool
) -> list[dict[str, Any]]:
    """The statistical fields of each entry of one Holm family."""
    p_values = [np.nan if c is None or c.p is None else c.p for c, _ in family]
    made = int(np.sum(~np.isnan(p_values)))
    judgements: list[dict[str, Any]] = []
    for (comparison, margin), adjusted in zip(family, holm(p_values), strict=True):
        if comparison is None:
            judgements.append({"margin": margin})
            continue
        p_holm = _number(adjusted)
        said = _said(comparison, p_holm, judged)
        judgements.append(
            {
                "n_pairs": comparison.n,
                "difference": comparison.difference,
                "difference_low": comparison.low,
                "difference_high": comparison.high,
                "p": comparison.p,
                "p_holm": p_holm,
                "wilcoxon_p": comparison.wilcoxon_p,
                "p_equivalent": comparison.p_equivalent,
                "margin": margin,
                "probability_of_improvement": comparison.probability_of_improvement,
                "verdict": said,
                "seeds_to_decide": seeds_to_decide(comparison, margin, made)
                if said == "undecided"
                else None,
            }
        )
    return judgements


def _said(comparison: Comparison, p_holm: float | None, judged: bool) -> str:
    if comparison.n < 2:
        return ("no pairs", "one seed")[comparison.n]
    said = verdict(comparison, p_holm)
    return said if judged else {"better": "higher", "worse": "lower"}.get(said, said)


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)

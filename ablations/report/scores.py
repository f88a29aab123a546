"""Scores of a plan: one number per cell. Failed and missing cells stay visible."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations import plugins
from ablations.curve import Curve, diverged
from ablations.errors import unknown
from ablations.records import Plan
from ablations.report.results import Once, Results, Run

Floats = NDArray[np.float64]
Status = Literal["done", "failed", "empty", "missing"]


def final(steps: ArrayLike, values: ArrayLike) -> float:
    """Compute the mean over the last tenth of training.

    Those are the points `[n]` that end after 90% of the last step, which may be 0. Points without a
    value (null or NaN: no episode finished in them) are left out; NaN if all are.
    """
    ends, numbers = _points(steps, values)
    last = ends.max(initial=0)
    inside = numbers[(10 * ends > 9 * last) | (ends == last)]
    inside = inside[~np.isnan(inside)]
    return float(inside.mean()) if len(inside) else math.nan


def auc(steps: ArrayLike, values: ArrayLike) -> float:
    """Compute the area under the curve `[n]` over the steps it spans: a mean over training.

    Trapezoids between the points that have a finite value. The first value is held back to step 0
    and the last one to the end, so that all variants are divided by the same steps. NaN if no point
    has a value.
    """
    ends, numbers = _points(steps, values)
    seen = np.isfinite(numbers)
    if not seen.any():
        return math.nan
    total = ends[-1]
    if not total:
        return final(steps, values)
    x = np.concatenate([[0], ends[seen], [total]]).astype(np.float64)
    y = np.concatenate([numbers[seen][:1], numbers[seen], numbers[seen][-1:]])
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2) / total)


LAST = 3  # evaluations that a score is the mean of


def last(steps: ArrayLike, values: ArrayLike) -> float:
    """Compute the mean of the last `LAST` points `[n]` that have a value; NaN of fewer."""
    _, numbers = _points(steps, values)
    seen = numbers[~np.isnan(numbers)]
    return float(seen[-LAST:].mean()) if len(seen) >= LAST else math.nan


def mean(steps: ArrayLike, values: ArrayLike) -> float:
    """Compute the mean of all points `[n]` that have a value; NaN where none has."""
    _, numbers = _points(steps, values)
    seen = numbers[~np.isnan(numbers)]
    return float(seen.mean()) if len(seen) else math.nan


Score = Callable[[ArrayLike, ArrayLike], float]
SCORES: Mapping[str, Score] = {"final": final, "auc": auc, "last": last, "mean": mean}


NO_CURVE = Curve(np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True)
class Cell:
    """The part of a cell in a table.

    status: "done"; "failed", with the reason (and the environment step, where known); "empty", done
        but the metric has no value where the score looks; "missing", not run yet.
    value: its score, NaN unless done. curve: of the metric, without points where it failed.
    hash: names its record; two variants that compose to the same cell share it.
    diverged: it failed because training gave no numbers, which is a result.
    """

    task: str
    variant: str
    seed: int
    status: Status
    value: float = math.nan
    reason: str | None = None
    failed_step: int | None = None
    curve: Curve = NO_CURVE
    hash: str = ""
    diverged: bool = False

    def same(self, other: Cell) -> bool:
        """Return whether two cells that ran are the same bits.

        Two that failed at the same step may be; of an unknown step nothing is said.
        """
        if self.hash and self.hash == other.hash:
            return True
        if self.status != other.status:
            return False
        if self.status == "failed":
            return self.failed_step is not None and self.failed_step == other.failed_step
        same = np.array_equal(self.curve.steps, other.curve.steps)
        return same and np.array_equal(self.curve.values, other.curve.values, equal_nan=True)


@dataclass(frozen=True)
class Scores:
    """The scores of a plan's cells.

    versions: which package versions made how many of them. edited: lines on plugins that were
    edited in between.
    """

    metric: str
    score: str
    cells: tuple[Cell, ...]
    versions: tuple[tuple[Mapping[str, str], int], ...]
    edited: tuple[str, ...] = ()

    def of(self, task: str, variant: str) -> list[Cell]:
        """Return the cells of a task and variant, by seed."""
        return list(self._by_place.get((task, variant), ()))

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], list[Cell]]:
        by_place: dict[tuple[str, str], list[Cell]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.seed):
            by_place.setdefault((cell.task, cell.variant), []).append(cell)
        return by_place

    @cached_property
    def values(self) -> Mapping[str, Sequence[float]]:
        """Return all scores by their tasks."""
        values: dict[str, list[float]] = {}
        for cell in self.cells:
            if cell.status == "done":
                values.setdefault(cell.task, []).append(cell.value)
        return values

    def curves(self, task: str, variant: str) -> list[Curve]:
        """Return the curves of the cells that ended well, by seed."""
        return [cell.curve for cell in self.of(task, variant) if len(cell.curve.steps)]

    def identical(self, tasks: Sequence[str], variant: str, other: str) -> bool:
        """Return whether two variants trained alike, bit for bit, on every seed that both have.

        They share the cell, or their whole curves are equal. Two runs that failed at the same step
        say nothing, at different steps that they differ. False where no seed has a score on both
        sides.
        """
        seen = 0
        for task in tasks:
            theirs = {cell.seed: cell for cell in self.of(task, other)}
            for cell in self.of(task, variant):
                twin = theirs.get(cell.seed)
                if twin is None or "missing" in (cell.status, twin.status):
                    continue
                if not cell.same(twin):
                    return False
                seen += cell.status == "done" or cell.hash == twin.hash != ""
        return seen > 0

    def where(self, kept: Callable[[Cell], bool]) -> Scores:
        """Return the scores of some cells alone."""
        return replace(self, cells=tuple(filter(kept, self.cells)))

    def below(self, seeds: int) -> Scores:
        """Return the scores of the seeds below a number."""
        return self.where(lambda cell: cell.seed < seeds)

    def with_diverged(self, floors: Mapping[str, float]) -> Scores:
        """Count a run that diverged as the worst score of its task, or its floor if that is lower.

        floors: task -> a score that is known to be bad.
        """
        worst = dict(floors)
        for cell in self.cells:
            if cell.status == "done":
                worst[cell.task] = min(worst.get(cell.task, math.inf), cell.value)
        return replace(
            self,
            cells=tuple(
                replace(cell, status="done", value=worst[cell.task])
                if cell.diverged and cell.task in worst
                else cell
                for cell in self.cells
            ),
        )

    def ended(self, task: str, variant: str) -> int:
        """Count the seeds, from 0 on, that have ended one after the other, well or not."""
        ended = {cell.seed for cell in self.of(task, variant) if cell.status != "missing"}
        return next(seed for seed in itertools.count() if seed not in ended)

    def failures(self, tasks: Iterable[str], variant: str) -> int:
        """Count the cells of a variant that failed."""
        return sum(cell.status == "failed" for task in tasks for cell in self.of(task, variant))

    def on_common_seeds(
        self,
        tasks: Sequence[str],
        variants: Iterable[str],
        units: Mapping[tuple[str, str], float] | None = None,
    ) -> Floats:
        """Return the scores `[tasks, variants, n]` on the seeds that all have on every task.

        units: (task, variant) -> what its scores are divided by, where they are.
        """
        sizes = units or {}
        places = [[(task, variant) for variant in variants] for task in tasks]
        by_seed = {place: self.by_seed(*place) for row in places for place in row}
        seeds = sorted(set.intersection(*map(set, by_seed.values())))
        return np.array(
            [
                [
                    np.array([by_seed[place][seed] for seed in seeds]) / sizes.get(place, 1.0)
                    for place in row
                ]
                for row in places
            ]
        )

    def by_seed(self, task: str, variant: str) -> dict[int, float]:
        """Return seed -> score, of the cells that have one."""
        return {cell.seed: cell.value for cell in self.of(task, variant) if cell.status == "done"}


@Once
def scores(results: Results, *, metric: str | None = None, score: str | None = None) -> Scores:
    """Score every cell of a plan.

    Of a record that is damaged a line says so, and its cell is missing.

    Args:
        results: of the plan.
        metric: a column of the curves; by default the study's own.
        score: one of `SCORES`; by default the plan's, of evaluations, and "final" of all else.

    Raises:
        UserError: an unknown metric or score.
    """
    study = results.plan.study
    metric = metric or study.metric
    stated = study.score if metric.startswith(EVALUATION) else None
    return _scores(results, metric, score or stated or "final", strict=True)


# What one looks at to see why a variant learns as it does, where a trainer records it.
DIAGNOSTICS = (
    "policy/clip_fraction",
    "value/clip_fraction",
    "policy/approximate_kl",
    "policy/entropy",
    "value/explained_variance",
    "gradient/norm",
    "advantage/std",
    "loss/value",
    "policy/kl_reference",
    "training/zero_variance_groups",
    "training/length",
)
EVALUATION = "evaluation/"  # what the names of its metrics begin with
MOST_OTHERS = 8
ROUNDING = 1e-9


@Once
def diagnostic_scores(
    results: Results, names: tuple[str, ...] = DIAGNOSTICS, score: str = "final"
) -> dict[str, Scores]:
    """Score the cells by those of some metrics that the records have.

    A trainer that has none of them is scored by the first `MOST_OTHERS` of its metrics that are
    neither the study's own nor evaluations.

    Returns:
        metric -> its scores.
    """
    runs = results.runs(*names)
    columns = next((r.metrics for r in runs if r.record and r.record.status == "done"), ())
    own = results.plan.study.metric
    others = [n for n in columns if n != own and not n.startswith(EVALUATION)][:MOST_OTHERS]
    chosen = [name for name in names if name in columns] or others
    results.runs(*chosen)
    return {name: _scores(results, name, score, strict=False) for name in chosen}


def moves(scored: Scores) -> bool:
    """Return whether a metric is ever anything but one number, up to rounding."""
    values = [
        c.curve.values[~np.isnan(c.curve.values)] for c in scored.cells if len(c.curve.values)
    ]
    together = np.concatenate(values) if values else np.zeros(0)
    return len(together) > 0 and bool(np.ptp(together) > ROUNDING)


def largest(scored: Scores) -> float:
    """Return the finite value of a metric that is furthest from 0; 0 where there is none."""
    values = [cell.curve.values for cell in scored.cells]
    return max((float(np.max(abs(v[np.isfinite(v)]), initial=0)) for v in values), default=0.0)


def is_score(plan: Plan, metric: str) -> bool:
    """Return whether a metric is in the units of the task's score, where higher is better."""
    return metric == plan.study.metric or metric.rpartition("/")[2] == "return"


def step_unit(plan: Plan) -> str:
    """Name a step of the study's trainer, in the plural, for labels and captions."""
    return f"{plan.study.step_unit or 'environment step'}s"


def baseline_of(plan: Plan, variant: str) -> str | None:
    """Return what a variant is compared with; None for the baseline and for one `versus` itself."""
    versus = plan.variants[variant].versus or plan.study.baseline
    return None if versus == variant else versus


def grouped(baselines: Mapping[str, str | None]) -> Iterator[tuple[str, int]]:
    """Yield every variant, directly under the one it is compared with, and its depth."""
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


def _scores(results: Results, metric: str, score: str, *, strict: bool) -> Scores:
    """Score the cells by a metric. strict: refuse records that lack it, which else are empty."""
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    runs = results.runs(metric)
    records = [run.record for run in runs if run.record is not None]
    versions = Counter(
        tuple(sorted(record.provenance.get("versions", {}).items())) for record in records
    )
    return Scores(
        metric,
        score,
        tuple(_cell(run, metric, SCORES[score], strict) for run in runs),
        tuple((dict(which), count) for which, count in versions.most_common()),
        tuple(plugins.edited(record.provenance.get("plugins", {}) for record in records)),
    )


def _cell(run: Run, metric: str, score: Score, strict: bool) -> Cell:
    scored, record = partial(Cell, *run.cell.place, hash=run.cell.hash), run.record
    if record is None:
        return scored("missing")
    if record.status == "failed":
        diverged_in_training = record.failure in (None, "diverged")
        return scored(
            "failed",
            reason=record.reason,
            failed_step=record.failed_step,
            diverged=diverged_in_training,
        )
    if (curve := run.curves.get(metric)) is None:
        if strict:
            raise unknown("metric", metric, run.metrics)
        return scored("empty")
    if curve.status == "diverged":
        reason = diverged(metric, curve.end)
        step = int(curve.end)
        return scored("failed", reason=reason, failed_step=step, diverged=True)
    value = score(curve.steps, curve.values)
    if math.isinf(value):
        return scored("failed", reason=f"{metric} is infinite", diverged=True)
    return scored("empty" if math.isnan(value) else "done", value, curve=curve)


def _points(steps: ArrayLike, values: ArrayLike) -> tuple[NDArray[np.int64], Floats]:
    return np.asarray(steps, dtype=np.int64), np.asarray(values, dtype=np.float64)

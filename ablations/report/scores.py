"""From a plan and its records to one number per cell. Failed and missing cells stay visible."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations import plugins
from ablations.curve import Curve, diverged, logged
from ablations.errors import unknown
from ablations.records import Plan, Record, read_runs

Floats = NDArray[np.float64]
Status = Literal["done", "failed", "empty", "missing"]


def final(steps: ArrayLike, values: ArrayLike) -> float:
    """Mean over the last tenth of training: the points `[n]` that end after 90% of the last step,
    which may be 0.

    Points without a value (null or NaN: no episode finished in them) are left out; NaN if all are.
    """
    ends, numbers = _points(steps, values)
    last = ends.max(initial=0)
    inside = numbers[(10 * ends > 9 * last) | (ends == last)]
    inside = inside[~np.isnan(inside)]
    return float(inside.mean()) if len(inside) else math.nan


def auc(steps: ArrayLike, values: ArrayLike) -> float:
    """Area under the curve `[n]` over the steps it spans: a mean over training, in the metric's
    units.

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


Score = Callable[[ArrayLike, ArrayLike], float]
SCORES: Mapping[str, Score] = {"final": final, "auc": auc}


NO_CURVE = Curve(np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True)
class Cell:
    """One cell's part in a table.

    status: "done"; "failed", with the reason (and the environment step, where known); "empty", done
        but the metric has no value where the score looks; "missing", not run yet.
    value: its score, NaN unless done. curve: of the metric, without points where it failed.
    hash: names its record; two variants that compose to the same cell share it.
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


@dataclass(frozen=True)
class Scores:
    """The scores of a plan's cells, which package versions made how many of them, and lines on
    plugins that were edited in between."""

    metric: str
    score: str
    cells: tuple[Cell, ...]
    versions: tuple[tuple[Mapping[str, str], int], ...]
    edited: tuple[str, ...] = ()

    def of(self, task: str, variant: str) -> list[Cell]:
        """The cells of a task and variant, by seed."""
        return list(self._by_place.get((task, variant), ()))

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], list[Cell]]:
        found: dict[tuple[str, str], list[Cell]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.seed):
            found.setdefault((cell.task, cell.variant), []).append(cell)
        return found

    def curves(self, task: str, variant: str) -> list[Curve]:
        """The curves of the cells that ended well, by seed."""
        return [cell.curve for cell in self.of(task, variant) if len(cell.curve.steps)]

    def identical(self, tasks: Sequence[str], variant: str, other: str) -> bool:
        """Whether two variants trained alike, bit for bit, on every seed that both have: they share
        the cell, or their whole curves are equal.

        Two runs that failed at the same step say nothing, at different steps that they differ.
        False where no seed has a score on both sides.
        """
        seen = 0
        for task in tasks:
            theirs = {cell.seed: cell for cell in self.of(task, other)}
            for cell in self.of(task, variant):
                twin = theirs.get(cell.seed)
                if twin is None or "missing" in (cell.status, twin.status):
                    continue
                if not _same(cell, twin):
                    return False
                seen += cell.status == "done" or cell.hash == twin.hash != ""
        return seen > 0

    def below(self, seeds: int) -> Scores:
        """Those of the seeds below a number."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.seed < seeds))

    def ended(self, task: str, variant: str) -> int:
        """How many seeds, from 0 on, have ended one after the other, well or not."""
        ended = {cell.seed for cell in self.of(task, variant) if cell.status != "missing"}
        return next(seed for seed in itertools.count() if seed not in ended)

    def by_seed(self, task: str, variant: str) -> dict[int, float]:
        """seed -> score of those cells that have one."""
        return {cell.seed: cell.value for cell in self.of(task, variant) if cell.status == "done"}


def _same(one: Cell, other: Cell) -> bool:
    if one.hash and one.hash == other.hash:
        return True
    if one.status != other.status:
        return False
    if one.status == "failed":
        return one.failed_step is not None and one.failed_step == other.failed_step
    ours, theirs = one.curve, other.curve
    same = np.array_equal(ours.steps, theirs.steps)
    return same and np.array_equal(ours.values, theirs.values, equal_nan=True)


def scores(plan: Plan, results: Path, *, metric: str | None = None, score: str = "final") -> Scores:
    """Reads every record of a plan.

    Of a record that is damaged a line says so, and its cell is missing. Raises UserError for an
    unknown metric or score.
    """
    column = metric or plan.study.metric
    return _read(plan, results, [column], score)[column]


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
ROUNDING = 1e-9


def diagnostic_scores(
    plan: Plan,
    results: Path,
    most: int = 8,
    names: Sequence[str] = DIAGNOSTICS,
    score: str = "final",
) -> dict[str, Scores]:
    """metric -> its scores, for those of `names` that the records have; for a trainer that has
    none of them its first `most` metrics other than the study's own and evaluations."""
    columns: list[str] = []
    for _, record, curve in read_runs(results, plan):
        if record is not None and record.status == "done":
            columns = [n for n in curve if n != "step"]
            break
    chosen = [name for name in names if name in columns] or [
        name for name in columns if name != plan.study.metric and not name.startswith("evaluation/")
    ][:most]
    return _read(plan, results, chosen, score, strict=False) if chosen else {}


def moves(found: Scores) -> bool:
    """Whether a metric is ever anything but one number, up to rounding."""
    values = [c.curve.values[~np.isnan(c.curve.values)] for c in found.cells if len(c.curve.values)]
    together = np.concatenate(values) if values else np.zeros(0)
    return len(together) > 0 and bool(np.ptp(together) > ROUNDING)


def is_score(plan: Plan, metric: str) -> bool:
    """Whether a metric is in the units of the task's score, where higher is better."""
    return metric == plan.study.metric or metric.rpartition("/")[2] == "return"


def step_unit(plan: Plan) -> str:
    """What a step of the study's trainer is, in the plural, for labels and captions."""
    return f"{plan.study.step_unit or 'environment step'}s"


def baseline_of(plan: Plan, variant: str) -> str | None:
    """What a variant is compared with; None for the baseline itself and for one `versus` itself."""
    versus = plan.variants[variant].versus or plan.study.baseline
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


def _read(
    plan: Plan, results: Path, columns: Sequence[str], score: str, *, strict: bool = True
) -> dict[str, Scores]:
    """Several metrics of a plan's records, each record read once. strict: a record that lacks one
    is an error; otherwise it has no value of it."""
    if score not in SCORES:
        raise unknown("score", score, SCORES)
    cells: dict[str, list[Cell]] = {column: [] for column in columns}
    versions: Counter[tuple[tuple[str, str], ...]] = Counter()
    used: list[Mapping[str, str]] = []
    for cell, record, curve in read_runs(results, plan):
        place = cell.place
        if record is None:
            for column in columns:
                cells[column].append(Cell(*place, "missing", hash=cell.hash))
            continue
        used.append(record.provenance.get("plugins", {}))
        made_by = record.provenance.get("versions", {})
        versions[tuple(sorted((str(k), str(v)) for k, v in made_by.items()))] += 1
        for column in columns:
            if not strict and record.status == "done" and column not in curve:
                cells[column].append(Cell(*place, "empty", hash=cell.hash))
                continue
            made = _cell(place, record, curve, column, SCORES[score])
            cells[column].append(replace(made, hash=cell.hash))
    makers = tuple((dict(which), count) for which, count in versions.most_common())
    edited = tuple(plugins.edited(used))
    return {
        column: Scores(column, score, tuple(of), makers, edited) for column, of in cells.items()
    }


def _cell(
    place: tuple[str, str, int],
    record: Record,
    curve: Mapping[str, Any],
    column: str,
    score: Score,
) -> Cell:
    if record.status == "failed":
        return Cell(*place, "failed", reason=record.reason, failed_step=record.failed_step)
    if column not in curve:
        raise unknown("metric", column, (name for name in curve if name != "step"))
    one = logged(curve["step"], curve[column])
    if one.status == "diverged":
        return Cell(*place, "failed", reason=diverged(column, one.end), failed_step=int(one.end))
    value = score(one.steps, one.values)
    if math.isinf(value):
        return Cell(*place, "failed", reason=f"{column} is infinite")
    return Cell(*place, "empty" if math.isnan(value) else "done", value, curve=one)


def _points(steps: ArrayLike, values: ArrayLike) -> tuple[NDArray[np.int64], Floats]:
    return np.asarray(steps, dtype=np.int64), np.asarray(values, dtype=np.float64)
